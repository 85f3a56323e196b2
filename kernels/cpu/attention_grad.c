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
static void add_rows(const Heads *s, const float *part, int n, float *to)
{
    for (int i = 0; i < n; i++)
        for (int d = 0; d < s->width; d++) to[i * s->stride + d] += part[i * s->padded + d];
}

/* p = P and ds = dS for the two blocks at hand; then p = M P. */
static void make_scores(const Heads *s, Work *w, int keys, bool diagonal)
{
    Product to_scores = { .m = keys, .n = BLOCK, .k = s->width, .a = w->k, .a_row = s->padded, .a_term = 1,
                          .b = w->q_turned, .ldb = BLOCK, .c = w->p, .ldc = BLOCK,
                          .trim = diagonal ? COLUMNS_FROM_ROW : WHOLE };
    product(to_scores);
    to_scores.a = w->v;
    to_scores.b = w->do_turned;
    to_scores.c = w->ds;
    product(to_scores);
    if (diagonal) mask_future(w->p, keys);

    for (int j = 0; j < keys; j++) {
        float *p = w->p + j * BLOCK, *ds = w->ds + j * BLOCK;
        const float *mask = w->mask + j * BLOCK;
        int first = first_query(diagonal, j);
        if (s->threshold) {
            for (int i = first; i < BLOCK; i++) {
                float dp = mask[i] > 0 ? ds[i] * mask[i] : 0.0f;
                p[i] = math_exp(p[i] - w->lse[i]);
                ds[i] = s->scale * (p[i] * (dp - w->delta[i]));
                p[i] = mask[i] > 0 ? p[i] * mask[i] : 0.0f;
            }
        } else {
            for (int i = first; i < BLOCK; i++) {
                p[i] = math_exp(p[i] - w->lse[i]);
                ds[i] = s->scale * (p[i] * (ds[i] - w->delta[i]));
            }
        }
    }
}

/* Add what the block of queries at hand gives to keys [first, first + n), and take its part of dq. */
static void meet_keys(const Heads *s, const Tensors *x, Work *w, int64_t b, int g, int64_t first, int queries, int n,
                      bool diagonal)
{
    int keys = round_up(n, GROUP), rows = round_up(queries, GROUP);

    pack_rows(s, x->qkv + key_at(s, b, first, g), s->stride, n, w->k);
    pack_rows(s, x->qkv + value_at(s, b, first, g), s->stride, n, w->v);
    make_scores(s, w, keys, diagonal);

    Product to_keys = { .m = keys, .n = s->padded, .k = rows, .a = w->p, .a_row = BLOCK, .a_term = 1, .b = w->d_o,
                        .ldb = s->padded, .c = w->part, .ldc = s->padded,
                        .trim = diagonal ? TERMS_FROM_ROW : WHOLE };
    product(to_keys);
    add_rows(s, w->part, n, x->dqkv + value_at(s, b, first, g));
    to_keys.a = w->ds;
    to_keys.b = w->q;
    product(to_keys);
    add_rows(s, w->part, n, x->dqkv + key_at(s, b, first, g));
    product((Product){ .m = rows, .n = s->padded, .k = keys, .a = w->ds, .a_row = 1, .a_term = BLOCK, .b = w->k,
                       .ldb = s->padded, .c = w->dq, .ldc = s->padded, .add = first > 0,
                       .trim = diagonal ? TERMS_TO_ROW : WHOLE });
}

/* lse and delta of a block of queries; zeros behind its end. */
static void load_rows(const Heads *s, const Tensors *x, Work *w, int64_t b, int h, int64_t first, int queries)
{
    for (int i = 0; i < BLOCK; i++) w->lse[i] = w->delta[i] = 0;
    for (int i = 0; i < queries; i++) {
        const float *o = x->o + out_at(s, b, first + i, h), *d_o = x->d_o + out_at(s, b, first + i, h);
        float sum = 0;
        for (int d = 0; d < s->width; d++) sum += o[d] * d_o[d];
        w->delta[i] = sum;
        w->lse[i] = x->lse[(b * s->heads + h) * s->length + first + i];
    }
}

/* Queries [first, first + BLOCK) of head h in sequence b. */
static void back_through(const Heads *s, const Tensors *x, int64_t b, int h, int64_t first)
{
    Work w;
    int g = h / (s->heads / s->kv_heads);
    int queries = (int)(s->length - first < BLOCK ? s->length - first : BLOCK);
    const float *q = x->qkv + query_at(s, b, first, h), *d_o = x->d_o + out_at(s, b, first, h);
    float *dq = x->dqkv + query_at(s, b, first, h);

    load_rows(s, x, &w, b, h, first, queries);
    pack_turned(s, q, s->stride, queries, s->scale, w.q_turned);
    pack_turned(s, d_o, s->out_stride, queries, 1.0f, w.do_turned);
    pack_rows(s, q, s->stride, queries, w.q);
    pack_rows(s, d_o, s->out_stride, queries, w.d_o);
    for (int64_t j = 0; j <= first; j += BLOCK) {
        int n = j == first ? queries : BLOCK;
        if (s->threshold)
            dropout_mask(s, (b * s->heads + h) * s->length + first, j, queries, n, w.mask);
        meet_keys(s, x, &w, b, g, j, queries, n, j == first);
    }
    for (int i = 0; i < queries; i++) memcpy(dq + i * s->stride, w.dq + i * s->padded, (size_t)s->width * sizeof *dq);
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
                for (int64_t first = 0; first < s.length; first += BLOCK) back_through(&s, &x, b, h, first);
        }
    }
    return TIDE_OK;
}

const Kernel cpu_attention_grad = { .run = run };
