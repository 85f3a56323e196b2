/* linear_dx.c - dx = dy * weight, over all rows or a block of them. */
#include "kernels/cpu/cpu_gemm.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

static TideStatus run(const KernelCall *c)
{
    const BlockAttr *a = (const BlockAttr *)c->node->attr.bytes;
    int64_t k = shape_width(c->out_info[0]->shape), n = shape_width(c->in_info[0]->shape);

    gemm(&(Gemm){ .m = a->rows.count ? a->rows.count : shape_rows(c->out_info[0]->shape),
                  .n = k,
                  .k = n,
                  .a = (const float *)c->in[0] + a->rows.y_first * n,
                  .lda = n,
                  .b = c->in[1],
                  .ldb = k,
                  .c = (float *)c->out[0] + a->rows.x_first * k,
                  .ldc = k });
    return TIDE_OK;
}

const Kernel cpu_linear_dx = { .run = run };
