/* layernorm_again.c - rows of a layernorm from stored moments. */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/layernorm_row.h"
#include "kernels/ops/shape.h"

static TideStatus run(const KernelCall *c)
{
    const float *x = c->in[0], *mean = c->in[1], *rstd = c->in[2]; /* [rows, C], [rows], [rows] */
    const float *weight = c->in[3], *bias = c->in[4];              /* [C], [C] or NULL */
    float *y = c->out[0];                                          /* [rows, C] */
    int64_t rows = shape_rows(c->in_info[0]->shape), width = shape_width(c->in_info[0]->shape);

#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++)
        layernorm_row(y + r * width, x + r * width, (RowMoments){ mean[r], rstd[r] }, weight, bias, width);
    return TIDE_OK;
}

const Kernel cpu_layernorm_again = { .run = run };
