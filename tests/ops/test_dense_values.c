/* test_dense_values.c - linear, GELU and attention at sizes that cross the kernels' tiles, against
 * plain loops in double. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/ops.h"
#include "tests/support/numeric.h"

static const TideTensor none = { 0 };

static void ready(Scene *s)
{
    const char *mistake = scene_ready(s);
    cr_assert(!mistake, "%s", mistake);
}

static void run(Scene *s)
{
    cr_assert_eq(numeric_run(s->g, s->memory), TIDE_OK);
}

static void randomize(Scene *s, TideTensor x, float scale, uint64_t seed)
{
    numeric_random(scene_f32(s, x), scene_elements(s, x), scale, seed);
}

static double *doubles(int64_t n)
{
    double *x = calloc((size_t)n, sizeof *x);
    cr_assert(x);
    return x;
}

/* ---- Linear --------------------------------------------------------------------- */

typedef struct Sizes {
    int64_t rows, in, out;
} Sizes;

/* to [m, n] += a [m, k] * b [k, n], elements of a and b being so many apart. */
typedef struct Strided {
    const float *x;
    int64_t row, column;
} Strided;

static void multiply(double *to, Strided a, Strided b, Sizes z)
{
    for (int64_t i = 0; i < z.rows; i++)
        for (int64_t k = 0; k < z.in; k++)
            for (int64_t j = 0; j < z.out; j++)
                to[i * z.out + j] +=
                    (double)a.x[i * a.row + k * a.column] * (double)b.x[k * b.row + j * b.column];
}

static void check_linear(Sizes z)
{
    Scene s;

    scene_open(&s);
    TideTensor x = scene_parameter(&s, "x", (TideShape){ 2, { z.rows, z.in } });
    TideTensor weight = scene_parameter(&s, "weight", (TideShape){ 2, { z.out, z.in } });
    TideTensor bias = scene_parameter(&s, "bias", (TideShape){ 1, { z.out } });
    TideTensor dy = tide_input(s.g, "dy", TIDE_F32, (TideShape){ 2, { z.rows, z.out } });
    TideTensor y = tide_linear(s.g, x, weight, bias, (TideRows){ 0 });
    tide_backward(s.g, y, dy);
    ready(&s);
    TideTensor filled[] = { x, weight, bias, dy };
    for (int i = 0; i < 4; i++) randomize(&s, filled[i], 1.0f, (uint64_t)i);
    run(&s);

    const float *X = scene_f32(&s, x), *W = scene_f32(&s, weight), *D = scene_f32(&s, dy);
    double *want = doubles(z.rows * z.out), *dx = doubles(z.rows * z.in), *dw = doubles(z.out * z.in);
    double *db = doubles(z.out);
    for (int64_t i = 0; i < z.rows * z.out; i++) {
        want[i] = (double)scene_f32(&s, bias)[i % z.out];
        db[i % z.out] += (double)D[i];
    }
    multiply(want, (Strided){ X, z.in, 1 }, (Strided){ W, 1, z.in }, z);
    multiply(dx, (Strided){ D, z.out, 1 }, (Strided){ W, z.in, 1 }, (Sizes){ z.rows, z.out, z.in });
    multiply(dw, (Strided){ D, 1, z.out }, (Strided){ X, z.in, 1 }, (Sizes){ z.out, z.rows, z.in });
    cr_expect_lt(numeric_error(scene_f32(&s, y), want, z.rows * z.out), 3e-6);
    cr_expect_lt(numeric_error(scene_f32(&s, tide_grad(s.g, x)), dx, z.rows * z.in), 3e-6);
    cr_expect_lt(numeric_error(scene_f32(&s, tide_gradient_of(s.p, weight)), dw, z.out * z.in), 3e-6);
    cr_expect_lt(numeric_error(scene_f32(&s, tide_gradient_of(s.p, bias)), db, z.out), 3e-6);
    free(want);
    free(dx);
    free(dw);
    free(db);
    scene_close(&s);
}

Test(dense, linear)
{
    const Sizes sizes[] = {
        { 1, 1, 1 }, { 1, 300, 7 }, { 333, 65, 130 }, { 130, 257, 515 }, { 1025, 3, 64 }
    };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_linear(sizes[i]);
}

/* ---- GELU ----------------------------------------------------------------------- */

static double gelu_reference(double x, bool erf_form)
{
    double u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    return erf_form ? 0.5 * x * (1 + erf(x * 0.7071067811865476)) : 0.5 * x * (1 + tanh(u));
}

Test(dense, gelu)
{
    enum { N = 2003 };

    for (int form = 0; form < 2; form++) {
        Scene s;
        scene_open(&s);
        TideTensor x = scene_parameter(&s, "x", (TideShape){ 1, { N } });
        TideTensor y = tide_gelu(s.g, x, form), dy = tide_input(s.g, "dy", TIDE_F32, (TideShape){ 1, { N } });
        tide_backward(s.g, y, dy);
        ready(&s);
        for (int i = 0; i < N; i++) scene_f32(&s, x)[i] = 0.01f * (float)(i - N / 2);
        for (int i = 0; i < N; i++) scene_f32(&s, dy)[i] = 1.0f;
        run(&s);
        for (int i = 0; i < N; i++) {
            double at = (double)scene_f32(&s, x)[i], want = gelu_reference(at, form), h = 1e-5;
            double slope = (gelu_reference(at + h, form) - gelu_reference(at - h, form)) / (2 * h);
            double found = (double)scene_f32(&s, y)[i], dx = (double)scene_f32(&s, tide_grad(s.g, x))[i];
            cr_assert(fabs(found - want) <= 1e-6 * fmax(1, fabs(at)), "gelu(%g) = %.9g, not %.9g", at, found,
                      want);
            cr_assert(fabs(dx - slope) <= 2e-6, "gelu'(%g) = %.9g, not %.9g", at, dx, slope);
        }
        scene_close(&s);
    }
}

/* ---- Attention ------------------------------------------------------------------- */

typedef struct Heads {
    int64_t batch, time;
    int heads, kv_heads, dim;
} Heads;

/* One head of one sequence: rows of q, k, v, o and their gradients are `stride` apart in qkv and
 * `out` apart in o. Adds to dq, dk, dv. */
typedef struct Head {
    const float *q, *k, *v, *d_o;
    double *o, *dq, *dk, *dv;
    int64_t time, dim, stride, out;
} Head;

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

static void head_row(const Head *h, int64_t t, double *p)
{
    const float *q = h->q + t * h->stride, *d = h->d_o + t * h->out;
    double sum = 0, mean = 0, scale = 1 / sqrt((double)h->dim);

    for (int64_t u = 0; u <= t; u++) sum += p[u] = exp(dot(q, h->k + u * h->stride, h->dim) * scale);
    for (int64_t u = 0; u <= t; u++) {
        p[u] /= sum;
        mean += p[u] * dot(d, h->v + u * h->stride, h->dim);
    }
    for (int64_t u = 0; u <= t; u++) {
        double ds = p[u] * (dot(d, h->v + u * h->stride, h->dim) - mean) * scale;
        for (int64_t i = 0; i < h->dim; i++) {
            h->o[t * h->out + i] += p[u] * (double)h->v[u * h->stride + i];
            h->dv[u * h->stride + i] += p[u] * (double)d[i];
            h->dq[t * h->stride + i] += ds * (double)h->k[u * h->stride + i];
            h->dk[u * h->stride + i] += ds * (double)q[i];
        }
    }
}

static void attention_reference(Heads z, const float *qkv, const float *d_o, double *o, double *dqkv)
{
    int64_t stride = (int64_t)(z.heads + 2 * z.kv_heads) * z.dim, out = (int64_t)z.heads * z.dim;
    double *p = doubles(z.time);

    for (int64_t b = 0; b < z.batch; b++)
        for (int h = 0; h < z.heads; h++) {
            int64_t at = b * z.time * stride, kv = h / (z.heads / z.kv_heads),
                    oat = b * z.time * out + h * z.dim;
            int64_t q = at + h * z.dim, k = at + (z.heads + kv) * z.dim, v = k + (int64_t)z.kv_heads * z.dim;
            Head head = { .q = qkv + q,
                          .k = qkv + k,
                          .v = qkv + v,
                          .d_o = d_o + oat,
                          .o = o + oat,
                          .dq = dqkv + q,
                          .dk = dqkv + k,
                          .dv = dqkv + v,
                          .time = z.time,
                          .dim = z.dim,
                          .stride = stride,
                          .out = out };
            for (int64_t t = 0; t < z.time; t++) head_row(&head, t, p);
        }
    free(p);
}

/* Backward in blocks of `block` sequences (0: at once). The gradient's bits go to *hash. */
static void check_attention(Heads z, int64_t block, uint64_t *hash)
{
    Scene s;
    int64_t stride = (int64_t)(z.heads + 2 * z.kv_heads) * z.dim, out = (int64_t)z.heads * z.dim;
    TideAttention a = { .heads = z.heads, .kv_heads = z.kv_heads, .head_dim = z.dim, .count = block };

    scene_open(&s);
    TideTensor qkv = scene_parameter(&s, "qkv", (TideShape){ 3, { z.batch, z.time, stride } });
    TideTensor d_o = tide_input(s.g, "do", TIDE_F32, (TideShape){ 3, { z.batch, z.time, out } });
    TideTensor o = tide_attention(s.g, qkv, none, a);
    tide_backward(s.g, o, d_o);
    ready(&s);
    randomize(&s, qkv, 2.0f, 1);
    randomize(&s, d_o, 1.0f, 2);
    run(&s);

    const float *dqkv = scene_f32(&s, tide_grad(s.g, qkv));
    double *want = doubles(z.batch * z.time * out), *gradient = doubles(z.batch * z.time * stride);
    attention_reference(z, scene_f32(&s, qkv), scene_f32(&s, d_o), want, gradient);
    double error = numeric_error(scene_f32(&s, o), want, z.batch * z.time * out);
    double grad_error = numeric_error(dqkv, gradient, z.batch * z.time * stride);
    cr_expect(error < 3e-6 && grad_error < 5e-6, "%d heads of %d, time %lld: off by %g, gradient by %g",
              z.heads, z.dim, (long long)z.time, error, grad_error);
    *hash = numeric_hash(NUMERIC_HASH, dqkv, (size_t)(z.batch * z.time * stride) * sizeof *dqkv);
    free(want);
    free(gradient);
    scene_close(&s);
}

Test(dense, attention)
{
    const Heads sizes[] = { { 1, 1, 1, 1, 1 },    { 2, 64, 4, 4, 32 },  { 1, 65, 2, 1, 64 },
                            { 3, 130, 6, 2, 16 }, { 2, 197, 2, 2, 80 }, { 1, 257, 5, 1, 40 },
                            { 2, 33, 25, 25, 8 } };
    uint64_t whole, blocks;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_attention(sizes[i], 0, &whole);
        check_attention(sizes[i], 1, &blocks);
        cr_expect_eq(whole, blocks, "case %zu: blocks of one sequence give other bits", i);
        check_attention(sizes[i], 2, &blocks);
        cr_expect_eq(whole, blocks, "case %zu: blocks of two sequences give other bits", i);
    }
}
