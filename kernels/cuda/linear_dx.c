/* linear_dx.c - dx = dy * weight, over all rows or a block of them. */
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/linear.h"

enum { DY, WEIGHT };

static void describe(const KernelCall *c, Gemm *g, GemmCall *call)
{
    const TideRows *rows = &((const BlockAttr *)c->node->attr.bytes)->rows;
    const Tensor *dy = c->in_info[DY], *dx = c->out_info[0];

    *g = (Gemm){ .rows = rows->count ? rows->count : shape_rows(dx->shape),
                 .cols = shape_width(dx->shape),
                 .inner = shape_width(dy->shape),
                 .in = (int32_t)dy->type,
                 .out = (int32_t)dx->type,
                 .bias = (int32_t)dx->type,
                 .epilogue = GEMM_PLAIN,
                 .align_a = linear_alignment(*rows, rows->y_first, linear_row_bytes(dy)),
                 .align_b = 256,
                 .align_d = linear_alignment(*rows, rows->x_first, linear_row_bytes(dx)) };
    *call = (GemmCall){ .a = (const char *)c->in[DY] + rows->y_first * linear_row_bytes(dy),
                        .b = c->in[WEIGHT],
                        .d = (char *)c->out[0] + rows->x_first * linear_row_bytes(dx),
                        .scratch = c->scratch,
                        .stream = cuda_stream(c) };
}

static TideStatus run(const KernelCall *c)
{
    Gemm g;
    GemmCall call;

    describe(c, &g, &call);
    return gemm_run(c->device, &g, &call);
}

static TideStatus prepare(const KernelCall *c)
{
    Gemm g;
    GemmCall call;

    describe(c, &g, &call);
    return gemm_prepare(c->device, &g, &call);
}

const Kernel cuda_linear_dx = { .run = run, .scratch = linear_scratch, .prepare = prepare };
