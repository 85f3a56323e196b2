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
static void exponentiate(const Pair *p, Softmax *w)
{
    _Alignas(64) float most[BLOCK];

    memcpy(most, w->most, sizeof most);
    for (int j = 0; j < p->key_rows; j++) {
        const float *row = w->scores + j * BLOCK;
        for (int i = first_query(p, j); i < BLOCK; i++) most[i] = row[i] > most[i] ? row[i] : most[i];
    }
    for (int i = 0; i < BLOCK; i++) {
        w->rescale[i] = math_exp(w->most[i] - most[i]);
        w->most[i] = most[i];
        w->sum[i] *= w->rescale[i];
    }
    for (int j = 0; j < p->key_rows; j++) {
        float *row = w->scores + j * BLOCK;
        for (int i = first_query(p, j); i < BLOCK; i++) {
            row[i] = math_exp(row[i] - most[i]);
            w->sum[i] += row[i];
        }
    }
}

/* Fold a block of keys into the running rows. */
static void fold_keys(const Pair *p, Softmax *w)
{
    int padded = p->s->padded;

    multiply_keys(p, w->keys, w->queries, w->scores);
    mask_future(p, w->scores);
    exponentiate(p, w);
    if (p->s->threshold) {
        dropout_mask(p, w->mask);
        for (int e = 0; e < p->key_rows * BLOCK; e++) w->scores[e] = survive(w->scores[e], w->mask[e]);
    }
    for (int i = 0; p->key && i < p->rows; i++)
        for (int d = 0; d < padded; d++) w->out[i * padded + d] *= w->rescale[i];
    sum_over_keys(p, w->scores, w->values, w->out);
}

/* The block of queries of p against all keys up to it. */
static void attend(Pair p, const KernelCall *c)
{
    const Heads *s = p.s;
    const float *qkv = c->in[0];
    float *o = (float *)c->out[0] + out_at(s, p.b, p.query, p.h), *lse = (float *)c->out[1] + p.row;
    Softmax w;

    for (int i = 0; i < BLOCK; i++) {
        w.most[i] = -INFINITY;
        w.sum[i] = 0;
    }
    pack_turned(s, (Rows){ qkv + query_at(s, p.b, p.query, p.h), s->stride, p.queries }, s->scale, w.queries);
    for (int64_t key = 0; key <= p.query; key += BLOCK) {
        pair_meet(&p, key);
        pack_rows(s, (Rows){ qkv + key_at(s, p.b, key, p.g), s->stride, p.keys }, w.keys);
        pack_rows(s, (Rows){ qkv + value_at(s, p.b, key, p.g), s->stride, p.keys }, w.values);
        fold_keys(&p, &w);
    }
    for (int i = 0; i < p.queries; i++) {
        float share = 1.0f / w.sum[i];
        for (int d = 0; d < s->width; d++) o[i * s->out_stride + d] = w.out[i * s->padded + d] * share;
        lse[i] = w.most[i] + logf(w.sum[i]);
    }
}

static TideStatus run(const KernelCall *c)
{
    Heads s = heads_of(c, c->in[1]);

#pragma omp parallel for collapse(3) schedule(dynamic)
    for (int64_t b = 0; b < s.batch; b++)
        for (int h = 0; h < s.heads; h++)
            for (int64_t query = 0; query < s.length; query += BLOCK) attend(pair_of(&s, b, h, query), c);
    return TIDE_OK;
}

const Kernel cpu_attention = { .run = run };
