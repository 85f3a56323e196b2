/* cross_entropy.c - one row at a time: largest logit, sum of exponentials, loss. */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/softmax_row.h"
#include "kernels/ops/shape.h"

static float row_loss(const float *x, int32_t target, const TideClasses *a)
{
    if (target == a->ignore || target < 0 || target >= a->vocab) return 0.0f;
    float max = row_max(x, a->vocab);
    return (float)(log(row_exp(x, NULL, a->vocab, max)) + (double)max - (double)x[target]);
}

static TideStatus run(const KernelCall *c)
{
    const TideClasses *a = (const void *)c->node->attr.bytes;
    const float *logits = c->in[0];                                /* [rows, padded vocab] */
    const int32_t *targets = (const int32_t *)c->in[1] + a->first; /* [rows] */
    float *losses = (float *)c->out[0] + a->first;                 /* [rows] */
    int64_t rows = shape_rows(c->in_info[0]->shape), width = shape_width(c->in_info[0]->shape);

#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++) losses[r] = row_loss(logits + r * width, targets[r], a);
    return TIDE_OK;
}

const Kernel cpu_cross_entropy = { .run = run };
