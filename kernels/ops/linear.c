/* linear.c - y = x * transpose(weight) + bias.
 *
 *     in   x [.., K], weight [N, K], bias [N] or left out, y of the blocks before this one or left out
 *     out  y [.., N]; for a block of rows y [count, N], or rows [y_first, ..) of a larger y
 *
 * A tensor of many rows may be made block by block, so that what lies between two layers, wider than both,
 * exists for one block at a time: tide_linear() reads a block of x into a tensor of its own,
 * tide_linear_into() writes one back into the whole. */
#include "kernels/ops/shape.h"

enum { X, WEIGHT, BIAS, Y, N_IN };

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const Tensor *x = in[X], *weight = in[WEIGHT], *bias = in[BIAS];
    const BlockAttr *a = (const BlockAttr *)n->attr.bytes;
    const TideRows *rows = &a->rows;
    int64_t count = rows->count ? rows->count : shape_rows(x->shape);

    if (!is_float(x) || x->shape.n < 1 || weight->shape.n != 2) return false;
    if (shape_width(x->shape) != weight->shape.dim[1]) return false;
    if (bias && !is_vector(bias, weight->shape.dim[0])) return false;
    if (weight->type != x->type || (bias && bias->type != x->type)) return false;
    if (count < 1 || rows->x_first < 0 || rows->y_first < 0) return false;
    if (rows->x_first + count > shape_rows(x->shape)) return false;
    infer_like(&out[0], x);
    if (a->n_dims)
        out[0].shape = block_whole(a);
    else if (count < shape_rows(x->shape))
        out[0].shape = (TideShape){ 2, { count, weight->shape.dim[0] } };
    out[0].shape.dim[out[0].shape.n - 1] = weight->shape.dim[0];
    if (in[Y] && (in[Y]->type != x->type || !shape_equal(in[Y]->shape, out[0].shape))) return false;
    return rows->y_first + count <= shape_rows(out[0].shape);
}

/* What other blocks of rows gave to the gradient of x, to be continued; 0: nothing yet. */
static TideTensor take_blocks(TideGraph *g, const Node *n)
{
    TideTensor dx = graph_take_grad(g, n->in[X]);
    const Node *writer = graph_writer(g, dx);
    bool block = writer && writer->op == &op_linear_dx && ((const BlockAttr *)writer->attr.bytes)->rows.count;

    if (dx.id && !block)
        graph_refuse(g,
                     "op linear (%s) reads a block of rows of a tensor that other nodes read, too; only "
                     "blocks of linear layers may share it",
                     n->name);
    return dx;
}

static void grad(TideGraph *g, const Node *n, const TideTensor *dout, TideTensor *din)
{
    const TideRows *rows = &((const BlockAttr *)n->attr.bytes)->rows;
    const Tensor *x = graph_tensor(g, n->in[X]);
    bool part_of_x = x && rows->count && rows->count < shape_rows(x->shape);

    if (graph_wants_grad(g, n->in[X])) {
        TideTensor dx = part_of_x ? take_blocks(g, n) : (TideTensor){ 0 };
        din[X] = tide_linear_dx(g, dout[0], n->in[WEIGHT], n->in[X], dx, *rows);
    }
    tide_linear_dw(g, n->in[X], dout[0], n->in[WEIGHT], n->in[BIAS], *rows);
}

static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    const TideRows *rows = &((const BlockAttr *)n->attr.bytes)->rows;
    int64_t count = rows->count ? rows->count : shape_rows(in[X]->shape);

    (void)out;
    return 2.0 * (double)count * (double)shape_elements(in[WEIGHT]->shape);
}

static double bytes(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    const TideRows *rows = &((const BlockAttr *)n->attr.bytes)->rows;
    int64_t count = rows->count ? rows->count : shape_rows(in[X]->shape);

    return rows_bytes(in[X], count) + rows_bytes(out[0], count) + (double)in[WEIGHT]->bytes +
           (in[BIAS] ? (double)in[BIAS]->bytes : 0);
}

const OpDesc op_linear = { .name = "linear",
                           .id = OP_linear,
                           .n_out = 1,
                           .infer = infer,
                           .grad = grad,
                           .flops = flops,
                           .bytes = bytes,
                           .timed_bytes = sizeof(int64_t) };

static TideTensor append(TideGraph *g, const TideTensor *in, BlockAttr attr)
{
    return graph_append(g, (NodeSpec){ .op = &op_linear,
                                       .in = in,
                                       .n_in = N_IN,
                                       .out = { in[Y] },
                                       .attr = &attr,
                                       .attr_bytes = sizeof attr });
}

TideTensor tide_linear(TideGraph *g, TideTensor x, TideTensor weight, TideTensor bias, TideRows rows)
{
    TideTensor in[N_IN] = { x, weight, bias };
    const Tensor *xt = graph_tensor(g, x);

    if (rows.y_first) graph_refuse(g, "op linear: only tide_linear_into() writes rows of a larger tensor");
    if (xt && rows.count == shape_rows(xt->shape) && !rows.x_first) rows.count = 0;
    return append(g, in, (BlockAttr){ .rows = rows });
}

TideTensor tide_linear_into(TideGraph *g, TideTensor x, TideTensor weight, TideTensor bias, TideTensor like,
                            TideTensor y, TideRows rows)
{
    TideTensor in[N_IN] = { x, weight, bias, y };
    const Tensor *whole = graph_tensor(g, like);

    if (whole && rows.count == shape_rows(whole->shape))
        return tide_linear(g, x, weight, bias, (TideRows){ 0 });
    return whole ? append(g, in, block_of(rows, whole->shape)) : (TideTensor){ 0 };
}
