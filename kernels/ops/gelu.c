/* gelu.c - y = x * Phi(x), with Phi by erf or by its tanh approximation (Hendrycks and Gimpel 2016).
 *
 *     in   x
 *     out  y like x; may take x's memory */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    (void)n;
    infer_like(&out[0], in[0]);
    return is_float(in[0]);
}

static void grad(TideGraph *g, const Node *n, const TideTensor *dout, TideTensor *din)
{
    din[0] = tide_gelu_grad(g, n->in[0], dout[0], ((const GeluAttr *)n->attr.bytes)->erf);
}

static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    (void)n;
    (void)out;
    return 20.0 * (double)shape_elements(in[0]->shape);
}

const OpDesc op_gelu = { .name = "gelu",
                         .id = OP_gelu,
                         .n_out = 1,
                         .in_place = 1,
                         .infer = infer,
                         .grad = grad,
                         .flops = flops,
                         .timed_bytes = sizeof(GeluAttr) };

TideTensor tide_gelu(TideGraph *g, TideTensor x, bool erf)
{
    GeluAttr attr = { erf };

    return graph_append(
        g, (NodeSpec){ .op = &op_gelu, .in = &x, .n_in = 1, .attr = &attr, .attr_bytes = sizeof attr });
}
