/* test_gradients.c - every op against central differences, one row a case.
 *
 * The inputs under test are parameters. The objective is sum(y * dy) in double, with dy fixed; its
 * slope along each element comes from a five-point stencil, whose error is below what f32 leaves.
 * Every case runs twice, the second time with gradients that add over two micro-steps. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/ops.h"
#include "tests/support/numeric.h"

enum { MOST_IN = 4, IGNORE = -1, VOCAB = 13 };

/* What a case's builder works with. */
typedef struct Bench {
    TideGraph *g;
    TideTensor in[MOST_IN];  /* the parameters under test */
    TideTensor tokens, info; /* tokens i32 [2, 7] in [0, 11), some of them no class at all */
    bool own_backward;       /* the builder has appended the backward pass itself */
} Bench;

typedef struct OpCase {
    int op;
    const char *what;
    TideTensor (*build)(Bench *b);
    int n_in; /* under test; those behind it only take part */
    TideShape in[MOST_IN];
    double tolerance; /* of max |gradient| */
} OpCase;

#define TIDE_OP(name, ...) &op_##name,
static const OpDesc *const ops[OP_COUNT] = {
#include "kernels/ops.def"
};
#undef TIDE_OP

static const TideTensor none = { 0 };

static TideTensor add_of(Bench *b)
{
    return tide_add(b->g, b->in[0], b->in[1]);
}
static TideTensor add_self(Bench *b)
{
    return tide_gelu(b->g, tide_add(b->g, b->in[0], b->in[0]), true);
}
static TideTensor embed(Bench *b)
{
    return tide_embedding(b->g, b->tokens, b->in[0], b->in[1]);
}
static TideTensor embed_flat(Bench *b)
{
    return tide_embedding(b->g, b->tokens, b->in[0], none);
}
static TideTensor norm(Bench *b)
{
    return tide_layernorm(b->g, b->in[0], b->in[1], b->in[2]);
}
static TideTensor norm_no_bias(Bench *b)
{
    return tide_layernorm(b->g, b->in[0], b->in[1], none);
}

/* x has another use, whose gradient the norm takes over. */
static TideTensor norm_residual(Bench *b)
{
    TideTensor x = tide_gelu(b->g, b->in[0], false);
    return tide_add(b->g, x, tide_layernorm(b->g, x, b->in[1], b->in[2]));
}

static TideTensor add_norm(Bench *b)
{
    TideTensor sum = tide_add_layernorm(b->g, b->in[0], b->in[1], b->in[2], b->in[3]);
    return tide_add(b->g, sum, tide_gelu(b->g, graph_sibling(b->g, sum, 1), false));
}

/* Only the norm, or only the sum, is used further on. */
static TideTensor add_norm_alone(Bench *b)
{
    TideTensor sum = tide_add_layernorm(b->g, b->in[0], b->in[1], b->in[2], none);
    return graph_sibling(b->g, sum, 1);
}
static TideTensor add_norm_sum(Bench *b)
{
    return tide_add_layernorm(b->g, b->in[0], b->in[1], b->in[2], none);
}

static TideTensor lin(Bench *b)
{
    return tide_linear(b->g, b->in[0], b->in[1], b->in[2], (TideRows){ 0 });
}
static TideTensor lin_no_bias(Bench *b)
{
    return tide_linear(b->g, b->in[0], b->in[1], none, (TideRows){ 0 });
}

/* Blocks of 4 rows through two layers; what lies between exists for one block at a time. */
static TideTensor lin_blocks(Bench *b)
{
    enum { ROWS = 10, STEP = 4 };
    TideTensor y = { 0 };

    for (int64_t at = 0; at < ROWS; at += STEP) {
        int64_t count = at + STEP < ROWS ? STEP : ROWS - at;
        TideTensor h = tide_linear(b->g, b->in[0], b->in[1], b->in[2], (TideRows){ count, at, 0 });
        h = tide_gelu(b->g, h, false);
        y = tide_linear_into(b->g, h, b->in[3], none, b->in[0], y, (TideRows){ count, 0, at });
    }
    return y;
}

/* One weight, used twice: the second gradient adds to the first. */
static TideTensor lin_twice(Bench *b)
{
    TideTensor h = tide_gelu(b->g, tide_linear(b->g, b->in[0], b->in[1], b->in[2], (TideRows){ 0 }), false);
    return tide_linear(b->g, h, b->in[1], b->in[2], (TideRows){ 0 });
}

/* The bias of a layer behind which gelu_grad makes its gradient, but which another layer adds to later. */
static TideTensor lin_beside(Bench *b)
{
    TideTensor x = tide_linear(b->g, b->in[0], b->in[1], b->in[2], (TideRows){ 0 });
    TideTensor y = tide_linear(b->g, b->in[0], b->in[1], b->in[2], (TideRows){ 0 });
    return tide_add(b->g, tide_gelu(b->g, x, false), y);
}

/* The gradient of the bias is made by that of the norm. */
static TideTensor lin_norm(Bench *b)
{
    TideTensor x = tide_linear(b->g, b->in[0], b->in[1], b->in[2], (TideRows){ 0 });
    TideTensor sum = tide_add_layernorm(b->g, b->in[0], x, b->in[3], none);
    return graph_sibling(b->g, sum, 1);
}

static TideTensor cast_to_f32(Bench *b)
{
    return tide_cast(b->g, b->in[0], (TideTensor){ 0 }, TIDE_F32, false);
}
static TideTensor gelu_tanh(Bench *b)
{
    return tide_gelu(b->g, b->in[0], false);
}
static TideTensor gelu_erf(Bench *b)
{
    return tide_gelu(b->g, b->in[0], true);
}

static TideTensor attend(Bench *b)
{
    return tide_attention(b->g, b->in[0], b->info, (TideAttention){ 2, 2, 8, 0, 0, 0, 0 });
}
static TideTensor attend_gqa(Bench *b)
{
    return tide_attention(b->g, b->in[0], b->info,
                          (TideAttention){ .heads = 4, .kv_heads = 2, .head_dim = 5 });
}
static TideTensor attend_dropout(Bench *b)
{
    TideAttention a = { .heads = 3, .kv_heads = 1, .head_dim = 4, .dropout = 0.3f, .site = 5 };
    return tide_attention(b->g, b->in[0], b->info, a);
}

/* More rows than a kernel's tile has. */
static TideTensor attend_tiles(Bench *b)
{
    TideAttention a = { .heads = 1, .kv_heads = 1, .head_dim = 4, .dropout = 0.2f, .site = 6 };
    return tide_attention(b->g, b->in[0], b->info, a);
}

static TideTensor drop(Bench *b)
{
    return tide_dropout(b->g, b->in[0], b->info, 0.4f, 3);
}

/* Losses of hidden rows [14, C], the head's weight being in[1], in chunks of rows. */
static TideTensor losses(Bench *b, TideTensor hidden, int64_t chunk)
{
    TideClasses c = { .vocab = VOCAB, .ignore = IGNORE };
    TideLoss loss = tide_linear_cross_entropy(b->g, hidden, b->in[1], b->tokens, b->info, c, chunk, true);

    tide_backward(b->g, hidden, loss.dx);
    b->own_backward = true;
    return loss.losses;
}
static TideTensor loss_whole(Bench *b)
{
    return losses(b, tide_gelu(b->g, b->in[0], false), 0);
}
static TideTensor loss_chunks(Bench *b)
{
    return losses(b, tide_gelu(b->g, b->in[0], false), 4);
}
static TideTensor loss_rows(Bench *b)
{
    return losses(b, tide_gelu(b->g, b->in[0], false), 1);
}

/* A tied head: the embedding's gradient adds to the chain of the chunks. */
static TideTensor loss_tied(Bench *b)
{
    TideTensor x = tide_embedding(b->g, b->tokens, b->in[1], b->in[0]);
    return losses(b, tide_gelu(b->g, x, false), 5);
}

// clang-format off
static const OpCase cases[] = {
    { OP_add, "two inputs", add_of, 2, { { 2, { 3, 5 } }, { 2, { 3, 5 } } }, 1e-4 },
    { OP_add, "x + x", add_self, 1, { { 2, { 3, 5 } } }, 3e-4 },
    { OP_embedding, "positions", embed, 2, { { 2, { 11, 6 } }, { 2, { 9, 6 } } }, 1e-4 },
    { OP_embedding, "no positions", embed_flat, 1, { { 2, { 11, 37 } } }, 1e-4 },
    { OP_layernorm, "width 17", norm, 3, { { 3, { 3, 4, 17 } }, { 1, { 17 } }, { 1, { 17 } } }, 3e-4 },
    { OP_layernorm, "width 3, no bias", norm_no_bias, 2, { { 2, { 5, 3 } }, { 1, { 3 } } }, 1e-3 },
    { OP_layernorm, "residual", norm_residual, 3, { { 2, { 4, 32 } }, { 1, { 32 } }, { 1, { 32 } } }, 3e-4 },
    { OP_add_layernorm, "both outputs", add_norm, 4,
      { { 2, { 3, 19 } }, { 2, { 3, 19 } }, { 1, { 19 } }, { 1, { 19 } } }, 3e-4 },
    { OP_add_layernorm, "norm alone", add_norm_alone, 3,
      { { 2, { 9, 16 } }, { 2, { 9, 16 } }, { 1, { 16 } } }, 3e-4 },
    { OP_add_layernorm, "sum alone", add_norm_sum, 2,
      { { 2, { 3, 7 } }, { 2, { 3, 7 } }, { 1, { 7 } } }, 1e-4 },
    { OP_linear, "bias", lin, 3, { { 3, { 2, 3, 5 } }, { 2, { 7, 5 } }, { 1, { 7 } } }, 1e-4 },
    { OP_linear, "no bias", lin_no_bias, 2, { { 2, { 1, 9 } }, { 2, { 33, 9 } } }, 1e-4 },
    { OP_linear, "blocks of rows", lin_blocks, 4,
      { { 3, { 2, 5, 6 } }, { 2, { 9, 6 } }, { 1, { 9 } }, { 2, { 3, 9 } } }, 3e-4 },
    { OP_linear, "weight twice", lin_twice, 3, { { 2, { 4, 6 } }, { 2, { 6, 6 } }, { 1, { 6 } } }, 3e-4 },
    { OP_linear, "bias of two", lin_beside, 3, { { 2, { 4, 6 } }, { 2, { 6, 6 } }, { 1, { 6 } } }, 3e-4 },
    { OP_linear, "behind it a norm", lin_norm, 4,
      { { 2, { 4, 16 } }, { 2, { 16, 16 } }, { 1, { 16 } }, { 1, { 16 } } }, 3e-4 },
    { OP_cast, "same type", cast_to_f32, 1, { { 2, { 3, 5 } } }, 1e-4 },
    { OP_gelu, "tanh", gelu_tanh, 1, { { 2, { 7, 13 } } }, 3e-4 },
    { OP_gelu, "erf", gelu_erf, 1, { { 2, { 7, 13 } } }, 3e-4 },
    { OP_attention, "two heads", attend, 1, { { 3, { 2, 7, 48 } } }, 3e-4 },
    { OP_attention, "grouped heads", attend_gqa, 1, { { 3, { 1, 9, 40 } } }, 3e-4 },
    { OP_attention, "dropout", attend_dropout, 1, { { 3, { 2, 6, 20 } } }, 3e-4 },
    { OP_attention, "dropout, tiles", attend_tiles, 1, { { 3, { 1, 67, 12 } } }, 3e-4 },
    { OP_dropout, "p 0.4", drop, 1, { { 2, { 11, 13 } } }, 1e-4 },
    { OP_cross_entropy_grad, "one chunk", loss_whole, 2, { { 3, { 2, 7, 6 } }, { 2, { 16, 6 } } }, 3e-4 },
    { OP_cross_entropy_grad, "chunks of 4", loss_chunks, 2, { { 3, { 2, 7, 6 } }, { 2, { 16, 6 } } }, 3e-4 },
    { OP_cross_entropy_grad, "chunks of 1", loss_rows, 2, { { 3, { 2, 7, 6 } }, { 2, { 13, 6 } } }, 3e-4 },
    { OP_cross_entropy_grad, "tied head", loss_tied, 2, { { 2, { 7, 6 } }, { 2, { 16, 6 } } }, 3e-4 },
};
// clang-format on
enum { N_CASES = sizeof cases / sizeof *cases };

/* A case as a program with memory, ready to run. */
typedef struct Rig {
    const OpCase *c;
    Scene s;
    TideTensor y, dy;
    Bench b;
    float *dy_values; /* [elements of y]: what y is multiplied by */
} Rig;

static const int32_t tokens[14] = { 3, 0, 10, 3, IGNORE, 7, 3, 1, 10, IGNORE, 2, 9, 4, 0 };
static const TideStepInfo info = { .seed = 0x123456789abcdef, .step = 3, .micro = 1, .loss_scale = 0.25f };

static void declare(Rig *r, bool accumulate)
{
    char name[16];

    r->b.g = r->s.g;
    for (int i = 0; i < MOST_IN && r->c->in[i].n; i++) {
        snprintf(name, sizeof name, "p%d", i);
        r->b.in[i] = scene_parameter(&r->s, name, r->c->in[i]);
        tide_set_gradient(r->s.p, r->b.in[i], tide_gradient_of(r->s.p, r->b.in[i]), accumulate);
    }
    r->b.tokens = tide_input(r->b.g, "tokens", TIDE_I32, (TideShape){ 2, { 2, 7 } });
    r->b.info = tide_input(r->b.g, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } });
    r->y = r->c->build(&r->b);
    if (r->b.own_backward || !r->y.id) return;
    r->dy = tide_input(r->b.g, "dy", TIDE_F32, tide_tensor_shape(r->s.p, r->y));
    tide_backward(r->b.g, r->y, r->dy);
}

/* Numbers for everything. Gradients that do not add hold junk, which the first write must replace. */
static void fill(Rig *r, bool accumulate)
{
    for (int i = 0; i < MOST_IN && r->b.in[i].id; i++) {
        TideTensor x = r->b.in[i], dx = tide_gradient_of(r->s.p, x);
        numeric_random(scene_f32(&r->s, x), scene_elements(&r->s, x), 1.0f, 10 + (uint64_t)i);
        if (!accumulate)
            numeric_random(scene_f32(&r->s, dx), scene_elements(&r->s, dx), 9.0f, 20 + (uint64_t)i);
    }
    memcpy(scene_i32(&r->s, r->b.tokens), tokens, sizeof tokens);
    memcpy(scene_i32(&r->s, r->b.info), &info, sizeof info);
    int64_t n = scene_elements(&r->s, r->y);
    r->dy_values = malloc((size_t)n * sizeof *r->dy_values);
    cr_assert(r->dy_values);
    numeric_random(r->dy_values, n, 1.0f, 30);
    for (int64_t i = 0; r->b.own_backward && i < n; i++) r->dy_values[i] = info.loss_scale;
    if (!r->b.own_backward) memcpy(scene_f32(&r->s, r->dy), r->dy_values, (size_t)n * sizeof *r->dy_values);
}

static void rig_open(Rig *r, const OpCase *c, bool accumulate)
{
    *r = (Rig){ .c = c };
    scene_open(&r->s);
    declare(r, accumulate);
    const char *mistake = scene_ready(&r->s);
    cr_assert(!mistake, "%s: %s", c->what, mistake);
    fill(r, accumulate);
}

static void rig_close(Rig *r)
{
    free(r->dy_values);
    scene_close(&r->s);
}

static double objective(Rig *r)
{
    double sum = 0;
    const float *y = scene_f32(&r->s, r->y);

    cr_assert_eq(numeric_run(r->b.g, r->s.memory), TIDE_OK);
    for (int64_t i = 0; i < scene_elements(&r->s, r->y); i++) sum += (double)y[i] * (double)r->dy_values[i];
    return sum;
}

/* d objective / d x[0] from values at four places around it. */
static double slope(Rig *r, float *x)
{
    const float h = 0x1p-5f, was = *x;
    double f[4];
    const float at[4] = { -2, -1, 1, 2 };

    for (int i = 0; i < 4; i++) {
        *x = was + at[i] * h;
        f[i] = objective(r);
    }
    *x = was;
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * (double)h);
}

/* The gradient of input i after one run (or two that add, halved), copied. */
static float *graph_gradient(Rig *r, int i, bool accumulate)
{
    int64_t n = scene_elements(&r->s, r->b.in[i]);
    float *copy = malloc((size_t)n * sizeof *copy);
    TideTensor d = tide_grad(r->b.g, r->b.in[i]); /* of an input that is no weight of its op */

    bool adds = !d.id; /* into the persistent gradient */

    cr_assert(copy);
    if (!d.id) d = tide_gradient_of(r->s.p, r->b.in[i]);
    memcpy(copy, scene_f32(&r->s, d), (size_t)n * sizeof *copy);
    for (int64_t e = 0; accumulate && adds && e < n; e++) copy[e] *= 0.5f;
    return copy;
}

static void check_case(const OpCase *c, bool accumulate)
{
    Rig r;
    float *found[MOST_IN];

    numeric_threads(1); /* tensors of a few hundred numbers, thousands of runs */
    rig_open(&r, c, accumulate);
    objective(&r);
    if (accumulate) objective(&r);
    for (int i = 0; i < c->n_in; i++) found[i] = graph_gradient(&r, i, accumulate);
    for (int i = 0; i < c->n_in; i++) {
        int64_t n = scene_elements(&r.s, r.b.in[i]);
        double *wanted = malloc((size_t)n * sizeof *wanted);
        for (int64_t e = 0; e < n; e++) wanted[e] = slope(&r, scene_f32(&r.s, r.b.in[i]) + e);
        double error = numeric_error(found[i], wanted, n);
        cr_expect(error <= c->tolerance, "%s, %s, input %d%s: relative error %g", ops[c->op]->name, c->what,
                  i, accumulate ? ", two micro-steps" : "", error);
        free(found[i]);
        free(wanted);
    }
    rig_close(&r);
}

/* Criterion starts each case in a fresh process, at other addresses, so a
 * parameter must be plain data: we pass the row number, never a pointer. */
ParameterizedTestParameters(gradients, match_differences)
{
    static int row[N_CASES];
    for (int i = 0; i < N_CASES; i++) row[i] = i;
    return cr_make_param_array(int, row, N_CASES);
}

ParameterizedTest(int *row, gradients, match_differences)
{
    check_case(&cases[*row], false);
    check_case(&cases[*row], true);
}

Test(gradients, every_op_has_a_case)
{
    for (int op = 0; op < OP_COUNT; op++) {
        bool found = !ops[op]->grad;
        for (int i = 0; i < N_CASES; i++) found = found || cases[i].op == op;
        cr_expect(found, "%s has no gradient case", ops[op]->name);
    }
}
