/* sgd.c - parameter -= info.lr * info.grad_scale * norm[1] * gradient, in place. A norm that is not
 * finite leaves the parameter as it was. A narrow parameter is rounded by chance.
 *
 *     in   gradient, info, norm or left out, parameter
 *     out  parameter */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    (void)n;
    (void)out; /* it exists already */
    return is_float(in[0]) && is_info(in[1]) && (!in[2] || is_vector(in[2], 2)) && is_float(in[3]) &&
           (in[0]->type == TIDE_F32 || in[0]->type == in[3]->type) && shape_equal(in[0]->shape, in[3]->shape);
}

const OpDesc op_sgd = { .name = "sgd", .id = OP_sgd, .n_out = 1, .facts = OP_ONCE, .infer = infer };

TideTensor tide_sgd(TideGraph *g, TideTensor parameter, TideTensor gradient, TideTensor norm, TideTensor info)
{
    TideTensor in[] = { gradient, info, norm, parameter };

    return graph_append(g, (NodeSpec){ .op = &op_sgd, .in = in, .n_in = 4, .out = { parameter } });
}
