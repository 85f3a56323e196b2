/* linear_dw.c - the gradients of a linear layer's parameters:
 * dweight = transpose(dy) * x, dbias = the sum of the rows of dy.
 *
 *     in   x [.., K], dy [.., N], then dweight and dbias where they are added to, or left out
 *     out  dweight [N, K], dbias [N]; left out where there is none
 *
 * Rows [x_first, x_first + count) of x go with rows [y_first, ..) of dy. Where dy was made by gelu_grad or
 * layernorm_grad, that node makes dbias on the way. */
#include "kernels/ops/shape.h"

enum { DBIAS = 3 };

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const TideRows *rows = (const TideRows *)n->attr.bytes;
    const Tensor *x = in[0], *dy = in[1];
    int64_t count = rows->count ? rows->count : shape_rows(x->shape);

    (void)out; /* persistent tensors, or none */
    if (!is_float(x) || !is_float(dy) || x->shape.n < 1 || dy->shape.n < 1) return false;
    return count > 0 && rows->x_first >= 0 && rows->y_first >= 0 &&
           rows->x_first + count <= shape_rows(x->shape) && rows->y_first + count <= shape_rows(dy->shape);
}

static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    const TideRows *rows = (const TideRows *)n->attr.bytes;
    int64_t count = rows->count ? rows->count : shape_rows(in[0]->shape);

    (void)out;
    return 2.0 * (double)count * (double)shape_width(in[0]->shape) * (double)shape_width(in[1]->shape);
}

static double bytes(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    const TideRows *rows = (const TideRows *)n->attr.bytes;
    int64_t count = rows->count ? rows->count : shape_rows(in[0]->shape);
    double bytes = rows_bytes(in[0], count) + rows_bytes(in[1], count);

    for (int i = 2; i < n->n_in; i++) bytes += in[i] ? (double)in[i]->bytes : 0;
    for (int i = 0; i < n->n_out; i++) bytes += out[i] ? (double)out[i]->bytes : 0;
    return bytes;
}

const OpDesc op_linear_dw = { .name = "linear_dw",
                              .id = OP_linear_dw,
                              .n_out = 2,
                              .infer = infer,
                              .flops = flops,
                              .bytes = bytes,
                              .timed_bytes = sizeof(int64_t) };

/* The weight and bias must be those of the layer: their gradients have the shapes that x and dy
 * imply. */
static bool fits(TideGraph *g, const TideTensor *in, TideTensor weight, TideTensor bias)
{
    const Tensor *x = graph_tensor(g, in[0]), *dy = graph_tensor(g, in[1]);
    const Tensor *w = graph_tensor(g, weight), *b = graph_tensor(g, bias);

    return x && dy && w && x->shape.n && dy->shape.n && w->shape.n == 2 &&
           w->shape.dim[0] == shape_width(dy->shape) && w->shape.dim[1] == shape_width(x->shape) &&
           (!b || is_vector(b, w->shape.dim[0]));
}

/* Are the rows all those of dy? */
static bool is_whole(const TideGraph *g, TideTensor dy, TideRows rows)
{
    return !rows.count || (!rows.y_first && rows.count == shape_rows(graph_tensor(g, dy)->shape));
}

TideTensor tide_linear_dw(TideGraph *g, TideTensor x, TideTensor dy, TideTensor weight, TideTensor bias,
                          TideRows rows)
{
    bool add_weight = false, add_bias = false;
    TideTensor dweight = graph_param_grad(g, weight, &add_weight);
    TideTensor dbias = bias.id ? graph_param_grad(g, bias, &add_bias) : (TideTensor){ 0 };
    TideTensor in[] = { x, dy, { add_weight ? dweight.id : 0 }, { add_bias ? dbias.id : 0 } };

    if (!dweight.id && !dbias.id) return (TideTensor){ 0 };
    if (!fits(g, in, weight, bias)) {
        graph_refuse(g, "op linear_dw: the weight does not fit x and dy");
        return (TideTensor){ 0 };
    }
    if (is_whole(g, dy, rows) && (graph_extend(g, dy, &op_gelu_grad, in[DBIAS], dbias) ||
                                  graph_extend(g, dy, &op_layernorm_grad, in[DBIAS], dbias))) {
        in[DBIAS] = dbias = (TideTensor){ 0 };
        if (!dweight.id) return (TideTensor){ 0 };
    }
    return graph_append(g, (NodeSpec){ .op = &op_linear_dw,
                                       .in = in,
                                       .n_in = 4,
                                       .out = { dweight, dbias },
                                       .attr = &rows,
                                       .attr_bytes = sizeof rows });
}
