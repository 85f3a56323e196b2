/* gelu.c - y = x * Phi(x), block by block. y may be x. */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gelu.h"
#include "kernels/ops/shape.h"

static TideStatus run(const KernelCall *c)
{
    const float *x = c->in[0];
    float *y = c->out[0];
    int64_t n = shape_elements(c->out_info[0]->shape);
    bool erf = ((const GeluAttr *)c->node->attr.bytes)->erf;

#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < n; first += GELU_BLOCK) {
        int64_t end = first + GELU_BLOCK < n ? first + GELU_BLOCK : n;
        if (erf) {
#pragma omp simd
            for (int64_t i = first; i < end; i++) y[i] = x[i] * phi_erf(x[i]);
        } else {
#pragma omp simd
            for (int64_t i = first; i < end; i++) y[i] = x[i] * phi_tanh(x[i]);
        }
    }
    return TIDE_OK;
}

const Kernel cpu_gelu = { .run = run };
