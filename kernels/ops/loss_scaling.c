/* loss_scaling.c - takes the scale out of the norm, tells the update how the steps before ended, and
 * sets the scale of the next step.
 *
 *     in   info, norm f32 [2] of the scaled gradients, scaling
 *     out  norm f32 [2]: norm / scale, and min(1, clip / that), or 1 if clip is 0;
 *          info for the update: grad_scale / scale, and the rates that hold if the step before was skipped;
 *          scaling, in place; scaling as this step leaves it, for the host
 *
 * A norm is not finite where a gradient is not: the update leaves everything as it was, and the scale
 * backs off, but not below `least`. After `interval` finite norms in a row it grows, unless it would
 * become infinite. */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const ScalingAttr *a = (const void *)n->attr.bytes;
    bool factors = a->growth >= 1 && a->backoff > 0 && a->backoff <= 1 && a->least > 0 && a->interval > 0;

    infer_vector(&out[0], TIDE_F32, 2);
    infer_vector(&out[1], TIDE_I32, TIDE_INFO_WORDS);
    infer_vector(&out[3], TIDE_I32, TIDE_SCALING_WORDS);
    return factors && is_info(in[0]) && in[1]->type == TIDE_F32 && is_vector(in[1], 2) && is_scaling(in[2]);
}

const OpDesc op_loss_scaling = {
    .name = "loss_scaling", .id = OP_loss_scaling, .n_out = 4, .facts = OP_ONCE, .infer = infer
};

TideTensor tide_loss_scaling(TideGraph *g, TideLossScaling a)
{
    TideTensor in[] = { a.info, a.norm, a.scaling };
    ScalingAttr attr = { a.growth, a.backoff, a.least, a.clip, a.interval };

    return graph_append(g, (NodeSpec){ .op = &op_loss_scaling,
                                       .in = in,
                                       .n_in = 3,
                                       .out = { { 0 }, { 0 }, a.scaling, { 0 } },
                                       .attr = &attr,
                                       .attr_bytes = sizeof attr });
}
