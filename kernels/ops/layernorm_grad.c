/* layernorm_grad.c - with xhat = (x - mean) * rstd and h = dy * weight, per row of width C:
 *
 *     dx = residual + rstd * (h - sum(h) / C - xhat * sum(h * xhat) / C)
 *     dweight = sum over rows of dy * xhat,  dbias = sum over rows of dy
 *     dsum = sum over rows of the stored dx, where it is asked for: the gradient of a bias added to x
 *
 *     in   x [.., C], mean f32 [rows], rstd f32 [rows], weight [C], dy like x, residual like x or
 *          left out, then dweight, dbias and dsum that are added to (0: written anew)
 *     out  dx like x, dweight [C], dbias [C], dsum [C]; left out where there is none
 *
 * dx may take dy's memory: a row of dy is summed before the first element of its dx is written. */
#include "kernels/ops/shape.h"

enum { DY = 4 };

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const Tensor *x = in[0], *dy = in[DY], *residual = in[DY + 1];
    int64_t rows = shape_rows(x->shape);
    (void)n;

    infer_like(&out[0], x);
    return is_vector(in[1], rows) && is_vector(in[2], rows) && is_vector(in[3], shape_width(x->shape)) &&
           shape_equal(x->shape, dy->shape) && (!residual || shape_equal(x->shape, residual->shape));
}

static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    (void)n;
    (void)out;
    return 12.0 * (double)shape_elements(in[0]->shape);
}

const OpDesc op_layernorm_grad = { .name = "layernorm_grad",
                                   .id = OP_layernorm_grad,
                                   .n_out = 4,
                                   .in_place = DY + 1,
                                   .infer = infer,
                                   .flops = flops };

TideTensor tide_layernorm_grad(TideGraph *g, TideTensor x, TideTensor mean, TideTensor rstd,
                               TideTensor weight, TideTensor bias, TideTensor dy, TideTensor residual)
{
    bool add_weight = false, add_bias = false;
    TideTensor dweight = graph_param_grad(g, weight, &add_weight);
    TideTensor dbias = bias.id ? graph_param_grad(g, bias, &add_bias) : (TideTensor){ 0 };
    TideTensor in[] = {
        x,    mean, rstd, weight, dy, residual, { add_weight ? dweight.id : 0 }, { add_bias ? dbias.id : 0 },
        { 0 }
    };

    return graph_append(
        g, (NodeSpec){ .op = &op_layernorm_grad, .in = in, .n_in = 9, .out = { { 0 }, dweight, dbias } });
}
