/* dropout.c - y = x * mask / (1 - p), the mask from Philox keyed by seed, site, step, micro-step and
 * element: the same node with the same info always drops the same elements, so it is its own
 * gradient and may be recomputed.
 *
 *     in   x, info
 *     out  y like x; may take x's memory */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const DropoutAttr *a = (const void *)n->attr.bytes;

    infer_like(&out[0], in[0]);
    return is_float(in[0]) && is_info(in[1]) && a->p > 0 && a->p < 1;
}

static void grad(TideGraph *g, const Node *n, const TideTensor *dout, TideTensor *din)
{
    const DropoutAttr *a = (const void *)n->attr.bytes;

    din[0] = tide_dropout(g, dout[0], n->in[1], a->p, a->site);
}

static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    (void)n;
    (void)out;
    return 16.0 * (double)shape_elements(in[0]->shape); /* ten rounds of Philox for four elements */
}

const OpDesc op_dropout = { .name = "dropout",
                            .id = OP_dropout,
                            .n_out = 1,
                            .in_place = 1,
                            .infer = infer,
                            .grad = grad,
                            .flops = flops };

TideTensor tide_dropout(TideGraph *g, TideTensor x, TideTensor info, float p, int site)
{
    TideTensor in[] = { x, info };
    DropoutAttr attr = { p, site };

    if (p == 0) return x;
    return graph_append(
        g, (NodeSpec){ .op = &op_dropout, .in = in, .n_in = 2, .attr = &attr, .attr_bytes = sizeof attr });
}
