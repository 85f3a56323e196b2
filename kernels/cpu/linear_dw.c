/* linear_dw.c - dweight = transpose(dy) * x and dbias = the sum of the rows of dy. */
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/cpu_gemm.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

static TideStatus run(const KernelCall *c)
{
    const TideRows *r = (const TideRows *)c->node->attr.bytes;
    int64_t rows = r->count ? r->count : shape_rows(c->in_info[0]->shape);
    int64_t k = shape_width(c->in_info[0]->shape), n = shape_width(c->in_info[1]->shape);
    const float *x = (const float *)c->in[0] + r->x_first * k;
    const float *dy = (const float *)c->in[1] + r->y_first * n;

    if (c->out_info[1]) column_sums(dy, rows, n, c->out[1], c->in_info[3] != NULL);
    if (!c->out_info[0]) return TIDE_OK;
    gemm(&(Gemm){ .a_transposed = true,
                  .add = c->in_info[2] != NULL,
                  .m = n,
                  .n = k,
                  .k = rows,
                  .a = dy,
                  .lda = n,
                  .b = x,
                  .ldb = k,
                  .c = c->out[0],
                  .ldc = k });
    return TIDE_OK;
}

const Kernel cpu_linear_dw = { .run = run };
