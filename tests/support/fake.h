/* fake.h - a device that counts what is asked of it, and ops that cost nothing to understand.
 *
 * The fake device does everything at once, in the order in which it is issued. Fake ops
 * mix the words of their inputs, so that a wrong byte anywhere changes the outcome. */
#ifndef TIDE_TEST_FAKE_H
#define TIDE_TEST_FAKE_H
#include "kernels/ops.h"
#include "runtime/graph.h"

enum { FAKE_ALIGNMENT = 64 };

typedef struct FakeCounts {
    int device_allocs, device_frees, host_allocs, host_frees;
    int launches, copies, fills, records, waits;
    size_t device_bytes, host_bytes; /* allocated and not yet freed */
} FakeCounts;

/* A device of the fake backend; tide_close() closes it. NULL without memory. */
Tide *fake_open(void);
FakeCounts *fake_counts(Tide *t);

/* The device's numerics record holds what a test puts there, or a file: see record.h. */
void fake_choose(Tide *t, const char *key, const char *value);
const char *fake_choice(Tide *t, const char *key); /* NULL: none was made */

typedef enum FakeOp {
    FAKE_MIX,        /* any inputs -> one output of attr.elements. Differentiable           */
    FAKE_OVER,       /* the same, shaped like in[0], whose bytes the output may take        */
    FAKE_PAIR,       /* x -> y like x, and a stat of 16 elements. Differentiable            */
    FAKE_PAIR_AGAIN, /* x, stat -> y: the cheaper way to the y of a pair                   */
    FAKE_BACK,       /* dy, x -> dx like x                                                  */
    FAKE_PARAM,      /* dy, gradient or 0 -> gradient of a parameter                        */
    FAKE_UPDATE,     /* parameter, gradient -> parameter, and the gradient if out[1] is set */
    FAKE_OP_COUNT
} FakeOp;

typedef struct FakeAttr {
    int64_t elements; /* of FAKE_MIX                                             */
    int64_t scratch;  /* bytes                                                   */
    int used;         /* inputs that matter to the values; 0: all               */
} FakeAttr;

extern const OpDesc fake_ops[FAKE_OP_COUNT];

/* Append one; returns its first output. Inputs are f32 of any shape. */
TideTensor fake_mix(TideGraph *g, const TideTensor *in, int n_in, FakeAttr attr);
TideTensor fake_over(TideGraph *g, const TideTensor *in, int n_in, FakeAttr attr);
/* With again, the node that makes y again from x and the stat stands beside it. */
TideTensor fake_pair(TideGraph *g, TideTensor x, bool again);
/* carried: the gradient is written too, to be added to from there on. */
TideTensor fake_update(TideGraph *g, TideTensor parameter, TideTensor gradient, bool carried);

#endif
