/* gelu_grad.c - dx = dy * (Phi(x) + x * Phi'(x)), block by block, and its column sums where they are wanted.
 * dx may be dy. */
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gelu.h"
#include "kernels/ops/shape.h"

static inline float slope_tanh(float x)
{
    float phi = phi_tanh(x);
    float du = 0.7978845608f * (1.0f + 3.0f * 0.044715f * (x * x));
    return phi + x * (2.0f * phi * (1.0f - phi) * du);
}

/* Phi'(x) = exp(-x^2 / 2) / sqrt(2 pi) */
static inline float slope_erf(float x)
{
    return phi_erf(x) + x * (0.3989422804f * math_exp(-0.5f * (x * x)));
}

static TideStatus run(const KernelCall *c)
{
    const float *x = c->in[0], *dy = c->in[1];
    float *dx = c->out[0];
    int64_t n = shape_elements(c->out_info[0]->shape);
    bool erf = ((const GeluAttr *)c->node->attr.bytes)->erf;

#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < n; first += GELU_BLOCK) {
        int64_t end = first + GELU_BLOCK < n ? first + GELU_BLOCK : n;
        if (erf) {
#pragma omp simd
            for (int64_t i = first; i < end; i++) dx[i] = dy[i] * slope_erf(x[i]);
        } else {
#pragma omp simd
            for (int64_t i = first; i < end; i++) dx[i] = dy[i] * slope_tanh(x[i]);
        }
    }
    if (c->out[1])
        column_sums(dx, shape_rows(c->out_info[0]->shape), shape_width(c->out_info[0]->shape), c->out[1],
                    c->in[2] != NULL);
    return TIDE_OK;
}

const Kernel cpu_gelu_grad = { .run = run };
