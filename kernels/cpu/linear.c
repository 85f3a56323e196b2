/* linear.c - y = x * transpose(weight) + bias, over all rows or a block of them. */
#include "kernels/cpu/cpu_gemm.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

static TideStatus run(const KernelCall *c)
{
    const TideRows *rows = (const TideRows *)c->node->attr.bytes;
    int64_t k = shape_width(c->in_info[0]->shape), n = shape_width(c->out_info[0]->shape);

    gemm(&(Gemm){ .b_transposed = true,
                  .m = rows->count ? rows->count : shape_rows(c->in_info[0]->shape),
                  .n = n,
                  .k = k,
                  .a = (const float *)c->in[0] + rows->x_first * k,
                  .lda = k,
                  .b = c->in[1],
                  .ldb = k,
                  .bias = c->in_info[2] ? c->in[2] : NULL,
                  .c = (float *)c->out[0] + rows->y_first * n,
                  .ldc = n });
    return TIDE_OK;
}

const Kernel cpu_linear = { .run = run };
