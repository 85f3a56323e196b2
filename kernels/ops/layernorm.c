/* layernorm.c - y = (x - mean) * rstd * weight + bias over the last dimension, eps 1e-5.
 *
 *     in   x [.., C], weight [C], bias [C] or left out
 *     out  y like x, mean f32 [rows], rstd f32 [rows]
 *
 * Beside it stands layernorm_again, which makes y from x and the two stored statistics. */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const Tensor *x = in[0], *weight = in[1], *bias = in[2];
    (void)n;

    if (!is_float(x) || x->shape.n < 1 || !is_vector(weight, shape_width(x->shape))) return false;
    if (bias && !is_vector(bias, shape_width(x->shape))) return false;
    if (weight->type != x->type || (bias && bias->type != x->type)) return false;
    infer_like(&out[0], x);
    infer_vector(&out[1], TIDE_F32, shape_rows(x->shape));
    infer_vector(&out[2], TIDE_F32, shape_rows(x->shape));
    return true;
}

/* What other uses of x already gave to its gradient is added inside the same kernel. */
static void grad(TideGraph *g, const Node *n, const TideTensor *dout, TideTensor *din)
{
    TideTensor x = n->in[0];

    if (!dout[0].id) return;
    din[0] =
        tide_layernorm_grad(g, x, n->out[1], n->out[2], n->in[1], n->in[2], dout[0], graph_take_grad(g, x));
}

const OpDesc op_layernorm = {
    .name = "layernorm", .id = OP_layernorm, .n_out = 3, .infer = infer, .grad = grad
};

TideTensor tide_layernorm(TideGraph *g, TideTensor x, TideTensor weight, TideTensor bias)
{
    TideTensor in[] = { x, weight, bias };
    TideTensor y = graph_append(g, (NodeSpec){ .op = &op_layernorm, .in = in, .n_in = 3 });

    if (y.id) tide_layernorm_again(g, x, graph_sibling(g, y, 1), graph_sibling(g, y, 2), weight, bias, y);
    return y;
}
