/* column_sums.h - sums over rows, for the gradients of biases. */
#ifndef TIDE_CPU_COLUMN_SUMS_H
#define TIDE_CPU_COLUMN_SUMS_H
#include <stdbool.h>
#include <stdint.h>

/* to [n] = the sums of the columns of a [rows, n], or to += where `add`. Partial sums run over fixed blocks
 * of rows and are added in order. */
void column_sums(const float *a, int64_t rows, int64_t n, float *to, bool add);

#endif
