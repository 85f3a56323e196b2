/* attention_grad.c - backward of causal attention. With the probabilities P made again from scores
 * and lse, M the dropout mask and delta the row sums of do * o:
 *
 *     dV = (M P)^T dO,  dP = M (dO V^T),  dS = scale * P (dP - delta),  dQ = dS K,  dK = dS^T Q
 *
 * All queries that read one key head of one sequence are one thread's work, head by head and block
 * by block in order, so that the sums in dK and dV have one order. */
#include "kernels/cpu/attention_block.h"

/* One block of queries, and the block of keys that it meets. Rows are [row][padded]. */
typedef struct Work {
    _Alignas(64) float lse[BLOCK], delta[BLOCK];
    _Alignas(64) Panels q_turned, do_turned; /* [D][query]; queries scaled */
    _Alignas(64) Panels q, d_o, k, v, dq, part;
    _Alignas(64) Scores p, ds, mask;
} Work;

/* The pointers of the call. */
typedef struct Tensors {
    const float *qkv, *o, *lse, *d_o;
    float *dqkv;
} Tensors;

/* to += the rows of a block. */
static void add_rows(const Pair *p, const float *part, float *to)
{
    const Heads *s = p->s;

    for (int j = 0; j < p->keys; j++)
        for (int d = 0; d < s->width; d++) to[j * s->stride + d] += part[j * s->padded + d];
}

/* One row of scores, and of do * v: p = M P and ds = dS. */
static void finish_row(const Pair *pair, Work *w, int key)
{
    float *p = w->p + key * BLOCK, *ds = w->ds + key * BLOCK, scale = pair->s->scale;
    const float *mask = w->mask + key * BLOCK;
    int first = first_query(pair, key);

    if (!pair->s->threshold) {
        for (int i = first; i < BLOCK; i++) {
            p[i] = math_exp(p[i] - w->lse[i]);
            ds[i] = scale * (p[i] * (ds[i] - w->delta[i]));
        }
        return;
    }
    for (int i = first; i < BLOCK; i++) {
        float probability = math_exp(p[i] - w->lse[i]);
        ds[i] = scale * (probability * (survive(ds[i], mask[i]) - w->delta[i]));
        p[i] = survive(probability, mask[i]);
    }
}

/* Add what the block of queries gives to the block of keys, and take the keys' part of dq. */
static void meet_keys(const Pair *p, const Tensors *x, Work *w)
{
    const Heads *s = p->s;
    int64_t key = key_at(s, p->b, p->key, p->g), value = value_at(s, p->b, p->key, p->g);

    pack_rows(s, (Rows){ x->qkv + key, s->stride, p->keys }, w->k);
    pack_rows(s, (Rows){ x->qkv + value, s->stride, p->keys }, w->v);
    multiply_keys(p, w->k, w->q_turned, w->p);
    multiply_keys(p, w->v, w->do_turned, w->ds);
    mask_future(p, w->p);
    if (s->threshold) dropout_mask(p, w->mask);
    for (int j = 0; j < p->key_rows; j++) finish_row(p, w, j);

    sum_over_queries(p, w->p, w->d_o, w->part);
    add_rows(p, w->part, x->dqkv + value);
    sum_over_queries(p, w->ds, w->q, w->part);
    add_rows(p, w->part, x->dqkv + key);
    sum_over_keys(p, w->ds, w->k, w->dq);
}

/* What the block of queries needs of its own; zeros behind its end. */
static void load_queries(const Pair *p, const Tensors *x, Work *w)
{
    const Heads *s = p->s;
    int64_t at = out_at(s, p->b, p->query, p->h);
    Rows q = { x->qkv + query_at(s, p->b, p->query, p->h), s->stride, p->queries };
    Rows o = { x->o + at, s->out_stride, p->queries }, d_o = { x->d_o + at, s->out_stride, p->queries };

    pack_turned(s, q, s->scale, w->q_turned);
    pack_turned(s, d_o, 1.0f, w->do_turned);
    pack_rows(s, q, w->q);
    pack_rows(s, d_o, w->d_o);
    for (int i = 0; i < BLOCK; i++) w->lse[i] = w->delta[i] = 0;
    for (int i = 0; i < p->queries; i++) {
        float sum = 0;
        for (int d = 0; d < s->width; d++) sum += o.at[i * o.stride + d] * d_o.at[i * d_o.stride + d];
        w->delta[i] = sum;
        w->lse[i] = x->lse[p->row + i];
    }
}

static void back_through(Pair p, const Tensors *x)
{
    Work w;
    float *dq = x->dqkv + query_at(p.s, p.b, p.query, p.h);

    load_queries(&p, x, &w);
    for (int64_t key = 0; key <= p.query; key += BLOCK) {
        pair_meet(&p, key);
        meet_keys(&p, x, &w);
    }
    for (int i = 0; i < p.queries; i++)
        memcpy(dq + i * p.s->stride, w.dq + i * p.s->padded, (size_t)p.s->width * sizeof *dq);
}

static void clear_keys(const Heads *s, float *dqkv, int64_t b, int g)
{
    for (int64_t t = 0; t < s->length; t++) {
        memset(dqkv + key_at(s, b, t, g), 0, (size_t)s->width * sizeof *dqkv);
        memset(dqkv + value_at(s, b, t, g), 0, (size_t)s->width * sizeof *dqkv);
    }
}

static TideStatus run(const KernelCall *c)
{
    const TideAttention *a = (const TideAttention *)c->node->attr.bytes;
    Heads s = heads_of(c, c->in[3]);
    Tensors x = { c->in[0], c->in[1], c->in[2], c->in[4], c->out[0] };
    int64_t end = a->count ? a->first + a->count : s.batch;
    int sharing = s.heads / s.kv_heads;

#pragma omp parallel for collapse(2) schedule(dynamic)
    for (int64_t b = a->first; b < end; b++) {
        for (int g = 0; g < s.kv_heads; g++) {
            clear_keys(&s, x.dqkv, b, g);
            for (int h = g * sharing; h < (g + 1) * sharing; h++)
                for (int64_t query = 0; query < s.length; query += BLOCK)
                    back_through(pair_of(&s, b, h, query), &x);
        }
    }
    return TIDE_OK;
}

const Kernel cpu_attention_grad = { .run = run };
