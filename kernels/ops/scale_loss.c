/* scale_loss.c - the step's info with scaling.scale times its loss_scale, for what makes the gradient of
 * the loss.
 *
 *     in   info, scaling
 *     out  info like the first */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    (void)n;
    infer_like(&out[0], in[0]);
    out[0].kind = TIDE_OTHER; /* smaller than any choice about it */
    return is_info(in[0]) && is_scaling(in[1]);
}

const OpDesc op_scale_loss = { .name = "scale_loss", .id = OP_scale_loss, .n_out = 1, .infer = infer };

TideTensor tide_scale_loss(TideGraph *g, TideTensor info, TideTensor scaling)
{
    TideTensor in[] = { info, scaling };

    return graph_append(g, (NodeSpec){ .op = &op_scale_loss, .in = in, .n_in = 2 });
}
