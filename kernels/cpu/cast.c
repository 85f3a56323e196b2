/* cast.c - this device has one float type, so a cast copies or adds. */
#include <string.h>
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

static TideStatus run(const KernelCall *c)
{
    const float *x = c->in[0];
    float *y = c->out[0];
    int64_t n = shape_elements(c->out_info[0]->shape);

    if (!c->in[1]) {
        memcpy(y, x, (size_t)n * sizeof *y);
        return TIDE_OK;
    }
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
    return TIDE_OK;
}

const Kernel cpu_cast = { .run = run };
