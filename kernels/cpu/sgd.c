/* sgd.c - parameter -= lr * scale * gradient. */
#include <math.h>
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

static TideStatus run(const KernelCall *c)
{
    const float *gradient = c->in[0];
    const TideStepInfo *info = c->in[1];
    const float *norm = c->in[2];
    float *restrict p = c->out[0];
    int64_t n = shape_elements(c->in_info[0]->shape);
    float rate = info->lr * (info->grad_scale * (norm ? norm[1] : 1.0f));

    if (norm && !isfinite(norm[0])) return TIDE_OK;
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) p[i] -= rate * gradient[i];
    return TIDE_OK;
}

const Kernel cpu_sgd = { .run = run };
