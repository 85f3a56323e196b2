/* adamw.c - one step of AdamW over a flat weight-decay group, in place (see ops.h). A norm that is not
 * finite leaves everything as it was. The parameter is its master rounded to nearest; without a
 * master a narrow parameter is rounded by chance, as narrow moments are.
 *
 *     in   gradient, info, norm or left out, parameter, m, v, master or left out
 *     out  parameter, m, v, master (left out where there is none) */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const Tensor *gradient = in[0], *norm = in[2];
    bool fit = is_info(in[1]) && (!norm || is_vector(norm, 2));
    (void)n;
    (void)out; /* they exist already */

    for (int i = 3; i < 7; i++) /* flat tensors of one layout */
        fit = fit && (!in[i] || (is_float(in[i]) && shape_equal(in[i]->shape, gradient->shape)));
    if (!fit || !in[3] || !in[4] || !in[5]) return false;
    bool moments = in[4]->type == in[5]->type && in[4]->type != TIDE_F16;
    bool master = !in[6] || in[6]->type == TIDE_F32;
    return moments && master && (gradient->type == TIDE_F32 || gradient->type == in[3]->type);
}

static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    (void)n;
    (void)out;
    return 16.0 * (double)shape_elements(in[0]->shape);
}

const OpDesc op_adamw = {
    .name = "adamw", .id = OP_adamw, .n_out = 4, .facts = OP_ONCE, .infer = infer, .flops = flops
};

TideTensor tide_adamw(TideGraph *g, TideAdamW a)
{
    TideTensor in[] = { a.gradient, a.info, a.norm, a.parameter, a.m, a.v, a.master };
    AdamWAttr attr = { a.beta1, a.beta2, a.eps, a.decay };

    return graph_append(g, (NodeSpec){ .op = &op_adamw,
                                       .in = in,
                                       .n_in = 7,
                                       .out = { a.parameter, a.m, a.v, a.master },
                                       .attr = &attr,
                                       .attr_bytes = sizeof attr });
}
