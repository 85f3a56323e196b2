/* linear.c - y = x * transpose(weight) + bias, over all rows or a block of them. */
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/linear.h"

enum { X, WEIGHT, BIAS };

static void describe(const KernelCall *c, Gemm *g, GemmCall *call)
{
    const TideRows *rows = (const TideRows *)c->node->attr.bytes;
    const Tensor *x = c->in_info[X], *bias = c->in_info[BIAS], *y = c->out_info[0];
    int64_t x_bytes = linear_row_bytes(x), y_bytes = linear_row_bytes(y);

    *g = (Gemm){ .rows = rows->count ? rows->count : shape_rows(x->shape),
                 .cols = shape_width(y->shape),
                 .inner = shape_width(x->shape),
                 .transpose_b = 1,
                 .in = (int32_t)x->type,
                 .out = (int32_t)y->type,
                 .bias = (int32_t)(bias ? bias->type : y->type),
                 .epilogue = bias ? GEMM_BIAS : GEMM_PLAIN,
                 .align_a = linear_alignment(*rows, rows->x_first, x_bytes),
                 .align_b = 256,
                 .align_d = linear_alignment(*rows, rows->y_first, y_bytes) };
    *call = (GemmCall){ .a = (const char *)c->in[X] + rows->x_first * x_bytes,
                        .b = c->in[WEIGHT],
                        .d = (char *)c->out[0] + rows->y_first * y_bytes,
                        .bias = bias ? c->in[BIAS] : NULL,
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

const Kernel cuda_linear = { .run = run, .scratch = linear_scratch, .prepare = prepare };
