/* layernorm_row.h - the rows of layernorm, shared by every op that makes or remakes one: the same
 * code gives the same bits. */
#ifndef TIDE_LAYERNORM_ROW_H
#define TIDE_LAYERNORM_ROW_H
#include <math.h>
#include <stddef.h>
#include "kernels/cpu/lanes.h"

typedef struct RowMoments {
    float mean, rstd;
} RowMoments;

/* Mean and 1 / sqrt(variance + 1e-5) of x[0 .. width), in two passes over a row that is in cache. */
static inline RowMoments layernorm_moments(const float *x, int64_t width)
{
    float s[LANES] = { 0 }, q[LANES] = { 0 };
    int64_t whole = width - width % LANES;

    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) s[l] += x[i + l];
    for (int64_t i = whole; i < width; i++) s[i - whole] += x[i];
    float mean = lanes_total(s) / (float)width;

    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) q[l] += (x[i + l] - mean) * (x[i + l] - mean);
    for (int64_t i = whole; i < width; i++) q[i - whole] += (x[i] - mean) * (x[i] - mean);
    float variance = lanes_total(q) / (float)width;

    return (RowMoments){ mean, 1.0f / sqrtf(variance + 1e-5f) };
}

/* y[i] = (x[i] - mean) * rstd * weight[i] + bias[i]; bias may be NULL. */
static inline void layernorm_row(float *restrict y, const float *restrict x, RowMoments m,
                                 const float *restrict weight, const float *restrict bias, int64_t width)
{
    if (bias)
        for (int64_t i = 0; i < width; i++) y[i] = (x[i] - m.mean) * m.rstd * weight[i] + bias[i];
    else
        for (int64_t i = 0; i < width; i++) y[i] = (x[i] - m.mean) * m.rstd * weight[i];
}

#endif
