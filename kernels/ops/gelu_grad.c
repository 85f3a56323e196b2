/* gelu_grad.c - dx = dy * d/dx (x * Phi(x)).
 *
 *     in   x, dy like x, then dbias where it is added to, or left out
 *     out  dx like x; may take dy's memory; dbias: the sum of the rows of dx, or left out
 *
 * dbias is the gradient of the bias of the layer that made x, which this op makes on the way: the gradient
 * of that layer sees to it. */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    (void)n;
    infer_like(&out[0], in[0]);
    return is_float(in[0]) && shape_elements(in[0]->shape) == shape_elements(in[1]->shape);
}

static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    (void)n;
    (void)out;
    return 30.0 * (double)shape_elements(in[0]->shape);
}

const OpDesc op_gelu_grad = {
    .name = "gelu_grad", .id = OP_gelu_grad, .n_out = 2, .in_place = 2, .infer = infer, .flops = flops
};

TideTensor tide_gelu_grad(TideGraph *g, TideTensor x, TideTensor dy, bool erf)
{
    TideTensor in[] = { x, dy, { 0 } };
    GeluAttr attr = { erf };

    return graph_append(
        g, (NodeSpec){ .op = &op_gelu_grad, .in = in, .n_in = 3, .attr = &attr, .attr_bytes = sizeof attr });
}
