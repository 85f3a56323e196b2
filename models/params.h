/* params.h - the persistent tensors of a model, in two groups.
 *
 * Matrices decay, vectors (biases and the weights of norms) do not. Each group has four flat tensors,
 * of parameters, gradients and both moments of Adam, whose views lie at equal element offsets,
 * so that one launch updates a group. */
#ifndef TIDE_PARAMS_H
#define TIDE_PARAMS_H
#include "kernels/ops.h"

enum { GROUP_DECAY, GROUP_PLAIN, GROUP_COUNT };

typedef struct ParamGroup { TideTensor parameter, gradient, m, v; } ParamGroup; /* 0: group is empty */

typedef struct Params {
    TideProgram *program;
    bool         accumulate; /* several micro-steps add to the gradients before an update */
    ParamGroup   group[GROUP_COUNT];
    TideTensor   loss_flat, loss; /* f32 [1]: the sum of row losses of the micro-steps so far */
} Params;

Params     params_new(TideProgram *p, bool accumulate);
/* Declare a parameter and its gradient, "<name>.grad", and moments, "<name>.m" and "<name>.v". */
TideTensor params_add(Params *s, const char *name, TideShape shape);

#endif
