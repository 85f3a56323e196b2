/* h200.h - a profile as of an H200, guessed from operations and bytes, for planning on any machine. */
#ifndef TIDE_TEST_H200_H
#define TIDE_TEST_H200_H
#include "runtime/profile.h"

/* The CPU device, as if it had kernels for bf16 too: for planning only. NULL without memory. */
Tide *h200_open(void);

/* Overwrite the seconds of every entry: 600 TFLOP/s for products of matrices, 450 for attention, 4.2 TB/s
 * for the rest, 2 us for each launch; and the link: 55 GB/s each way, 51 both ways, 3 us, divided by
 * slower. */
void h200_times(TideProfile *f, double slower);

#endif
