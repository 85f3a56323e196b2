/* agreement.h - ops on a device against the CPU's kernels.
 *
 * A case builds one small program on both sides; the CPU's works in f32 on the numbers that the
 * device's type can hold. Compared are all tensors. Besides: the device's bits are the same in a
 * second run, nodes marked `again` give equal bits, and nothing is written outside its tensor. */
#ifndef TIDE_TESTS_AGREEMENT_H
#define TIDE_TESTS_AGREEMENT_H
#include "tests/support/side.h"

typedef struct AgreeCase {
    const char *name;
    void (*build)(Side *s);
    double scale; /* of the numbers                                          */
    bool vocab;   /* integers are tokens or targets below size[3], a few outside */
} AgreeCase;

/* Rows of a table, NULL past the last; sizes are B, T, C, V. */
const AgreeCase *agree_case(int i);
const int64_t *agree_sizes(int i);

/* Types of one run; the tolerance is of max |a - b| / max |b|. */
typedef struct AgreeTypes {
    const char *name;
    TideType type, grad, state;
    double tolerance;
} AgreeTypes;
const AgreeTypes *agree_types(int i);

/* Run a case on an open device. False: `why` says what is wrong with which tensor. */
bool agree(Tide *device, const AgreeCase *c, const AgreeTypes *types, const int64_t *size, char why[512]);

#endif
