/* add.c - y = a + b; y may be a. */
#include "kernels/cpu/cpu_kernels.h"

static TideStatus run(const KernelCall *c)
{
    const float *a = c->in[0], *b = c->in[1];
    float *y = c->out[0];
    int64_t n = shape_elements(c->out_info[0]->shape);

#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
    return TIDE_OK;
}

const Kernel cpu_add = { .run = run };
