/* fill.c - set every element to one value. */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

static TideStatus run(const KernelCall *c)
{
    const FillAttr *a = (const void *)c->node->attr.bytes;
    int64_t n = shape_elements(c->out_info[0]->shape);

    if (c->out_info[0]->type == TIDE_I32) {
        int32_t *y = c->out[0], value = (int32_t)a->value;
#pragma omp parallel for simd
        for (int64_t i = 0; i < n; i++) y[i] = value;
    } else {
        float *y = c->out[0], value = (float)a->value;
#pragma omp parallel for simd
        for (int64_t i = 0; i < n; i++) y[i] = value;
    }
    return TIDE_OK;
}

const Kernel cpu_fill = { .run = run };
