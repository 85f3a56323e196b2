/* attention_block.h - what the two attention kernels do with one block of keys against one block of
 * queries, in memory of a thread's own stack.
 *
 * Scores are kept transposed, [key][query]: then the maximum and the sum of a softmax row run down a
 * column, for a vector of queries at once, and only the block of queries has to be turned. Blocks are
 * padded to whole vectors with zeros; padded keys are masked, padded queries never written. */
#ifndef TIDE_ATTENTION_BLOCK_H
#define TIDE_ATTENTION_BLOCK_H
#include <string.h>
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/cpu_math.h"
#include "kernels/cpu/philox.h"

enum {
    BLOCK = 64,                                          /* queries, keys                   */
    MOST_WIDTH = 256,                                    /* of a head                       */
    VECTOR = __BIGGEST_ALIGNMENT__ / (int)sizeof(float), /* floats of this machine's vector */
    PANEL = 2 * VECTOR,                                  /* columns of a register tile      */
    GROUP = VECTOR / 2                                   /* its rows: 8 with 32 registers   */
};
typedef float Vector __attribute__((vector_size(VECTOR * sizeof(float))));
typedef float Scores[BLOCK * BLOCK];      /* [key][query]                                     */
typedef float Panels[BLOCK * MOST_WIDTH]; /* [row][padded width], or turned: [width][query] */

/* Where the pieces of a packed tensor lie, and what a block needs to know of the whole. */
typedef struct Heads {
    int64_t batch, length;      /* B, T                                                     */
    int heads, kv_heads, width; /* width of a head, D                                       */
    int padded;                 /* D rounded up to PANEL                                    */
    int64_t stride, out_stride; /* floats from position to position: qkv, o                 */
    float scale;                /* of scores: 1 / sqrt(D)                                   */
    float keep_scale;           /* of probabilities that survive dropout: 1 / (1 - p)       */
    uint32_t threshold;         /* of random words; 0: no dropout                           */
    Philox philox;
} Heads;

static inline int round_up(int64_t n, int step)
{
    return (int)((n + step - 1) / step * step);
}

static inline Heads heads_of(const KernelCall *c, const TideStepInfo *info)
{
    const TideAttention *a = (const TideAttention *)c->node->attr.bytes;
    TideShape qkv = c->in_info[0]->shape;
    Heads s = { .batch = qkv.dim[0],
                .length = qkv.dim[1],
                .heads = a->heads,
                .kv_heads = a->kv_heads,
                .width = a->head_dim,
                .padded = round_up(a->head_dim, PANEL),
                .stride = qkv.dim[2],
                .out_stride = (int64_t)a->heads * a->head_dim,
                .scale = 1.0f / sqrtf((float)a->head_dim),
                .keep_scale = 1.0f / (1.0f - a->dropout) };

    if (a->dropout > 0) {
        s.threshold = philox_threshold(a->dropout);
        s.philox = philox_of(info, (int)a->site);
    }
    return s;
}

/* Position t of query head h, of key head g, of value head g in qkv or its gradient. */
static inline int64_t query_at(const Heads *s, int64_t b, int64_t t, int h)
{
    return (b * s->length + t) * s->stride + (int64_t)h * s->width;
}
static inline int64_t key_at(const Heads *s, int64_t b, int64_t t, int g)
{
    return query_at(s, b, t, s->heads + g);
}
static inline int64_t value_at(const Heads *s, int64_t b, int64_t t, int g)
{
    return query_at(s, b, t, s->heads + s->kv_heads + g);
}
static inline int64_t out_at(const Heads *s, int64_t b, int64_t t, int h)
{
    return (b * s->length + t) * s->out_stride + (int64_t)h * s->width;
}

/* A block of queries of one head, and the block of keys that it meets. */
typedef struct Pair {
    const Heads *s;
    int64_t b;          /* sequence                                                    */
    int h, g;           /* query head, and the key head that it reads                  */
    int64_t query, row; /* the first query; its row of lse [B, heads, T]               */
    int64_t key;        /* the first key                                               */
    int queries, keys;  /* how many                                                    */
    int rows, key_rows; /* the same, rounded up to GROUP                               */
    bool diagonal;      /* both blocks are the same positions                          */
} Pair;

static inline int block_size(const Heads *s, int64_t first)
{
    return (int)(s->length - first < BLOCK ? s->length - first : BLOCK);
}

static inline Pair pair_of(const Heads *s, int64_t b, int h, int64_t query)
{
    int n = block_size(s, query);

    return (Pair){ .s = s,
                   .b = b,
                   .h = h,
                   .g = h / (s->heads / s->kv_heads),
                   .query = query,
                   .row = (b * s->heads + h) * s->length + query,
                   .queries = n,
                   .rows = round_up(n, GROUP) };
}

static inline void pair_meet(Pair *p, int64_t key)
{
    p->key = key;
    p->keys = block_size(p->s, key);
    p->key_rows = round_up(p->keys, GROUP);
    p->diagonal = key == p->query;
}

/* ---- Blocks in and out ------------------------------------------------------------------------ */

/* Rows of D floats in a packed tensor. */
typedef struct Rows {
    const float *at;
    int64_t stride; /* floats from row to row */
    int n;
} Rows;

/* To [n rounded up to GROUP][padded]. */
static inline void pack_rows(const Heads *s, Rows from, float *restrict to)
{
    int rows = round_up(from.n, GROUP);

    for (int i = 0; i < from.n; i++) {
        memcpy(to + i * s->padded, from.at + i * from.stride, (size_t)s->width * sizeof *to);
        for (int d = s->width; d < s->padded; d++) to[i * s->padded + d] = 0;
    }
    memset(to + from.n * s->padded, 0, (size_t)((rows - from.n) * s->padded) * sizeof *to);
}

/* To [D][BLOCK], times factor. */
static inline void pack_turned(const Heads *s, Rows from, float factor, float *restrict to)
{
    for (int d = 0; d < s->width; d++) {
        for (int i = 0; i < from.n; i++) to[d * BLOCK + i] = factor * from.at[i * from.stride + d];
        for (int i = from.n; i < BLOCK; i++) to[d * BLOCK + i] = 0;
    }
}

/* ---- Products --------------------------------------------------------------------------------- */

/* In a block on the diagonal a score exists only for key <= query. What can be left out then: */
typedef enum Trim {
    WHOLE,
    COLUMNS_FROM_ROW, /* rows are keys, columns queries                    */
    TERMS_FROM_ROW,   /* rows are keys, the sum runs over queries          */
    TERMS_TO_ROW,     /* rows are queries, the sum runs over keys          */
} Trim;

/* c [m, n] (+)= a [m, k] * b [k, n]; element (i, t) of a is a[i * a_row + t * a_term]. m is a multiple
 * of GROUP, n of PANEL; b and c are aligned to vectors. */
typedef struct Product {
    int m, n, k;
    const float *a, *b;
    int a_row, a_term, ldb, ldc;
    float *c;
    bool add;
    Trim trim;
} Product;

static inline void register_tile(const Product *p, int row, int column, int from, int to)
{
    const float *a = p->a + (int64_t)row * p->a_row;
    float *c = p->c + row * p->ldc + column;
    Vector sum[GROUP][2];

    for (int i = 0; i < GROUP; i++) {
        Vector *from_c = (Vector *)(c + i * p->ldc);
        sum[i][0] = p->add ? from_c[0] : (Vector){ 0 };
        sum[i][1] = p->add ? from_c[1] : (Vector){ 0 };
    }
    for (int t = from; t < to; t++) {
        const Vector *b = (const Vector *)(p->b + t * p->ldb + column);
        Vector b0 = b[0], b1 = b[1];
        for (int i = 0; i < GROUP; i++) {
            float x = a[i * p->a_row + t * p->a_term];
            sum[i][0] += x * b0;
            sum[i][1] += x * b1;
        }
    }
    for (int i = 0; i < GROUP; i++) {
        Vector *to_c = (Vector *)(c + i * p->ldc);
        to_c[0] = sum[i][0];
        to_c[1] = sum[i][1];
    }
}

static inline void product(Product p)
{
    for (int column = 0; column < p.n; column += PANEL) {
        for (int row = 0; row < p.m; row += GROUP) {
            if (p.trim == COLUMNS_FROM_ROW && column + PANEL <= row) break;
            int from = p.trim == TERMS_FROM_ROW ? row : 0;
            int to = p.trim == TERMS_TO_ROW && row + GROUP < p.k ? row + GROUP : p.k;
            register_tile(&p, row, column, from, to);
        }
    }
}

/* scores [key][query] = rows [key][D] * turned [D][query]. */
static inline void multiply_keys(const Pair *p, const float *rows, const float *turned, float *scores)
{
    product((Product){ .m = p->key_rows,
                       .n = BLOCK,
                       .k = p->s->width,
                       .a = rows,
                       .a_row = p->s->padded,
                       .a_term = 1,
                       .b = turned,
                       .ldb = BLOCK,
                       .c = scores,
                       .ldc = BLOCK,
                       .trim = p->diagonal ? COLUMNS_FROM_ROW : WHOLE });
}

/* out [query][D] = the sum over keys of scores [key][query] * rows [key][D], added to what the keys
 * before gave. */
static inline void sum_over_keys(const Pair *p, const float *scores, const float *rows, float *out)
{
    product((Product){ .m = p->rows,
                       .n = p->s->padded,
                       .k = p->key_rows,
                       .a = scores,
                       .a_row = 1,
                       .a_term = BLOCK,
                       .b = rows,
                       .ldb = p->s->padded,
                       .c = out,
                       .ldc = p->s->padded,
                       .add = p->key > 0,
                       .trim = p->diagonal ? TERMS_TO_ROW : WHOLE });
}

/* out [key][D] = the sum over queries of scores [key][query] * rows [query][D]. */
static inline void sum_over_queries(const Pair *p, const float *scores, const float *rows, float *out)
{
    product((Product){ .m = p->key_rows,
                       .n = p->s->padded,
                       .k = p->rows,
                       .a = scores,
                       .a_row = BLOCK,
                       .a_term = 1,
                       .b = rows,
                       .ldb = p->s->padded,
                       .c = out,
                       .ldc = p->s->padded,
                       .trim = p->diagonal ? TERMS_FROM_ROW : WHOLE });
}

/* The first query of a row of scores worth a look: whole vectors, on the diagonal from the key on. */
static inline int first_query(const Pair *p, int key)
{
    return p->diagonal ? key / VECTOR * VECTOR : 0;
}

/* ---- Masks ------------------------------------------------------------------------------------ */

/* In a block on the diagonal a key after the query has score -infinity. */
static inline void mask_future(const Pair *p, float *scores)
{
    for (int j = 0; p->diagonal && j < p->key_rows; j++)
        for (int i = 0; i < j; i++) scores[j * BLOCK + i] = -INFINITY;
}

/* mask [key][query]: 0 for probabilities that dropout removes, else keep_scale. The number of an
 * element is ((b * heads + h) * T + query) * T + key. */
static inline void dropout_mask(const Pair *p, float *restrict mask)
{
    const Heads *s = p->s;
    uint32_t words[BLOCK];

    memset(mask, 0, (size_t)(BLOCK * p->key_rows) * sizeof *mask);
    for (int i = 0; i < p->queries; i++) {
        philox_words(&s->philox, (uint64_t)((p->row + i) * s->length + p->key), p->keys, words);
        for (int j = 0; j < p->keys; j++)
            mask[j * BLOCK + i] = words[j] >= s->threshold ? s->keep_scale : 0.0f;
    }
}

/* x if dropout keeps it, scaled; no infinity or NaN of a removed element gets through. */
static inline float survive(float x, float mask)
{
    return mask > 0 ? x * mask : 0.0f;
}

#endif
