/* add.c - y = a + b. */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    (void)n;
    infer_like(&out[0], in[0]);
    return is_float(in[0]) && in[0]->type == in[1]->type && shape_equal(in[0]->shape, in[1]->shape);
}

static void grad(TideGraph *g, const Node *n, const TideTensor *dout, TideTensor *din)
{
    (void)g;
    (void)n;
    din[0] = dout[0];
    din[1] = dout[0];
}

const OpDesc op_add = {
    .name = "add", .id = OP_add, .n_out = 1, .in_place = 1, .infer = infer, .grad = grad
};

TideTensor tide_add(TideGraph *g, TideTensor a, TideTensor b)
{
    TideTensor in[] = { a, b };

    return graph_append(g, (NodeSpec){ .op = &op_add, .in = in, .n_in = 2 });
}
