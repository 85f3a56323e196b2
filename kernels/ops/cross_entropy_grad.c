/* cross_entropy_grad.c - the losses of cross_entropy, and the gradient of info.loss_scale * losses
 * written over the logits: (softmax - onehot) * loss_scale; 0 in padding and in ignored rows.
 *
 *     in   logits [rows, padded vocab], targets i32 [all rows], losses that exist already or left
 *          out, info
 *     out  losses f32 [all rows] as cross_entropy writes them; logits, in place */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    return is_info(in[3]) && op_cross_entropy.infer(n, in, out);
}

static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    (void)n;
    (void)out;
    return 20.0 * (double)shape_elements(in[0]->shape);
}

const OpDesc op_cross_entropy_grad = {
    .name = "cross_entropy_grad", .id = OP_cross_entropy_grad, .n_out = 2, .infer = infer, .flops = flops
};

/* Returns the losses; the gradient is the tensor `logits` itself from here on. */
TideTensor tide_cross_entropy_grad(TideGraph *g, TideTensor logits, TideTensor targets, TideTensor losses,
                                   TideTensor info, TideClasses c)
{
    TideTensor in[] = { logits, targets, losses, info };

    return graph_append(g, (NodeSpec){ .op = &op_cross_entropy_grad,
                                       .in = in,
                                       .n_in = 4,
                                       .out = { losses, logits },
                                       .attr = &c,
                                       .attr_bytes = sizeof c });
}
