/* linear_dx.c - the gradient of a linear layer's input: dx = dy * weight.
 *
 *     in   dy [.., N], weight [N, K], dx of the blocks before this one, or left out
 *     out  dx, of the shape of x: rows [x_first, x_first + count) from rows [y_first, ..) of dy
 *
 * x itself is no input: only its shape matters, and it need not live until here. */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const BlockAttr *a = (const BlockAttr *)n->attr.bytes;
    const Tensor *dy = in[0], *weight = in[1];
    TideShape x = block_whole(a);
    int64_t count = a->rows.count ? a->rows.count : shape_rows(x);

    if (!is_float(dy) || dy->shape.n < 1 || weight->shape.n != 2 || x.n < 1) return false;
    if (shape_width(dy->shape) != weight->shape.dim[0] || shape_width(x) != weight->shape.dim[1])
        return false;
    if (a->rows.x_first + count > shape_rows(x) || a->rows.y_first + count > shape_rows(dy->shape))
        return false;
    if (in[2] && !shape_equal(in[2]->shape, x)) return false;
    out[0].type = dy->type;
    out[0].shape = x;
    return count > 0 && a->rows.x_first >= 0 && a->rows.y_first >= 0;
}

static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    const BlockAttr *a = (const BlockAttr *)n->attr.bytes;
    int64_t count = a->rows.count ? a->rows.count : shape_rows(block_whole(a));

    (void)out;
    return 2.0 * (double)count * (double)shape_elements(in[1]->shape);
}

static double bytes(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    const BlockAttr *a = (const BlockAttr *)n->attr.bytes;
    int64_t count = a->rows.count ? a->rows.count : shape_rows(block_whole(a));

    return rows_bytes(in[0], count) + rows_bytes(out[0], count) + (double)in[1]->bytes;
}

const OpDesc op_linear_dx = { .name = "linear_dx",
                              .id = OP_linear_dx,
                              .n_out = 1,
                              .infer = infer,
                              .flops = flops,
                              .bytes = bytes,
                              .timed_bytes = sizeof(int64_t) };

_Static_assert(offsetof(BlockAttr, rows) == 0 && offsetof(TideRows, count) == 0, "the count leads");
_Static_assert(sizeof(BlockAttr) == sizeof(TideRows) + (1 + TIDE_MAX_DIMS) * sizeof(int64_t),
               "padding would be hashed");

TideTensor tide_linear_dx(TideGraph *g, TideTensor dy, TideTensor weight, TideTensor x, TideTensor dx,
                          TideRows rows)
{
    TideTensor in[] = { dy, weight, dx };
    const Tensor *xt = graph_tensor(g, x);

    if (!xt) return (TideTensor){ 0 };
    BlockAttr attr = block_of(rows, xt->shape);
    return graph_append(g, (NodeSpec){ .op = &op_linear_dx,
                                       .in = in,
                                       .n_in = 3,
                                       .out = { dx },
                                       .attr = &attr,
                                       .attr_bytes = sizeof attr });
}
