/* adamw.c - one pass over parameters, gradients and moments; bound by memory. */
#include <math.h>
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

/* What all elements have in common. */
typedef struct Step {
    float beta1, beta2, eps, decay, lr, scale, bias1, bias2;
} Step;

/* source is the parameter itself or its master; both receive the new value. */
static void update(float *p, float *restrict m, float *restrict v, const float *restrict gradient,
                   const float *source, int64_t n, Step s)
{
    float rate = 1.0f / s.bias1, rate2 = 1.0f / s.bias2, shrink = s.lr * s.decay;

#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) {
        float g = gradient[i] * s.scale;
        float mi = s.beta1 * m[i] + (1.0f - s.beta1) * g;
        float vi = s.beta2 * v[i] + (1.0f - s.beta2) * (g * g);
        float w = source[i];
        m[i] = mi;
        v[i] = vi;
        p[i] = w - (s.lr * (mi * rate) / (sqrtf(vi * rate2) + s.eps) + shrink * w);
    }
}

static TideStatus run(const KernelCall *c)
{
    const AdamWAttr *a = (const void *)c->node->attr.bytes;
    const float *gradient = c->in[0];
    const TideStepInfo *info = c->in[1];
    const float *norm = c->in[2];
    float *p = c->out[0], *m = c->out[1], *v = c->out[2], *master = c->out[3];
    int64_t n = shape_elements(c->in_info[0]->shape);
    Step s = { a->beta1,    a->beta2,   a->eps,
               a->decay,    info->lr,   info->grad_scale * (norm ? norm[1] : 1.0f),
               info->bias1, info->bias2 };

    if (norm && !isfinite(norm[0])) return TIDE_OK;
    update(master ? master : p, m, v, gradient, master ? master : p, n, s);
    if (master) {
#pragma omp parallel for simd
        for (int64_t i = 0; i < n; i++) p[i] = master[i];
    }
    return TIDE_OK;
}

const Kernel cpu_adamw = { .run = run };
