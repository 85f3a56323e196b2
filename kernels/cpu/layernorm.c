/* layernorm.c - one row at a time: moments, then the row. */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/layernorm_row.h"
#include "kernels/ops/shape.h"

static TideStatus run(const KernelCall *c)
{
    const float *x = c->in[0], *weight = c->in[1], *bias = c->in[2]; /* [rows, C], [C], [C] */
    float *y = c->out[0], *mean = c->out[1], *rstd = c->out[2];      /* [rows, C], [rows], [rows] */
    int64_t rows = shape_rows(c->in_info[0]->shape), width = shape_width(c->in_info[0]->shape);

#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++) {
        RowMoments m = layernorm_moments(x + r * width, width);
        mean[r] = m.mean;
        rstd[r] = m.rstd;
        layernorm_row(y + r * width, x + r * width, m, weight, bias, width);
    }
    return TIDE_OK;
}

const Kernel cpu_layernorm = { .run = run };
