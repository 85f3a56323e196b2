/* params.h - the persistent tensors of a model, in two groups.
 *
 * Matrices decay, vectors (biases and the weights of norms) do not. Each group has a flat tensor of
 * parameters, gradients, both moments of Adam and, where parameters are narrow, their masters in
 * f32. Views lie at equal element offsets, so that one launch updates a group. */
#ifndef TIDE_PARAMS_H
#define TIDE_PARAMS_H
#include "kernels/ops.h"

enum { GROUP_DECAY, GROUP_PLAIN, GROUP_COUNT };

typedef struct ParamGroup { TideTensor parameter, gradient, m, v, master; } ParamGroup; /* 0: not there */

typedef struct ParamTypes { TideType parameter, gradient, moment; bool master; } ParamTypes;

typedef struct Params {
    TideProgram *program;
    ParamTypes   types;
    bool         accumulate; /* several micro-steps add to the gradients before an update */
    ParamGroup   group[GROUP_COUNT];
    TideTensor   loss_flat, loss; /* f32 [1]: the sum of row losses of the micro-steps so far */
    TideTensor   scaling;         /* i32 [8], a TideScaling; 0: no loss scaling               */
} Params;

Params     params_new(TideProgram *p, ParamTypes types, bool accumulate);
/* Declare the state of loss scaling. */
void       params_add_scaling(Params *s);
/* Declare a parameter and its gradient, "<name>.grad", moments, "<name>.m" and "<name>.v", and master,
 * "<name>.master". */
TideTensor params_add(Params *s, const char *name, TideShape shape);

#endif
