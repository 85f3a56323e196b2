/* embedding.c - y[b, t] = table[tokens[b, t]] + positions[t]: tokens i32 [B, T], table [V, C],
 * positions [Tmax, C] or left out, y [B, T, C]. */
#include "kernels/ops/shape.h"

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const Tensor *tokens = in[0], *table = in[1], *positions = in[2];
    (void)n;

    if (tokens->type != TIDE_I32 || tokens->shape.n != 2) return false;
    if (!is_float(table) || table->shape.n != 2) return false;
    int64_t width = table->shape.dim[1];
    if (positions && (positions->type != table->type || positions->shape.n != 2)) return false;
    if (positions && positions->shape.dim[1] != width) return false;
    if (positions && positions->shape.dim[0] < tokens->shape.dim[1]) return false; /* T > Tmax */

    out[0].type = table->type;
    out[0].shape = (TideShape){ 3, { tokens->shape.dim[0], tokens->shape.dim[1], width } };
    return true;
}

static void grad(TideGraph *g, const Node *n, const TideTensor *dout, TideTensor *din)
{
    (void)din; /* parameters: embedding_grad puts their gradients where they belong */
    tide_embedding_grad(g, n->in[0], dout[0], n->in[1], n->in[2]);
}

const OpDesc op_embedding = {
    .name = "embedding", .id = OP_embedding, .n_out = 1, .infer = infer, .grad = grad
};

TideTensor tide_embedding(TideGraph *g, TideTensor tokens, TideTensor table, TideTensor positions)
{
    TideTensor in[] = { tokens, table, positions };

    return graph_append(g, (NodeSpec){ .op = &op_embedding, .in = in, .n_in = 3 });
}
