/* cross_entropy.c - one row at a time; see softmax_row.h. */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/softmax_row.h"
#include "kernels/ops/shape.h"

static TideStatus run(const KernelCall *c)
{
    const TideClasses *a = (const void *)c->node->attr.bytes;
    const float *logits = c->in[0];                                /* [rows, padded vocab] */
    const int32_t *targets = (const int32_t *)c->in[1] + a->first; /* [rows] */
    float *losses = (float *)c->out[0] + a->first;                 /* [rows] */
    int64_t rows = shape_rows(c->in_info[0]->shape), width = shape_width(c->in_info[0]->shape);

#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++) {
        bool counts = target_counts(targets[r], a->vocab, a->ignore);
        losses[r] = counts ? (float)row_loss(logits + r * width, NULL, a->vocab, targets[r]).loss : 0.0f;
    }
    return TIDE_OK;
}

const Kernel cpu_cross_entropy = { .run = run };
