/* linear.c - y = x * transpose(weight) + bias.
 *
 *     in   x [.., K], weight [N, K], bias [N] or left out
 *     out  y [.., N]; for a block of rows y [count, N] */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const Tensor *x = in[0], *weight = in[1], *bias = in[2];
    const TideRows *rows = (const TideRows *)n->attr.bytes;

    if (!is_float(x) || x->shape.n < 1 || weight->shape.n != 2) return false;
    if (shape_width(x->shape) != weight->shape.dim[1]) return false;
    if (bias && !is_vector(bias, weight->shape.dim[0])) return false;
    if (weight->type != x->type || (bias && bias->type != x->type)) return false;
    if (rows->count < 0 || rows->x_first < 0 || rows->y_first) return false;
    if (rows->x_first + rows->count > shape_rows(x->shape)) return false;
    infer_like(&out[0], x);
    if (rows->count && rows->count < shape_rows(x->shape))
        out[0].shape = (TideShape){ 2, { rows->count, weight->shape.dim[0] } };
    out[0].shape.dim[out[0].shape.n - 1] = weight->shape.dim[0];
    return true;
}

static void grad(TideGraph *g, const Node *n, const TideTensor *dout, TideTensor *din)
{
    TideTensor x = n->in[0], weight = n->in[1], bias = n->in[2];
    TideRows all = { 0 };

    if (((const TideRows *)n->attr.bytes)->count) {
        graph_refuse(g, "op linear (%s) over a block of rows: append linear_dx and linear_dw", n->name);
        return;
    }
    if (graph_wants_grad(g, x)) din[0] = tide_linear_dx(g, dout[0], weight, x, (TideTensor){ 0 }, all);
    tide_linear_dw(g, x, dout[0], weight, bias, all);
}

static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    (void)n;
    return 2.0 * (double)shape_elements(out[0]->shape) * (double)shape_width(in[0]->shape);
}

const OpDesc op_linear = {
    .name = "linear", .id = OP_linear, .n_out = 1, .infer = infer, .grad = grad, .flops = flops
};

TideTensor tide_linear(TideGraph *g, TideTensor x, TideTensor weight, TideTensor bias, TideRows rows)
{
    TideTensor in[] = { x, weight, bias };
    const Tensor *xt = graph_tensor(g, x);

    if (xt && rows.count == shape_rows(xt->shape) && !rows.x_first) rows.count = 0;
    return graph_append(
        g, (NodeSpec){ .op = &op_linear, .in = in, .n_in = 3, .attr = &rows, .attr_bytes = sizeof rows });
}
