/* select_row.c - row info.row of x [1, T, C] as [1, C], for sampling. A row outside is the nearest
 * one inside. */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const Tensor *x = in[0];
    (void)n;

    out[0].type = x->type;
    out[0].shape = (TideShape){ 2, { 1, shape_width(x->shape) } };
    return is_float(x) && x->shape.n == 3 && x->shape.dim[0] == 1 && is_info(in[1]);
}

const OpDesc op_select_row = { .name = "select_row", .id = OP_select_row, .n_out = 1, .infer = infer };

TideTensor tide_select_row(TideGraph *g, TideTensor x, TideTensor info)
{
    TideTensor in[] = { x, info };

    return graph_append(g, (NodeSpec){ .op = &op_select_row, .in = in, .n_in = 2 });
}
