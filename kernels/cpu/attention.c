/* attention.c - causal attention, block by block of keys with a running maximum and sum (Milakov
 * and Gimelshein 2018; Dao et al. 2022). A block of queries of one head is one thread's work. */
#include "kernels/cpu/attention_block.h"

/* One block of queries while the keys pass by. */
typedef struct Softmax {
    _Alignas(64) float most[BLOCK], sum[BLOCK], rescale[BLOCK];
    _Alignas(64) Panels queries; /* [D][query], scaled        */
    _Alignas(64) Panels keys, values, out;
    _Alignas(64) Scores scores, mask;
} Softmax;

/* Turn scores into exp(score - maximum), with the maximum raised where this block asks for it. */
static void exponentiate(Softmax *w, int keys, bool diagonal)
{
    _Alignas(64) float most[BLOCK];

    memcpy(most, w->most, sizeof most);
    for (int j = 0; j < keys; j++) {
        const float *row = w->scores + j * BLOCK;
        for (int i = first_query(diagonal, j); i < BLOCK; i++) most[i] = row[i] > most[i] ? row[i] : most[i];
    }
    for (int i = 0; i < BLOCK; i++) {
        w->rescale[i] = math_exp(w->most[i] - most[i]);
        w->most[i] = most[i];
        w->sum[i] *= w->rescale[i];
    }
    for (int j = 0; j < keys; j++) {
        float *row = w->scores + j * BLOCK;
        for (int i = first_query(diagonal, j); i < BLOCK; i++) {
            row[i] = math_exp(row[i] - most[i]);
            w->sum[i] += row[i];
        }
    }
}

/* Fold keys [first, first + n) into the running rows. */
static void fold_keys(const Heads *s, Softmax *w, int64_t row, int64_t first, int queries, int n, bool diagonal)
{
    int keys = round_up(n, GROUP), rows = round_up(queries, GROUP);

    product((Product){ .m = keys, .n = BLOCK, .k = s->width, .a = w->keys, .a_row = s->padded, .a_term = 1,
                       .b = w->queries, .ldb = BLOCK, .c = w->scores, .ldc = BLOCK,
                       .trim = diagonal ? COLUMNS_FROM_ROW : WHOLE });
    if (diagonal) mask_future(w->scores, keys);
    exponentiate(w, keys, diagonal);
    if (s->threshold) {
        dropout_mask(s, row, first, queries, n, w->mask);
        for (int e = 0; e < keys * BLOCK; e++) w->scores[e] = w->mask[e] > 0 ? w->scores[e] * w->mask[e] : 0.0f;
    }
    for (int i = 0; first && i < rows; i++)
        for (int d = 0; d < s->padded; d++) w->out[i * s->padded + d] *= w->rescale[i];
    product((Product){ .m = rows, .n = s->padded, .k = keys, .a = w->scores, .a_row = 1, .a_term = BLOCK,
                       .b = w->values, .ldb = s->padded, .c = w->out, .ldc = s->padded, .add = first > 0,
                       .trim = diagonal ? TERMS_TO_ROW : WHOLE });
}

/* Queries [first, first + BLOCK) of head h in sequence b. */
static void attend(const Heads *s, const float *qkv, float *o, float *lse, int64_t b, int h, int64_t first)
{
    Softmax w;
    int g = h / (s->heads / s->kv_heads);
    int queries = (int)(s->length - first < BLOCK ? s->length - first : BLOCK);
    int64_t row = (b * s->heads + h) * s->length + first;

    for (int i = 0; i < BLOCK; i++) {
        w.most[i] = -INFINITY;
        w.sum[i] = 0;
    }
    pack_turned(s, qkv + query_at(s, b, first, h), s->stride, queries, s->scale, w.queries);
    for (int64_t j = 0; j <= first; j += BLOCK) {
        int n = j == first ? queries : BLOCK;
        pack_rows(s, qkv + key_at(s, b, j, g), s->stride, n, w.keys);
        pack_rows(s, qkv + value_at(s, b, j, g), s->stride, n, w.values);
        fold_keys(s, &w, row, j, queries, n, j == first);
    }
    for (int i = 0; i < queries; i++) {
        float *to = o + out_at(s, b, first + i, h), share = 1.0f / w.sum[i];
        for (int d = 0; d < s->width; d++) to[d] = w.out[i * s->padded + d] * share;
        lse[row + i] = w.most[i] + logf(w.sum[i]);
    }
}

static TideStatus run(const KernelCall *c)
{
    Heads s = heads_of(c, c->in[1]);

#pragma omp parallel for collapse(3) schedule(dynamic)
    for (int64_t b = 0; b < s.batch; b++)
        for (int h = 0; h < s.heads; h++)
            for (int64_t first = 0; first < s.length; first += BLOCK)
                attend(&s, c->in[0], c->out[0], c->out[1], b, h, first);
    return TIDE_OK;
}

const Kernel cpu_attention = { .run = run };
