/* add_layernorm.c - a residual addition and the layernorm that follows it, in one pass: the sum is
 * stored first and y is defined on the stored sum, so that layernorm_again can make y from it.
 *
 *     in   a [.., C], b like a, weight [C], bias [C] or left out
 *     out  sum = a + b, y = layernorm(sum), mean f32 [rows], rstd f32 [rows]
 *
 * The sum may take b's memory. */
#include "kernels/ops/shape.h"

enum { SUM, Y, MEAN, RSTD };

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const Tensor *a = in[0], *b = in[1], *weight = in[2], *bias = in[3];
    (void)n;

    if (!is_float(a) || a->type != b->type || !shape_equal(a->shape, b->shape) || a->shape.n < 1)
        return false;
    if (!is_vector(weight, shape_width(a->shape))) return false;
    if (bias && !is_vector(bias, shape_width(a->shape))) return false;
    if (weight->type != a->type || (bias && bias->type != a->type)) return false;
    infer_like(&out[SUM], a);
    infer_like(&out[Y], a);
    infer_vector(&out[MEAN], TIDE_F32, shape_rows(a->shape));
    infer_vector(&out[RSTD], TIDE_F32, shape_rows(a->shape));
    return true;
}

/* What came for the sum from elsewhere is the residual of the layernorm's gradient, and a and b
 * share the result. */
static void grad(TideGraph *g, const Node *n, const TideTensor *dout, TideTensor *din)
{
    TideTensor dsum = dout[SUM];

    if (dout[Y].id)
        dsum = tide_layernorm_grad(g, n->out[SUM], n->out[MEAN], n->out[RSTD], n->in[2], n->in[3], dout[Y],
                                   dsum);
    din[0] = dsum;
    din[1] = dsum;
}

const OpDesc op_add_layernorm = {
    .name = "add_layernorm", .id = OP_add_layernorm, .n_out = 4, .in_place = 2, .infer = infer, .grad = grad
};

TideTensor tide_add_layernorm(TideGraph *g, TideTensor a, TideTensor b, TideTensor weight, TideTensor bias)
{
    TideTensor in[] = { a, b, weight, bias };
    TideTensor sum = graph_append(g, (NodeSpec){ .op = &op_add_layernorm, .in = in, .n_in = 4 });

    if (sum.id)
        tide_layernorm_again(g, sum, graph_sibling(g, sum, MEAN), graph_sibling(g, sum, RSTD), weight, bias,
                             graph_sibling(g, sum, Y));
    return sum;
}
