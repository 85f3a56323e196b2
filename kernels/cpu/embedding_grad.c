/* embedding_grad.c - rows of dy added to the rows of their tokens and of their positions.
 *
 * Threads share out blocks of channels, not of tokens: every element of the table then receives its
 * additions in the order of the tokens, however many threads there are. */
#include <string.h>
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

enum { BLOCK = 32 }; /* channels: two cache lines */

typedef struct Job {
    const int32_t *tokens; /* [B, T]    */
    const float *dy;       /* [B, T, C] */
    int64_t B, T, C;
} Job;

static inline void add_row(float *to, const float *from, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

/* dtable [vocab, C]. Rows that no token names must be 0 after the first write. */
static void table_gradient(float *dtable, int64_t vocab, bool add, const Job *j)
{
#pragma omp parallel
    {
        if (!add) {
#pragma omp for
            for (int64_t v = 0; v < vocab; v++) memset(dtable + v * j->C, 0, (size_t)j->C * sizeof *dtable);
        }
#pragma omp for
        for (int64_t first = 0; first < j->C; first += BLOCK) {
            int64_t n = j->C - first < BLOCK ? j->C - first : BLOCK;
            for (int64_t r = 0; r < j->B * j->T; r++)
                if (j->tokens[r] >= 0 && j->tokens[r] < vocab)
                    add_row(dtable + j->tokens[r] * j->C + first, j->dy + r * j->C + first, n);
        }
    }
}

/* dpositions [Tmax, C]: the sum over sequences. */
static void position_gradient(float *dpositions, int64_t Tmax, bool add, const Job *j)
{
#pragma omp parallel for
    for (int64_t t = 0; t < Tmax; t++) {
        float *to = dpositions + t * j->C;
        if (!add) memset(to, 0, (size_t)j->C * sizeof *to);
        for (int64_t b = 0; b < j->B && t < j->T; b++) add_row(to, j->dy + (b * j->T + t) * j->C, j->C);
    }
}

static TideStatus run(const KernelCall *c)
{
    TideShape tokens = c->in_info[0]->shape;
    Job j = { c->in[0], c->in[1], tokens.dim[0], tokens.dim[1], shape_width(c->in_info[1]->shape) };

    if (c->out[0]) table_gradient(c->out[0], c->out_info[0]->shape.dim[0], c->in[2] != NULL, &j);
    if (c->out[1]) position_gradient(c->out[1], c->out_info[1]->shape.dim[0], c->in[3] != NULL, &j);
    return TIDE_OK;
}

const Kernel cpu_embedding_grad = { .run = run };
