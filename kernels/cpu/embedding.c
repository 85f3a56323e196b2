/* embedding.c - y[b, t] = table[tokens[b, t]] + positions[t]. */
#include <string.h>
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

/* A token outside the table (the host refuses such data) reads no memory: its row counts as 0. */
static void embed_row(float *y, const float *row, const float *position, int64_t width)
{
    size_t bytes = (size_t)width * sizeof *y;

    if (row && position)
        for (int64_t i = 0; i < width; i++) y[i] = row[i] + position[i];
    else if (row || position)
        memcpy(y, row ? row : position, bytes);
    else
        memset(y, 0, bytes);
}

static TideStatus run(const KernelCall *c)
{
    const int32_t *tokens = c->in[0];  /* [B, T] */
    const float *table = c->in[1];     /* [V, C] */
    const float *positions = c->in[2]; /* [Tmax, C] or NULL */
    float *y = c->out[0];              /* [B, T, C] */
    int64_t rows = shape_elements(c->in_info[0]->shape), T = c->in_info[0]->shape.dim[1];
    int64_t vocab = c->in_info[1]->shape.dim[0], width = c->in_info[1]->shape.dim[1];

#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++) {
        const float *row = tokens[r] >= 0 && tokens[r] < vocab ? table + tokens[r] * width : NULL;
        embed_row(y + r * width, row, positions ? positions + r % T * width : NULL, width);
    }
    return TIDE_OK;
}

const Kernel cpu_embedding = { .run = run };
