/* cross_entropy_grad.c - one row at a time: the exponentials replace the logits, then the gradient
 * replaces the exponentials. */
#include <string.h>
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/softmax_row.h"
#include "kernels/ops/shape.h"

/* x [width]: logits that become their gradient. Returns the loss. */
static float gradient_row(float *x, int64_t width, int32_t target, const TideClasses *a, float loss_scale)
{
    if (!target_counts(target, a->vocab, a->ignore)) {
        memset(x, 0, (size_t)width * sizeof *x);
        return 0.0f;
    }
    RowLoss l = row_loss(x, x, a->vocab, target);
    float scale = (float)((double)loss_scale / l.sum);

    for (int64_t i = 0; i < a->vocab; i++) x[i] *= scale;
    x[target] = (float)(-l.rest / l.sum * (double)loss_scale); /* softmax - 1, without the difference */
    memset(x + a->vocab, 0, (size_t)(width - a->vocab) * sizeof *x);
    return (float)l.loss;
}

static TideStatus run(const KernelCall *c)
{
    const TideClasses *a = (const void *)c->node->attr.bytes;
    const TideStepInfo *info = c->in[3];
    float *logits = c->out[1];                                     /* [rows, padded vocab] */
    const int32_t *targets = (const int32_t *)c->in[1] + a->first; /* [rows] */
    float *losses = (float *)c->out[0] + a->first;                 /* [rows] */
    int64_t rows = shape_rows(c->in_info[0]->shape), width = shape_width(c->in_info[0]->shape);

#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++)
        losses[r] = gradient_row(logits + r * width, width, targets[r], a, info->loss_scale);
    return TIDE_OK;
}

const Kernel cpu_cross_entropy_grad = { .run = run };
