/* side.h - one small program on any device, its tensors in one piece of device memory.
 *
 * The plain interpreter of numeric.h, for devices: nodes run one after the other on one stream. Every
 * tensor is followed by a guard that nothing may write. */
#ifndef TIDE_TESTS_SIDE_H
#define TIDE_TESTS_SIDE_H
#include "runtime/graph.h"

enum { SIDE_SIZES = 4 };

typedef struct Side {
    Tide *tide;
    TideProgram *p;
    TideGraph *g;
    TideType type, grad, state; /* of activations and parameters, of gradients, of moments      */
    const int64_t *size;        /* [SIDE_SIZES]: what the builder makes of them                  */
    bool accumulate;            /* gradients are added to                                        */
    bool unprepared;            /* nodes are not prepared: libraries take their first choice    */
    /* Once ready: */
    Stream *stream;
    char *memory;   /* on the device; tensor i at offset[i], scratch at the end */
    size_t *offset; /* [n_tensors]                                              */
    size_t bytes;   /* of the tensors and their guards                          */
    size_t scratch; /* bytes behind them                                        */
} Side;

/* A program on an open device, which outlives it, with the types that are set. */
void side_new(Side *s, Tide *t);
/* Get memory for what was built, filled with 0xff, and prepare its nodes; false: see tide_message(). */
bool side_ready(Side *s);
void side_free(Side *s);

/* Where a tensor lies on the device; NULL for 0. */
void *side_at(const Side *s, int tensor);
/* Copy all tensors at once: image is [s->bytes] on the host. */
bool side_upload(const Side *s, const void *image);
bool side_download(const Side *s, void *image);
/* Put together a call of node i; pointers [n_in + n_out] and infos [n_in + n_out] are the caller's. */
KernelCall side_call(const Side *s, int node, void **pointers, const Tensor **infos);
/* Run all nodes but those marked `again`, or only those after filling what they write with 0xff. */
bool side_run(const Side *s, bool again);

/* One node, and wait for it. */
bool side_run_node(const Side *s, int node);

/* For builders: a parameter with a gradient, a state or gradient, an input. */
TideTensor side_parameter(Side *s, const char *name, TideShape shape);
TideTensor side_persistent(Side *s, const char *name, TideKind kind, TideType type, TideShape shape);
TideTensor side_input(Side *s, const char *name, TideShape shape);
TideTensor side_ints(Side *s, const char *name, TideShape shape);
TideTensor side_info(Side *s);

#endif
