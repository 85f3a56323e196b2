/* cast.c - y = x in another type, rounded to nearest; or y += x, rounded once.
 *
 *     in   x, y where it is added to
 *     out  y like x: a new tensor of the given type, or one that exists already */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const CastAttr *a = (const void *)n->attr.bytes;

    out[0].type = a->type;
    out[0].shape = in[0]->shape;
    return is_float(in[0]) && a->type != TIDE_I32 && (!in[1] || shape_equal(in[0]->shape, in[1]->shape));
}

static void grad(TideGraph *g, const Node *n, const TideTensor *dout, TideTensor *din)
{
    din[0] = tide_cast(g, dout[0], (TideTensor){ 0 }, graph_tensor(g, n->in[0])->type, false);
}

const OpDesc op_cast = { .name = "cast", .id = OP_cast, .n_out = 1, .infer = infer, .grad = grad };

TideTensor tide_cast(TideGraph *g, TideTensor x, TideTensor y, TideType type, bool add)
{
    TideTensor in[] = { x, { add ? y.id : 0 } };
    CastAttr attr = { type };

    return graph_append(
        g, (NodeSpec){
               .op = &op_cast, .in = in, .n_in = 2, .out = { y }, .attr = &attr, .attr_bytes = sizeof attr });
}
