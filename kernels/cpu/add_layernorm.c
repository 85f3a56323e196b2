/* add_layernorm.c - one row at a time: the sum, its moments, its layernorm. The sum may lie in b. */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/layernorm_row.h"
#include "kernels/ops/shape.h"

static TideStatus run(const KernelCall *c)
{
    const float *a = c->in[0], *b = c->in[1], *weight = c->in[2], *bias = c->in[3];
    float *sum = c->out[0], *y = c->out[1];     /* [rows, C] */
    float *mean = c->out[2], *rstd = c->out[3]; /* [rows] */
    int64_t rows = shape_rows(c->in_info[0]->shape), width = shape_width(c->in_info[0]->shape);

#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++) {
        float *s = sum + r * width;
        const float *ar = a + r * width, *br = b + r * width;
#pragma omp simd
        for (int64_t i = 0; i < width; i++) s[i] = ar[i] + br[i];
        RowMoments m = layernorm_moments(s, width);
        mean[r] = m.mean;
        rstd[r] = m.rstd;
        layernorm_row(y + r * width, s, m, weight, bias, width);
    }
    return TIDE_OK;
}

const Kernel cpu_add_layernorm = { .run = run };
