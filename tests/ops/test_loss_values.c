/* test_loss_values.c - cross entropy alone and with the head in chunks, against double. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/ops.h"
#include "tests/support/numeric.h"

enum { IGNORE = -100 };

static void ready(Scene *s)
{
    const char *mistake = scene_ready(s);
    cr_assert(!mistake, "%s", mistake);
}

static void run(Scene *s)
{
    cr_assert_eq(numeric_run(s->g, s->memory), TIDE_OK);
}

static double *doubles(int64_t n)
{
    double *x = calloc((size_t)n, sizeof *x);
    cr_assert(x);
    return x;
}

/* The loss of one row of logits; its softmax, if wanted. */
static double reference_row(const float *x, int64_t vocab, int32_t target, double *softmax)
{
    double max = -INFINITY, sum = 0;

    for (int64_t i = 0; i < vocab; i++) max = fmax(max, (double)x[i]);
    for (int64_t i = 0; i < vocab; i++) sum += exp((double)x[i] - max);
    for (int64_t i = 0; softmax && i < vocab; i++) softmax[i] = exp((double)x[i] - max) / sum;
    return log(sum) + max - (double)x[target];
}

static bool counts(int32_t target, int64_t vocab)
{
    return target >= 0 && target < vocab;
}

/* ---- The ops alone -------------------------------------------------------------- */

enum { ROWS = 5, FIRST = 2, TARGETS = ROWS + FIRST + 1 };

/* Rows [FIRST, FIRST + ROWS) of a batch of TARGETS. Logits of size `spread`. */
static void check_vocab(int vocab, int padded, float spread)
{
    const int32_t last = vocab - 1;
    const int32_t targets[TARGETS] = { 0, 0, 0, last, IGNORE, vocab, last / 2, 0 };
    const TideClasses c = { .vocab = vocab, .ignore = IGNORE, .first = FIRST };
    TideStepInfo info = { .loss_scale = 0.125f };
    Scene s;

    scene_open(&s);
    TideTensor logits = tide_input(s.g, "logits", TIDE_F32, (TideShape){ 2, { ROWS, padded } });
    TideTensor plain = tide_input(s.g, "plain", TIDE_F32, (TideShape){ 2, { ROWS, padded } });
    TideTensor in = tide_input(s.g, "targets", TIDE_I32, (TideShape){ 1, { TARGETS } });
    TideTensor step = tide_input(s.g, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } });
    TideTensor none = { 0 }, losses = tide_cross_entropy(s.g, plain, in, none, c);
    TideTensor losses_too = tide_cross_entropy_grad(s.g, logits, in, none, step, c);
    ready(&s);
    numeric_random(scene_f32(&s, plain), (int64_t)ROWS * padded, spread, 1);
    memcpy(scene_f32(&s, logits), scene_f32(&s, plain), (size_t)(ROWS * padded) * sizeof(float));
    memcpy(scene_i32(&s, in), targets, sizeof targets);
    memcpy(scene_i32(&s, step), &info, sizeof info);
    run(&s);

    double *want = doubles(ROWS), *gradient = doubles((int64_t)ROWS * padded);
    for (int r = 0; r < ROWS; r++) {
        double *d = gradient + (int64_t)r * padded;
        if (!counts(targets[FIRST + r], vocab)) continue;
        want[r] = reference_row(scene_f32(&s, plain) + r * padded, vocab, targets[FIRST + r], d);
        d[targets[FIRST + r]] -= 1;
        for (int i = 0; i < vocab; i++) d[i] *= (double)info.loss_scale;
    }
    for (int r = 0; r < ROWS; r++) {
        float found = scene_f32(&s, losses)[FIRST + r];
        cr_expect(fabs((double)found - want[r]) <= 1e-6 * want[r], "vocabulary %d, row %d: %.9g, not %.9g",
                  vocab, r, (double)found, want[r]);
        cr_expect_eq(scene_f32(&s, losses_too)[FIRST + r], found, "the two losses differ");
        for (int i = vocab; i < padded; i++)
            cr_assert_eq(scene_f32(&s, logits)[r * padded + i], 0.0f, "padding has a gradient");
    }
    cr_expect(isnan(scene_f32(&s, losses)[FIRST - 1]) && isnan(scene_f32(&s, losses)[FIRST + ROWS]),
              "rows outside the chunk were written");
    double error = numeric_error(scene_f32(&s, logits), gradient, (int64_t)ROWS * padded);
    cr_expect(error < 2e-6, "vocabulary %d: gradient off by %g", vocab, error);
    free(want);
    free(gradient);
    scene_close(&s);
}

Test(loss, matches_double_for_every_vocabulary)
{
    const int vocabs[] = { 1, 2, 7, 15, 16, 17, 511, 513, 50257, 50304, 128256 };

    for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++) {
        check_vocab(vocabs[i], vocabs[i], 3.0f);
        check_vocab(vocabs[i], (vocabs[i] + 128) / 128 * 128, 20.0f);
    }
}

Test(loss, of_what_is_not_finite_is_not_finite)
{
    const float odd[] = { NAN, INFINITY };

    for (int i = 0; i < 2; i++) {
        Scene s;
        int32_t target = 3;
        scene_open(&s);
        TideTensor logits = tide_input(s.g, "logits", TIDE_F32, (TideShape){ 2, { 1, 40 } });
        TideTensor in = tide_input(s.g, "targets", TIDE_I32, (TideShape){ 1, { 1 } });
        TideTensor losses =
            tide_cross_entropy(s.g, logits, in, (TideTensor){ 0 }, (TideClasses){ 40, IGNORE, 0 });
        ready(&s);
        numeric_random(scene_f32(&s, logits), 40, 1.0f, 1);
        scene_f32(&s, logits)[21] = odd[i];
        memcpy(scene_i32(&s, in), &target, sizeof target);
        run(&s);
        cr_expect(!isfinite(scene_f32(&s, losses)[0]), "logit %g gives loss %g", (double)odd[i],
                  (double)scene_f32(&s, losses)[0]);
        scene_close(&s);
    }
}

/* ---- With the head, in chunks ----------------------------------------------------- */

enum { ALL = 131, WIDTH = 24, VOCAB = 77, PADDED = 128 };

typedef struct HeadResult {
    float losses[ALL], dx[ALL * WIDTH], dweight[PADDED * WIDTH];
} HeadResult;

static void fill_head(const Scene *s, TideTensor x, TideTensor weight, TideTensor targets)
{
    numeric_random(scene_f32(s, x), ALL * WIDTH, 1.0f, 1);
    numeric_random(scene_f32(s, weight), PADDED * WIDTH, 1.0f, 2);
    numeric_random_ints(scene_i32(s, targets), ALL, VOCAB, 3);
    for (int i = 0; i < ALL; i += i < ALL / 2 ? 3 : 17) scene_i32(s, targets)[i] = IGNORE; /* unevenly */
}

static void run_head(int64_t chunk, bool train, HeadResult *out)
{
    Scene s;
    TideStepInfo info = { .loss_scale = 0.01f };

    scene_open(&s);
    TideTensor x = tide_input(s.g, "x", TIDE_F32, (TideShape){ 2, { ALL, WIDTH } });
    TideTensor weight = scene_parameter(&s, "weight", (TideShape){ 2, { PADDED, WIDTH } });
    TideTensor targets = tide_input(s.g, "targets", TIDE_I32, (TideShape){ 1, { ALL } });
    TideTensor in = tide_input(s.g, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } });
    TideClasses c = { .vocab = VOCAB, .ignore = IGNORE };
    TideLoss loss = tide_linear_cross_entropy(s.g, x, weight, targets, in, c, chunk, train);
    ready(&s);
    fill_head(&s, x, weight, targets);
    memcpy(scene_i32(&s, in), &info, sizeof info);
    run(&s);
    memcpy(out->losses, scene_f32(&s, loss.losses), sizeof out->losses);
    cr_expect_eq(loss.dx.id != 0, train);
    cr_expect_str_eq(tide_tensor_name(s.p, loss.losses), "loss");
    if (train) memcpy(out->dx, scene_f32(&s, loss.dx), sizeof out->dx);
    if (train) memcpy(out->dweight, scene_f32(&s, tide_gradient_of(s.p, weight)), sizeof out->dweight);
    scene_close(&s);
}

static double error_between(const float *a, const float *b, int64_t n)
{
    double *wide = doubles(n);

    for (int64_t i = 0; i < n; i++) wide[i] = (double)b[i];
    double error = numeric_error(a, wide, n);
    free(wide);
    return error;
}

Test(loss, chunks_of_any_length_give_the_same)
{
    static HeadResult whole, part;
    const int64_t chunks[] = { 1, 7, 64, 130, ALL };

    run_head(ALL, true, &whole);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        run_head(chunks[i], true, &part);
        cr_expect_lt(error_between(part.losses, whole.losses, ALL), 2e-6);
        cr_expect_lt(error_between(part.dx, whole.dx, ALL * WIDTH), 2e-6);
        cr_expect_lt(error_between(part.dweight, whole.dweight, PADDED * WIDTH), 2e-6);
        memcpy(whole.losses, part.losses, sizeof part.losses);
        run_head(chunks[i], false, &part);
        cr_expect_arr_eq(part.losses, whole.losses, sizeof part.losses, "evaluation differs from training");
    }
}

Test(loss, head_matches_double)
{
    static HeadResult found;
    static float x[ALL * WIDTH], weight[PADDED * WIDTH], logits[PADDED];
    static double dx[ALL * WIDTH], dweight[PADDED * WIDTH], losses[ALL], d[PADDED];
    int32_t targets[ALL];
    Scene s = { .memory = (void *[]){ x, weight, targets } };

    run_head(10, true, &found);
    fill_head(&s, (TideTensor){ 0 }, (TideTensor){ 1 }, (TideTensor){ 2 });
    for (int r = 0; r < ALL; r++) {
        if (!counts(targets[r], VOCAB)) continue;
        for (int v = 0; v < VOCAB; v++) {
            double sum = 0;
            for (int c = 0; c < WIDTH; c++) sum += (double)x[r * WIDTH + c] * (double)weight[v * WIDTH + c];
            logits[v] = (float)sum;
        }
        losses[r] = reference_row(logits, VOCAB, targets[r], d);
        d[targets[r]] -= 1;
        for (int v = 0; v < VOCAB; v++)
            for (int c = 0; c < WIDTH; c++) {
                dx[r * WIDTH + c] += 0.01 * d[v] * (double)weight[v * WIDTH + c];
                dweight[v * WIDTH + c] += 0.01 * d[v] * (double)x[r * WIDTH + c];
            }
    }
    cr_expect_lt(numeric_error(found.losses, losses, ALL), 2e-6);
    cr_expect_lt(numeric_error(found.dx, dx, ALL * WIDTH), 5e-6);
    cr_expect_lt(numeric_error(found.dweight, dweight, PADDED * WIDTH), 5e-6);
}

Test(loss, chunk_rows_depend_on_the_shape_alone)
{
    const int64_t rows[] = { 1, 63, 64, 65, 768, 1000, 8192, 16384, 100000 },
                  widths[] = { 16, 256, 50304, 151936, 1 << 20 };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++) {
            int64_t chunk = tide_block_rows(rows[i], widths[j], 8 << 20);
            int64_t least = rows[i] < 64 ? rows[i] : 64;
            cr_expect(chunk >= least && chunk <= rows[i], "%lld rows of %lld: %lld", (long long)rows[i],
                      (long long)widths[j], (long long)chunk);
            cr_expect(chunk == least || chunk * widths[j] <= 8 << 20, "%lld rows of %lld: %lld",
                      (long long)rows[i], (long long)widths[j], (long long)chunk);
        }
    /* Where there is room for many rows, blocks are whole tiles. */
    cr_expect_eq(tide_block_rows(32768, 50304, 272 << 20), 5632);
    cr_expect_eq(tide_block_rows(8192, 50304, 272 << 20), 4096);
    cr_expect_eq(tide_block_rows(5000, 50304, 272 << 20), 5000);
    cr_expect_eq(tide_block_rows(100001, 50304, 272 << 20), 5632);
}
