/* gelu_grad.c - dx = dy * d/dx (x * Phi(x)).
 *
 *     in   x, dy like x
 *     out  dx like x; may take dy's memory */
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
    .name = "gelu_grad", .id = OP_gelu_grad, .n_out = 1, .in_place = 2, .infer = infer, .flops = flops
};

TideTensor tide_gelu_grad(TideGraph *g, TideTensor x, TideTensor dy, bool erf)
{
    TideTensor in[] = { x, dy };
    GeluAttr attr = { erf };

    return graph_append(
        g, (NodeSpec){ .op = &op_gelu_grad, .in = in, .n_in = 2, .attr = &attr, .attr_bytes = sizeof attr });
}
