/* lanes.h - sums of floats whose bits depend on the length alone.
 *
 * Element i goes to lane i % LANES and the lanes are added in a fixed tree, so that the
 * compiler may keep the lanes in a vector register without being free to reorder anything. */
#ifndef TIDE_LANES_H
#define TIDE_LANES_H
#include <stdint.h>

enum { LANES = 16 };

/* s[0 .. LANES) is used up. */
static inline float lanes_total(float *s)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) s[l] += s[l + half];
    return s[0];
}

#endif
