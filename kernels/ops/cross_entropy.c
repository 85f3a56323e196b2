/* cross_entropy.c - losses[first + r] = log(sum over v < vocab of exp(logits[r, v])) - logits[r, target].
 *
 *     in   logits [rows, padded vocab], targets i32 [all rows], losses that exist already or left out
 *     out  losses f32 [all rows]: rows [first, first + rows) are written, the others stay
 *
 * A row whose target is `ignore`, or no class at all, has loss 0. */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const TideClasses *c = (const void *)n->attr.bytes;
    const Tensor *logits = in[0], *targets = in[1], *losses = in[2];
    int64_t rows = shape_elements(targets->shape);

    infer_vector(&out[0], TIDE_F32, rows);
    return is_float(logits) && logits->shape.n >= 1 && targets->type == TIDE_I32 && c->vocab >= 1 &&
           c->vocab <= shape_width(logits->shape) && c->first >= 0 &&
           c->first + shape_rows(logits->shape) <= rows && (!losses || is_vector(losses, rows));
}

static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    (void)n;
    (void)out;
    return 16.0 * (double)shape_elements(in[0]->shape);
}

const OpDesc op_cross_entropy = {
    .name = "cross_entropy", .id = OP_cross_entropy, .n_out = 1, .infer = infer, .flops = flops
};

TideTensor tide_cross_entropy(TideGraph *g, TideTensor logits, TideTensor targets, TideTensor losses,
                              TideClasses c)
{
    TideTensor in[] = { logits, targets, losses };

    return graph_append(g, (NodeSpec){ .op = &op_cross_entropy,
                                       .in = in,
                                       .n_in = 3,
                                       .out = { losses },
                                       .attr = &c,
                                       .attr_bytes = sizeof c });
}
