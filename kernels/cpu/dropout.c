/* dropout.c - y = x * mask / (1 - p); y may be x. */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/philox.h"
#include "kernels/ops/shape.h"

static TideStatus run(const KernelCall *c)
{
    const DropoutAttr *a = (const void *)c->node->attr.bytes;
    const float *x = c->in[0];
    float *y = c->out[0];
    int64_t n = shape_elements(c->out_info[0]->shape);
    Philox philox = philox_of(c->in[1], a->site);
    uint32_t least = philox_threshold(a->p);
    float scale = 1.0f / (1.0f - a->p);

#pragma omp parallel for
    for (int64_t first = 0; first < n; first += PHILOX_WORDS) {
        uint32_t word[PHILOX_WORDS];
        int64_t count = n - first < PHILOX_WORDS ? n - first : PHILOX_WORDS;
        philox_blocks(&philox, (uint64_t)first / 4, word);
#pragma omp simd
        for (int64_t i = 0; i < count; i++) y[first + i] = word[i] >= least ? x[first + i] * scale : 0.0f;
    }
    return TIDE_OK;
}

const Kernel cpu_dropout = { .run = run };
