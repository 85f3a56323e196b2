/* agreement.h - ops on a device against the CPU's kernels, and against their meaning in double.
 *
 * A case builds one small program on both sides; the CPU's works in f32 on the numbers that the
 * device's type can hold. Compared are all tensors at the end, and what each node wrote with what it
 * should have made of the inputs that it found (reference.h). Besides: the device's bits are the same
 * in a second run, nodes marked `again` give equal bits, and nothing is written outside its tensor. */
#ifndef TIDE_TESTS_AGREEMENT_H
#define TIDE_TESTS_AGREEMENT_H
#include "tests/support/side.h"

typedef struct AgreeCase {
    const char *name;
    void (*build)(Side *s);
    double scale; /* of the numbers */
} AgreeCase;

/* Rows of a table, NULL past the last; sizes are B, T, C, V. */
const AgreeCase *agree_case(int i);
const int64_t *agree_sizes(int i);

/* The same of linear layers, whose sizes are B, T, K, N, and of attention: B, T, heads, head_dim. A wish
 * in the numerics record is what the case is about; none: the fastest is chosen. */
typedef struct AgreeDense {
    AgreeCase agree;
    const int64_t (*sizes)[SIDE_SIZES]; /* past the last: zeros */
    bool attention;
    const char *what, *wish;
} AgreeDense;
const AgreeDense *agree_dense(int i);
/* Put a wish into a device's numerics record; false: it refused. */
bool agree_wish(Tide *device, const char *what, const char *wish);

/* Sizes drawn from what models have and what is odd: each value of B, T, heads, head_dim and V comes up.
 * NULL past the last. */
typedef struct AgreeDrawn {
    int64_t B, T, heads, head_dim, V;
} AgreeDrawn;
const AgreeDrawn *agree_drawn(int i);

/* Types of one run; the tolerance is of max |a - b| / max |b|. */
typedef struct AgreeTypes {
    const char *name;
    TideType type, grad, state;
    double tolerance;
} AgreeTypes;
const AgreeTypes *agree_types(int i);

/* How a case is run besides, and the largest errors seen so far, by op: max |a - b| / max |b|. */
enum { AGREE_OPS = 64 };
typedef struct AgreeErrors {
    bool quick; /* nodes are not prepared: libraries take their first choice */
    double cpu[AGREE_OPS], reference[AGREE_OPS];
} AgreeErrors;

/* Run a case on an open device. False: `why` says what is wrong with which tensor. errors (NULL: not
 * wanted) grow. Cases on devices of their own may run at the same time. */
bool agree(Tide *device, const AgreeCase *c, const AgreeTypes *types, const int64_t *size,
           AgreeErrors *errors, char why[512]);

#endif
