/* gelu_grad.c - dx = dy * d/dx (x * Phi(x)), and where they are asked for the column sums of the stored dx:
 * the gradient of the bias that was added to x.
 *
 *     in   x [.., C], dy like x, the sums that are added to (0: written anew)
 *     out  dx like x, sums [C] or left out; dx may take dy's memory */
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

const OpDesc op_gelu_grad = { .name = "gelu_grad",
                              .id = OP_gelu_grad,
                              .n_out = 2,
                              .in_place = 2,
                              .infer = infer,
                              .flops = flops,
                              .timed_bytes = sizeof(GeluAttr) };

TideTensor tide_gelu_grad(TideGraph *g, TideTensor x, TideTensor dy, bool erf)
{
    TideTensor in[] = { x, dy, { 0 } };
    GeluAttr attr = { erf };

    return graph_append(
        g, (NodeSpec){ .op = &op_gelu_grad, .in = in, .n_in = 3, .attr = &attr, .attr_bytes = sizeof attr });
}
