/* embedding_grad.c - the gradients of an embedding's two tables: every row of dy is added to the
 * row of its token and to the row of its position.
 *
 *     in   tokens i32 [B, T], dy [B, T, C], then the gradients that are added to (0: written anew)
 *     out  gradient of the table [V, C], of the positions [Tmax, C]; left out where there is none */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const Tensor *tokens = in[0], *dy = in[1];
    (void)n;
    (void)out; /* gradients exist already */

    return tokens->type == TIDE_I32 && tokens->shape.n == 2 && is_float(dy) &&
           shape_rows(dy->shape) == shape_elements(tokens->shape);
}

const OpDesc op_embedding_grad = {
    .name = "embedding_grad", .id = OP_embedding_grad, .n_out = 2, .infer = infer
};

TideTensor tide_embedding_grad(TideGraph *g, TideTensor tokens, TideTensor dy, TideTensor table,
                               TideTensor positions)
{
    bool add_table = false, add_positions = false;
    TideTensor dtable = graph_param_grad(g, table, &add_table);
    TideTensor dpositions = positions.id ? graph_param_grad(g, positions, &add_positions) : (TideTensor){ 0 };
    TideTensor in[] = { tokens, dy, { add_table ? dtable.id : 0 }, { add_positions ? dpositions.id : 0 } };

    if (!dtable.id && !dpositions.id) return (TideTensor){ 0 };
    return graph_append(
        g, (NodeSpec){ .op = &op_embedding_grad, .in = in, .n_in = 4, .out = { dtable, dpositions } });
}
