/* reference_dense.c - linear layers and attention in double: see reference.h. */
#include <math.h>
#include <stdlib.h>
#include "kernels/cpu/philox.h"
#include "kernels/ops/shape.h"
#include "tests/support/reference.h"

/* ---- Linear layers -------------------------------------------------------------------- */

/* to[j] += factor * from[j]. */
static void add_scaled(double *restrict to, const double *restrict from, double factor, int64_t n)
{
    for (int64_t j = 0; j < n; j++) to[j] += factor * from[j];
}

/* In four chains, so that the additions need not wait for each other. */
static double dot(const double *a, const double *b, int64_t n)
{
    double sum[4] = { 0 };

    for (int64_t i = 0; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) sum[k] += a[i + k] * b[i + k];
    for (int64_t i = n - n % 4; i < n; i++) sum[0] += a[i] * b[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

void reference_linear(const ReferenceCall *c)
{
    const TideRows *r = &((const BlockAttr *)c->node->attr.bytes)->rows;
    int64_t K = shape_width(c->in_info[0]->shape), N = shape_width(c->out_info[0]->shape);
    int64_t rows = r->count ? r->count : shape_rows(c->in_info[0]->shape);
    const double *x = c->in[0] + r->x_first * K;
    double *y = c->out[0] + r->y_first * N;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < N; j++)
            y[i * N + j] = (c->in[2] ? c->in[2][j] : 0) + dot(x + i * K, c->in[1] + j * K, K);
}

void reference_linear_dx(const ReferenceCall *c)
{
    const TideRows *r = &((const BlockAttr *)c->node->attr.bytes)->rows;
    int64_t K = shape_width(c->out_info[0]->shape), N = shape_width(c->in_info[0]->shape);
    int64_t rows = r->count ? r->count : shape_rows(c->out_info[0]->shape);

    for (int64_t i = 0; i < rows; i++) {
        double *dx = c->out[0] + (r->x_first + i) * K;
        const double *dy = c->in[0] + (r->y_first + i) * N;
        for (int64_t k = 0; k < K; k++) dx[k] = 0;
        for (int64_t j = 0; j < N; j++) add_scaled(dx, c->in[1] + j * K, dy[j], K);
    }
}

void reference_linear_dw(const ReferenceCall *c)
{
    const TideRows *r = (const TideRows *)c->node->attr.bytes;
    int64_t K = shape_width(c->in_info[0]->shape), N = shape_width(c->in_info[1]->shape);
    int64_t rows = r->count ? r->count : shape_rows(c->in_info[0]->shape);
    const double *x = c->in[0] + r->x_first * K, *dy = c->in[1] + r->y_first * N;

    for (int64_t i = 0; c->out[0] && !c->in[2] && i < N * K; i++) c->out[0][i] = 0;
    for (int64_t i = 0; c->out[1] && !c->in[3] && i < N; i++) c->out[1][i] = 0;
    for (int64_t j = 0; c->out[0] && j < N; j++)
        for (int64_t i = 0; i < rows; i++) add_scaled(c->out[0] + j * K, x + i * K, dy[i * N + j], K);
    for (int64_t i = 0; c->out[1] && i < rows; i++) add_scaled(c->out[1], dy + i * N, 1, N);
}

/* ---- Attention -------------------------------------------------------------------------- */

/* One head of one sequence; rows of qkv are `packed` apart, those of o `wide`. */
typedef struct Head {
    const double *q, *k, *v;
    int64_t packed, wide;
    int64_t first; /* number of the head's first probability: the element that dropout knows */
    int time, width;
    float dropout;
    Philox philox;
} Head;

static Head head_of(const ReferenceCall *c, int b, int h, int info)
{
    const TideAttention *a = (const TideAttention *)c->node->attr.bytes;
    TideShape shape = c->in_info[0]->shape;
    int group = h / (a->heads / a->kv_heads);
    Head head = { .packed = shape.dim[2],
                  .wide = (int64_t)a->heads * a->head_dim,
                  .first = ((int64_t)b * a->heads + h) * shape.dim[1] * shape.dim[1],
                  .time = (int)shape.dim[1],
                  .width = a->head_dim,
                  .dropout = a->dropout };

    head.q = c->in[0] + (int64_t)b * head.time * head.packed + (int64_t)h * head.width;
    head.k = c->in[0] + (int64_t)b * head.time * head.packed + (int64_t)(a->heads + group) * head.width;
    head.v = head.k + (int64_t)a->kv_heads * head.width;
    if (a->dropout > 0) head.philox = philox_of(c->stored[info], (int)a->site);
    return head;
}

/* The probabilities of query t before dropout, and what dropout multiplies them with. Returns lse. */
static double probabilities(const Head *h, int t, double *p, double *survival)
{
    double most = -INFINITY, sum = 0;
    uint32_t word;

    for (int j = 0; j <= t; j++)
        p[j] = dot(h->q + t * h->packed, h->k + j * h->packed, h->width) / sqrt((double)h->width);
    for (int j = 0; j <= t; j++) most = fmax(most, p[j]);
    for (int j = 0; j <= t; j++) sum += exp(p[j] - most);
    for (int j = 0; j <= t; j++) {
        p[j] = exp(p[j] - most) / sum;
        survival[j] = 1;
        if (h->dropout <= 0) continue;
        philox_words(&h->philox, (uint64_t)(h->first + (int64_t)t * h->time + j), 1, &word);
        survival[j] = word >= philox_threshold(h->dropout) ? 1 / (1 - (double)h->dropout) : 0;
    }
    return most + log(sum);
}

void reference_attention(const ReferenceCall *c)
{
    const TideAttention *a = (const TideAttention *)c->node->attr.bytes;
    int64_t batch = c->in_info[0]->shape.dim[0], time = c->in_info[0]->shape.dim[1];
    double *p = malloc(2 * (size_t)time * sizeof *p);

    for (int i = 0; p && i < batch * a->heads; i++) {
        Head h = head_of(c, i / a->heads, i % a->heads, 1);
        double *o = c->out[0] + (int64_t)(i / a->heads) * time * h.wide + (int64_t)(i % a->heads) * h.width;
        for (int t = 0; t < time; t++, o += h.wide) {
            c->out[1][(int64_t)i * time + t] = probabilities(&h, t, p, p + time);
            for (int d = 0; d < h.width; d++) o[d] = 0;
            for (int j = 0; j <= t; j++) add_scaled(o, h.v + j * h.packed, p[j] * p[time + j], h.width);
        }
    }
    free(p);
}

/* Adds what query t gives to dq, dk and dv, which lie in dqkv as q, k and v do in qkv. */
static void query_gradient(const Head *h, int t, const double *d_o, const double *qkv, double *dqkv,
                           double *p)
{
    double *survival = p + h->time, *dp = survival + h->time, delta = 0;
    double *dq = dqkv + (h->q - qkv), *dk = dqkv + (h->k - qkv), *dv = dqkv + (h->v - qkv);

    probabilities(h, t, p, survival);
    for (int j = 0; j <= t; j++) {
        dp[j] = survival[j] * dot(d_o, h->v + j * h->packed, h->width);
        delta += p[j] * dp[j];
        add_scaled(dv + j * h->packed, d_o, p[j] * survival[j], h->width);
    }
    for (int j = 0; j <= t; j++) {
        double ds = p[j] * (dp[j] - delta) / sqrt((double)h->width);
        add_scaled(dq + t * h->packed, h->k + j * h->packed, ds, h->width);
        add_scaled(dk + j * h->packed, h->q + t * h->packed, ds, h->width);
    }
}

void reference_attention_grad(const ReferenceCall *c)
{
    const TideAttention *a = (const TideAttention *)c->node->attr.bytes;
    int64_t time = c->in_info[0]->shape.dim[1], packed = c->in_info[0]->shape.dim[2];
    int64_t count = a->count ? a->count : c->in_info[0]->shape.dim[0];
    double *p = malloc(3 * (size_t)time * sizeof *p), *dqkv = c->out[0] + a->first * time * packed;

    for (int64_t i = 0; i < count * time * packed; i++) dqkv[i] = 0;
    for (int64_t i = a->first * a->heads; p && i < (a->first + count) * a->heads; i++) {
        Head h = head_of(c, (int)(i / a->heads), (int)(i % a->heads), 3);
        const double *d_o = c->in[4] + i / a->heads * time * h.wide + i % a->heads * h.width;
        for (int t = 0; t < time; t++) query_gradient(&h, t, d_o + t * h.wide, c->in[0], c->out[0], p);
    }
    free(p);
}
