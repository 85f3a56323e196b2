/* linear_dw.c - dweight = transpose(dy) * x and dbias = the sum of the rows of dy. */
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/linear.h"

enum { X, DY, DWEIGHT, DBIAS };

static void describe(const KernelCall *c, Gemm *g, GemmCall *call)
{
    const TideRows *rows = (const TideRows *)c->node->attr.bytes;
    const Tensor *x = c->in_info[X], *dy = c->in_info[DY];
    const Tensor *dweight = c->out_info[0], *dbias = c->out_info[1];
    TideType out = dweight ? dweight->type : dbias->type;

    *g = (Gemm){ .rows = shape_width(dy->shape),
                 .cols = shape_width(x->shape),
                 .inner = rows->count ? rows->count : shape_rows(x->shape),
                 .transpose_a = 1,
                 .in = (int32_t)x->type,
                 .out = (int32_t)out,
                 .bias = (int32_t)(dbias ? dbias->type : out),
                 .add = c->in_info[DWEIGHT] != NULL,
                 .add_bias = c->in_info[DBIAS] != NULL,
                 .epilogue = dbias ? GEMM_BIAS_GRAD : GEMM_PLAIN,
                 .align_a = linear_alignment(*rows, rows->y_first, linear_row_bytes(dy)),
                 .align_b = linear_alignment(*rows, rows->x_first, linear_row_bytes(x)),
                 .align_d = 256 };
    *call = (GemmCall){ .a = (const char *)c->in[DY] + rows->y_first * linear_row_bytes(dy),
                        .b = (const char *)c->in[X] + rows->x_first * linear_row_bytes(x),
                        .d = dweight ? c->out[0] : NULL,
                        .bias = dbias ? c->out[1] : NULL,
                        .scratch = c->scratch,
                        .stream = cuda_stream(c) };
}

static TideStatus run(const KernelCall *c)
{
    Gemm g;
    GemmCall call;

    describe(c, &g, &call);
    return call.d ? gemm_run(c->device, &g, &call) : gemm_bias_sums(c->device, &g, &call);
}

static TideStatus prepare(const KernelCall *c)
{
    Gemm g;
    GemmCall call;

    describe(c, &g, &call);
    return call.d ? gemm_prepare(c->device, &g, &call) : TIDE_OK;
}

const Kernel cuda_linear_dw = { .run = run, .scratch = linear_scratch, .prepare = prepare };
