/* reference.h - what every op means, in double: one node from the stored values of its inputs.
 *
 * Plain loops that share no code with any kernel. What an op defines on stored, rounded values (the
 * layernorm of a stored sum) is rounded here too; nothing else is. */
#ifndef TIDE_TESTS_REFERENCE_H
#define TIDE_TESTS_REFERENCE_H
#include "runtime/op.h"

/* One run of a node. Operands that are left out are NULL. */
typedef struct ReferenceCall {
    const Node *node;
    const Tensor *const *in_info, *const *out_info;
    const void *const *stored; /* [n_in]: the bytes of the inputs, for integers                       */
    double *const *in;         /* [n_in]: their values                                                */
    double *const *out;        /* [n_out]: what was there before; becomes what should be there after */
} ReferenceCall;

/* False: the op has no reference. */
bool reference_run(const ReferenceCall *c);

/* Matrices and attention: see reference_dense.c. */
void reference_linear(const ReferenceCall *c);
void reference_linear_dx(const ReferenceCall *c);
void reference_linear_dw(const ReferenceCall *c);
void reference_attention(const ReferenceCall *c);
void reference_attention_grad(const ReferenceCall *c);

/* max |a - b| / max |b|, and max |a - b| where b is 0 all over; infinite where one is finite and the other
 * is not. What both leave unwritten is no number in both. */
double reference_error(const float *a, const double *b, int64_t n);

#endif
