/* sum.c - total = (add ? total : 0) + the sum of all elements of x.
 *
 *     in   x f32, the total if it is added to
 *     out  total f32 [1], persistent */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    (void)n;
    infer_vector(&out[0], TIDE_F32, 1);
    return in[0]->type == TIDE_F32;
}

const OpDesc op_sum = { .name = "sum", .id = OP_sum, .n_out = 1, .facts = OP_ONCE, .infer = infer };

TideTensor tide_sum(TideGraph *g, TideTensor x, TideTensor total, bool add)
{
    TideTensor in[] = { x, { add ? total.id : 0 } };

    return graph_append(g, (NodeSpec){ .op = &op_sum, .in = in, .n_in = 2, .out = { total } });
}
