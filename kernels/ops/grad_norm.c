/* grad_norm.c - the global norm of all gradients and the factor that clips it.
 *
 *     in   info, then n flat gradients
 *     out  f32 [2]: norm = info.grad_scale * sqrt(sum of squares); min(1, clip / norm), or 1 if clip
 *          is 0. A gradient that is not finite gives a norm that is not finite. So may one beyond 1e19,
 *          whose square is more than f32 holds; those of f16 end long before. */
#include <string.h>
#include "kernels/ops/shape.h"

enum { MOST_GRADS = 64 };

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    bool fit = is_info(in[0]) && n->n_in > 1;

    for (int i = 1; i < n->n_in; i++) fit = fit && in[i] && is_float(in[i]);
    infer_vector(&out[0], TIDE_F32, 2);
    return fit;
}

static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    double sum = 0;

    (void)out;
    for (int i = 1; i < n->n_in; i++) sum += 2.0 * (double)shape_elements(in[i]->shape);
    return sum;
}

const OpDesc op_grad_norm = {
    .name = "grad_norm", .id = OP_grad_norm, .n_out = 1, .infer = infer, .flops = flops
};

TideTensor tide_grad_norm(TideGraph *g, const TideTensor *grads, int n, TideTensor info, float clip)
{
    TideTensor in[1 + MOST_GRADS] = { info };
    NormAttr attr = { clip };

    if (n < 1 || n > MOST_GRADS) {
        graph_refuse(g, "grad_norm: %d gradients; give 1 to %d flat ones", n, MOST_GRADS);
        return (TideTensor){ 0 };
    }
    memcpy(&in[1], grads, (size_t)n * sizeof *grads);
    return graph_append(
        g,
        (NodeSpec){ .op = &op_grad_norm, .in = in, .n_in = 1 + n, .attr = &attr, .attr_bytes = sizeof attr });
}
