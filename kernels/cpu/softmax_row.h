/* softmax_row.h - what cross_entropy and cross_entropy_grad share, so that both give the same
 * losses: the largest logit of a row, the exponentials under it, their sums. */
#ifndef TIDE_SOFTMAX_ROW_H
#define TIDE_SOFTMAX_ROW_H
#include "kernels/cpu/cpu_math.h"
#include "kernels/cpu/lanes.h"

/* n >= 1. A NaN is passed over; it shows in the exponentials. */
static inline float row_max(const float *x, int64_t n)
{
    float m[LANES];
    int64_t whole = n - n % LANES;

    for (int l = 0; l < LANES; l++) m[l] = x[0];
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) m[l] = x[i + l] > m[l] ? x[i + l] : m[l];
    for (int64_t i = whole; i < n; i++) m[i - whole] = x[i] > m[i - whole] ? x[i] : m[i - whole];
    for (int l = 1; l < LANES; l++) m[0] = m[l] > m[0] ? m[l] : m[0];
    return m[0];
}

enum { EXP_BLOCK = 512 }; /* elements summed in f32 before they go to double: 32 in each lane */

/* The sum of exp(x[i] - max); the exponentials themselves go to e, which may be x, or NULL. */
static inline double row_exp(const float *x, float *e, int64_t n, float max)
{
    double sum = 0;

    for (int64_t first = 0; first < n; first += EXP_BLOCK) {
        int64_t last = first + EXP_BLOCK < n ? first + EXP_BLOCK : n, i = first;
        float s[LANES] = { 0 };
        for (; i + LANES <= last; i += LANES) {
            float t[LANES];
            for (int l = 0; l < LANES; l++) t[l] = math_exp(x[i + l] - max);
            for (int l = 0; l < LANES; l++) s[l] += t[l];
            for (int l = 0; e && l < LANES; l++) e[i + l] = t[l];
        }
        for (int l = 0; i < last; i++, l++) {
            float t = math_exp(x[i] - max);
            s[l] += t;
            if (e) e[i] = t;
        }
        sum += (double)lanes_total(s);
    }
    return sum;
}

/* The loss of a row of n logits, and the sums of its exponentials. */
typedef struct RowLoss {
    double loss, rest, sum;
} RowLoss; /* rest: without the target's */

/* The exponentials of all but the target go to e, which may be x, or NULL. The target stands apart
 * because a confident row would lose its small loss and gradient in 1 + rest. */
static inline RowLoss row_loss(const float *x, float *e, int64_t n, int32_t target)
{
    double logit = (double)x[target], max = (double)row_max(x, n), own = exp(logit - max);
    int64_t after = target + 1;
    double rest =
        row_exp(x, e, target, (float)max) + row_exp(x + after, e ? e + after : NULL, n - after, (float)max);

    return (RowLoss){ .loss = own > 0.25 ? log1p(rest / own) : log(rest + own) + max - logit,
                      .rest = rest,
                      .sum = rest + own };
}

/* Does the row count? The host refuses targets outside, but no kernel may follow one. */
static inline int target_counts(int32_t target, int32_t vocab, int32_t ignore)
{
    return target != ignore && target >= 0 && target < vocab;
}

#endif
