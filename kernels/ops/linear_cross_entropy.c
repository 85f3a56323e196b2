/* linear_cross_entropy.c - the head of a language model and its loss, in chunks of rows.
 *
 * Not an op but a sequence of ops: of all the logits [rows, padded vocab] only one chunk exists at a
 * time. The gradient of the loss is known as soon as a chunk's logits are, so in training the head's
 * backward runs here, chunk by chunk, and tide_backward() starts from dx. */
#include <stdio.h>
#include "kernels/ops/shape.h"

static TideTensor chunk_logits(TideGraph *g, TideTensor x, TideTensor weight, TideRows rows, int number)
{
    char name[32];
    TideTensor logits = tide_linear(g, x, weight, (TideTensor){ 0 }, rows);

    snprintf(name, sizeof name, "logits%d", number);
    return logits.id ? tide_name(g, logits, name) : logits;
}

TideLoss tide_linear_cross_entropy(TideGraph *g, TideTensor x, TideTensor weight, TideTensor targets,
                                   TideTensor info, TideClasses c, int64_t chunk_rows, bool train)
{
    TideLoss loss = { { 0 }, { 0 } };
    const Tensor *xt = graph_tensor(g, x), *wt = graph_tensor(g, weight);

    if (!xt || !wt) return loss;
    int64_t rows = shape_rows(xt->shape);
    if (chunk_rows <= 0) chunk_rows = tide_block_rows(rows, wt->shape.dim[0], graph_block_elements(g));

    /* From the first chunk's logits on: they are not activations that a plan could make again, for
     * their gradient replaces them at once. */
    if (train) graph_phase(g, PHASE_BACKWARD);
    for (int64_t first = 0; first < rows; first += chunk_rows) {
        int64_t count = first + chunk_rows < rows ? chunk_rows : rows - first;
        TideRows chunk = { .count = count, .x_first = first };
        TideTensor logits = chunk_logits(g, x, weight, chunk, (int)(first / chunk_rows));

        c.first = first;
        loss.losses = train ? tide_cross_entropy_grad(g, logits, targets, loss.losses, info, c)
                            : tide_cross_entropy(g, logits, targets, loss.losses, c);
        if (!loss.losses.id) return (TideLoss){ { 0 }, { 0 } };
        if (first == 0) tide_name(g, loss.losses, "loss");
        if (!train) continue;
        loss.dx = tide_linear_dx(g, logits, weight, x, loss.dx, chunk);
        tide_linear_dw(g, x, logits, weight, (TideTensor){ 0 }, chunk);
    }
    return loss;
}
