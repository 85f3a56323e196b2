/* test_ops_values.c - what ops compute, against plain references in double. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/ops.h"
#include "tests/support/numeric.h"

static const TideTensor none = { 0 };

static TideTensor input(Scene *s, const char *name, TideShape shape)
{
    return tide_input(s->g, name, TIDE_F32, shape);
}

static TideTensor info_input(Scene *s)
{
    return tide_input(s->g, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } });
}

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

/* ---- Embedding ------------------------------------------------------------ */

Test(values, embedding_adds_positions_and_reads_no_row_outside)
{
    enum { V = 5, C = 35, T = 3 };
    const int32_t tokens[2 * T] = { 4, -1, 0, 5, 4, 4 };
    Scene s;

    scene_open(&s);
    TideTensor in = tide_input(s.g, "tokens", TIDE_I32, (TideShape){ 2, { 2, T } });
    TideTensor table = scene_parameter(&s, "table", (TideShape){ 2, { V, C } });
    TideTensor positions = scene_parameter(&s, "positions", (TideShape){ 2, { T + 2, C } });
    TideTensor y = tide_embedding(s.g, in, table, positions);
    TideTensor dy = input(&s, "dy", (TideShape){ 3, { 2, T, C } });
    tide_backward(s.g, y, dy);
    ready(&s);
    memcpy(scene_i32(&s, in), tokens, sizeof tokens);
    TideTensor dtable = tide_gradient_of(s.p, table), dpositions = tide_gradient_of(s.p, positions);
    TideTensor filled[] = { table, positions, dy, dtable, dpositions };
    for (int i = 0; i < 5; i++) randomize(&s, filled[i], 1.0f, (uint64_t)i);
    run(&s);

    float want_table[V * C] = { 0 }, want_positions[(T + 2) * C] = { 0 };
    for (int r = 0; r < 2 * T; r++) {
        bool inside = tokens[r] >= 0 && tokens[r] < V;
        for (int c = 0; c < C; c++) {
            float position = scene_f32(&s, positions)[r % T * C + c], d = scene_f32(&s, dy)[r * C + c];
            float want = inside ? scene_f32(&s, table)[tokens[r] * C + c] + position : position;
            cr_expect_eq(scene_f32(&s, y)[r * C + c], want, "row %d, channel %d", r, c);
            if (inside) want_table[tokens[r] * C + c] += d;
            want_positions[r % T * C + c] += d;
        }
    }
    cr_expect_arr_eq(scene_f32(&s, dtable), want_table, sizeof want_table);
    cr_expect_arr_eq(scene_f32(&s, dpositions), want_positions, sizeof want_positions);
    scene_close(&s);
}

Test(values, more_positions_than_the_table_has_are_refused)
{
    Scene s;

    scene_open(&s);
    TideTensor in = tide_input(s.g, "tokens", TIDE_I32, (TideShape){ 2, { 1, 9 } });
    TideTensor table = scene_parameter(&s, "table", (TideShape){ 2, { 7, 4 } });
    TideTensor positions = scene_parameter(&s, "positions", (TideShape){ 2, { 8, 4 } });
    cr_expect_eq(tide_embedding(s.g, in, table, positions).id, 0);
    cr_expect_eq(tide_program_check(s.p), TIDE_BAD_GRAPH);
    cr_expect(strstr(tide_message(s.tide), "embedding"), "%s", tide_message(s.tide));
    scene_close(&s);
}

/* ---- Layernorm ------------------------------------------------------------ */

static void norm_reference(double *y, const float *x, const float *weight, const float *bias, int64_t width)
{
    double mean = 0, variance = 0;

    for (int64_t i = 0; i < width; i++) mean += (double)x[i] / (double)width;
    for (int64_t i = 0; i < width; i++)
        variance += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)width;
    for (int64_t i = 0; i < width; i++)
        y[i] =
            ((double)x[i] - mean) / sqrt(variance + 1e-5) * (double)weight[i] + (bias ? (double)bias[i] : 0);
}

/* Rows far from zero, as residual streams are. */
static void check_norm(int64_t width, bool biased, bool added)
{
    enum { ROWS = 7 };
    Scene s;

    scene_open(&s);
    TideShape shape = { 2, { ROWS, width } };
    TideTensor a = input(&s, "a", shape), b = input(&s, "b", shape);
    TideTensor weight = scene_parameter(&s, "weight", (TideShape){ 1, { width } });
    TideTensor bias = biased ? scene_parameter(&s, "bias", (TideShape){ 1, { width } }) : none;
    TideTensor sum = added ? tide_add_layernorm(s.g, a, b, weight, bias) : a;
    TideTensor y = added ? graph_sibling(s.g, sum, 1) : tide_layernorm(s.g, a, weight, bias);
    ready(&s);
    TideTensor filled[] = { a, b, weight };
    for (int i = 0; i < 3; i++) randomize(&s, filled[i], 2.0f, (uint64_t)i);
    if (biased) randomize(&s, bias, 2.0f, 9);
    for (int64_t i = 0; i < ROWS * width; i++) scene_f32(&s, a)[i] += 3.0f;
    run(&s);

    double *want = doubles(ROWS * width);
    for (int64_t r = 0; r < ROWS; r++)
        norm_reference(want + r * width, scene_f32(&s, sum) + r * width, scene_f32(&s, weight),
                       biased ? scene_f32(&s, bias) : NULL, width);
    for (int64_t i = 0; added && i < ROWS * width; i++)
        cr_assert_eq(scene_f32(&s, sum)[i], scene_f32(&s, a)[i] + scene_f32(&s, b)[i]);
    double error = numeric_error(scene_f32(&s, y), want, ROWS * width);
    cr_expect(error < 3e-6, "width %lld: relative error %g", (long long)width, error);

    size_t bytes = (size_t)(ROWS * width) * sizeof(float);
    float *first = malloc(bytes);
    memcpy(first, scene_f32(&s, y), bytes);
    memset(scene_f32(&s, y), 0xff, bytes);
    cr_assert_eq(numeric_run_node(s.g, graph_again(s.g, y.id), s.memory), TIDE_OK);
    cr_expect_arr_eq(scene_f32(&s, y), first, bytes, "width %lld: again differs", (long long)width);
    free(first);
    free(want);
    scene_close(&s);
}

Test(values, layernorm_and_its_cheap_twin)
{
    const int64_t widths[] = { 2, 3, 16, 17, 128, 769, 4096 };

    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int kind = 0; kind < 4; kind++) check_norm(widths[i], kind & 1, kind & 2);
}

/* ---- Dropout -------------------------------------------------------------- */

enum { DROP = 100003 };

/* y of ones, and dx of ones: both are the mask. */
static void run_dropout(TideStepInfo info, int site, float p, float *y, float *dx)
{
    Scene s;

    scene_open(&s);
    TideTensor x = scene_parameter(&s, "x", (TideShape){ 1, { DROP } }), in = info_input(&s);
    TideTensor out = tide_dropout(s.g, x, in, p, site), dy = input(&s, "dy", (TideShape){ 1, { DROP } });
    tide_backward(s.g, out, dy);
    ready(&s);
    for (int i = 0; i < DROP; i++) scene_f32(&s, x)[i] = scene_f32(&s, dy)[i] = 1.0f;
    memcpy(scene_i32(&s, in), &info, sizeof info);
    run(&s);
    memcpy(y, scene_f32(&s, out), DROP * sizeof *y);
    memcpy(dx, scene_f32(&s, tide_grad(s.g, x)), DROP * sizeof *dx);
    scene_close(&s);
}

static int agreements(const float *a, const float *b)
{
    int same = 0;

    for (int i = 0; i < DROP; i++) same += (a[i] == 0) == (b[i] == 0);
    return same;
}

Test(values, dropout_keeps_the_mean_and_replays)
{
    static float y[DROP], dx[DROP], again[DROP], other[DROP];
    const float p = 0.25f;
    const TideStepInfo info = { .seed = 7, .step = 5, .micro = 2 };
    double kept = 0;

    run_dropout(info, 3, p, y, dx);
    for (int i = 0; i < DROP; i++) {
        cr_assert(y[i] == 0 || y[i] == 1.0f / (1.0f - p), "element %d is %g", i, (double)y[i]);
        kept += y[i] != 0;
    }
    double sigma = sqrt(0.25 * 0.75 / DROP);
    cr_expect(fabs(kept / DROP - 0.75) < 5 * sigma, "kept %g", kept / DROP);
    cr_expect_arr_eq(y, dx, sizeof y, "the gradient has another mask");
    run_dropout(info, 3, p, again, dx);
    cr_expect_arr_eq(y, again, sizeof y, "the same step gave another mask");

    /* Independent masks agree in p^2 + (1 - p)^2 of the elements. */
    const TideStepInfo others[] = { { .seed = 8, .step = 5, .micro = 2 },
                                    { .seed = 7 | (uint64_t)1 << 40, .step = 5, .micro = 2 },
                                    { .seed = 7, .step = 6, .micro = 2 },
                                    { .seed = 7, .step = 5, .micro = 3 },
                                    { .seed = 7, .step = 5, .micro = 2 } };
    for (int i = 0; i < 5; i++) {
        run_dropout(others[i], i == 4 ? 4 : 3, p, other, dx);
        double same = (double)agreements(y, other) / DROP;
        cr_expect(fabs(same - 0.625) < 0.01, "mask %d agrees in %g of its elements", i, same);
    }
}

Test(values, dropout_of_nothing_is_no_node)
{
    Scene s;

    scene_open(&s);
    TideTensor x = input(&s, "x", (TideShape){ 1, { 4 } }), in = info_input(&s);
    cr_expect_eq(tide_dropout(s.g, x, in, 0.0f, 0).id, x.id);
    cr_expect_eq(s.g->n_nodes, 0);
    cr_expect_eq(tide_dropout(s.g, x, in, 1.0f, 0).id, 0, "p = 1 is refused");
    cr_expect_eq(tide_program_check(s.p), TIDE_BAD_GRAPH);
    scene_close(&s);
}

/* ---- Sums, rows, constants -------------------------------------------------- */

Test(values, sum_in_double_and_adding)
{
    const int64_t sizes[] = { 1, 7, 8, 4095, 4097, 100003 };

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        Scene s;
        scene_open(&s);
        TideTensor x = input(&s, "x", (TideShape){ 1, { sizes[k] } });
        TideTensor total = scene_persistent(&s, "total", TIDE_STATE, (TideShape){ 1, { 1 } });
        tide_sum(s.g, x, total, false);
        tide_sum(s.g, x, total, true);
        ready(&s);
        randomize(&s, x, 3.0f, 1);
        scene_f32(&s, total)[0] = 1e9f; /* replaced */
        run(&s);
        double want = 0;
        for (int64_t i = 0; i < sizes[k]; i++) want += 2 * ((double)scene_f32(&s, x)[i] + 0);
        double found = (double)scene_f32(&s, total)[0];
        cr_expect(fabs(found - want) <= 2e-7 * fabs(want), "%lld elements: %.9g, not %.9g",
                  (long long)sizes[k], found, want);
        scene_close(&s);
    }
}

Test(values, select_row_stays_inside)
{
    const int32_t rows[][2] = { { 0, 0 }, { 3, 3 }, { 4, 4 }, { 5, 4 }, { -1, 0 } }; /* asked, given */

    for (int k = 0; k < 5; k++) {
        Scene s;
        scene_open(&s);
        TideTensor x = input(&s, "x", (TideShape){ 3, { 1, 5, 6 } }), in = info_input(&s);
        TideTensor y = tide_select_row(s.g, x, in);
        ready(&s);
        randomize(&s, x, 1.0f, 1);
        TideStepInfo info = { .row = rows[k][0] };
        memcpy(scene_i32(&s, in), &info, sizeof info);
        run(&s);
        cr_expect_arr_eq(scene_f32(&s, y), scene_f32(&s, x) + 6 * rows[k][1], 6 * sizeof(float));
        scene_close(&s);
    }
}

Test(values, fill_writes_every_element)
{
    Scene s;

    scene_open(&s);
    TideTensor x = scene_persistent(&s, "x", TIDE_GRADIENT, (TideShape){ 2, { 37, 91 } });
    tide_fill(s.g, x, 0.5);
    ready(&s);
    run(&s);
    for (int i = 0; i < 37 * 91; i++) cr_assert_eq(scene_f32(&s, x)[i], 0.5f);
    scene_close(&s);
}
