/* gelu_grad.c - dx = dy * (Phi(x) + x * Phi'(x)), block by block. dx may be dy. Then dbias, the sum of
 * the rows of dx, where there is one. */
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

static void gradient(const KernelCall *c, float *dx, int64_t n)
{
    const float *x = c->in[0], *dy = c->in[1];
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
}

static TideStatus run(const KernelCall *c)
{
    TideShape shape = c->out_info[0]->shape;
    int64_t rows = shape_rows(shape), n = shape_width(shape);

    gradient(c, c->out[0], rows * n);
    if (c->out_info[1]) column_sums((Columns){ c->out[0], rows, n, c->out[1], c->in_info[2] != NULL });
    return TIDE_OK;
}

const Kernel cpu_gelu_grad = { .run = run };
