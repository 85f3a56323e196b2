/* agreement_sweep.h - every case of agreement.h in every type, at its own sizes and at drawn ones. */
#ifndef TIDE_TESTS_AGREEMENT_SWEEP_H
#define TIDE_TESTS_AGREEMENT_SWEEP_H
#include <stdio.h>

/* Run all cases on a device, several at a time, each thread with a handle of its own; without a GPU only
 * what the CPU device can. Writes what disagrees and a table of the largest error of each op. Returns
 * how many cases disagree or could not run. */
int agree_sweep(const char *device, FILE *out);

#endif
