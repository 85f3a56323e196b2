/* test_models.c - models start as they should, learn, and see the same text however a step is cut. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/text/loader.h"
#include "tests/support/loaded.h"

enum { TEXT = 20000, SEED = 5 };

typedef struct Trial {
    Tide *tide;
    Loaded on;
    Loader *loader;
    Part text;
} Trial;

static void must(const Trial *t, TideStatus status, const char *what)
{
    cr_assert(!status, "%s: %s", what, tide_message(t->tide));
}

/* A text that can be learnt: words of a small set in an order that is no order. */
static Part make_text(void)
{
    static const char *const words[] = { "tide ", "rises ", "and ", "falls ", "on the ", "shore\n" };
    static uint16_t storage[TEXT];
    static Tokens tokens;
    uint64_t state = 9;
    int n = 0;

    while (n < TEXT) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        for (const char *c = words[(state >> 33) % 6]; *c && n < TEXT; c++) storage[n++] = (unsigned char)*c;
    }
    tokens = (Tokens){ storage, TEXT, 2 };
    return (Part){ &tokens, 1, false };
}

static Trial trial_new(ModelConfig c)
{
    Trial t = { .text = make_text() };

    cr_assert(!tide_open("cpu", (TideDeviceOptions){ 0 }, &t.tide), "cpu: %s", tide_message(t.tide));
    t.on = loaded_new(t.tide, &c);
    must(&t, model_init(t.on.model, t.on.run, SEED), "init");
    LoaderStart start = { t.text, { .seed = SEED } };
    must(&t, loader_new(t.tide, &t.on.model->config, start, &t.loader), "loader");
    return t;
}

static void trial_free(Trial *t)
{
    loader_free(t->loader);
    loaded_free(&t->on);
    tide_close(t->tide);
}

static ModelConfig config_of(const char *preset)
{
    ModelConfig c;

    cr_assert(model_preset(preset, &c));
    c.layers = 2;
    c.width = 64;
    c.batch = strcmp(c.family, "mlp") ? 4 : 64;
    c.seq = strcmp(c.family, "mlp") ? 32 : 1;
    return c;
}

/* The mean loss of step i. */
static double train_step(Trial *t, int i)
{
    const Model *m = t->on.model;
    const StepData *d = loader_next(t->loader);
    float sum = 0;
    TideStepInfo info = { .seed = SEED,
                          .step = i,
                          .loss_scale = 1 / (float)d->valid,
                          .grad_scale = 1,
                          .lr = 3e-3f,
                          .bias1 = (float)(1 - pow((double)m->config.beta1, i + 1)),
                          .bias2 = (float)(1 - pow((double)m->config.beta2, i + 1)) };

    for (int j = 0; j < m->config.accum; j++) {
        info.micro = j;
        must(t, tide_write(t->on.run, m->tokens, step_tokens(d, j), d->token_bytes), "tokens");
        must(t, tide_write(t->on.run, m->targets, step_targets(d, j), d->target_bytes), "targets");
        must(t, tide_write(t->on.run, m->info, &info, sizeof info), "info");
        must(t, tide_step(t->on.run, tide_graph_index(m->micro)), "micro");
    }
    must(t, tide_write(t->on.run, m->update_info, &info, sizeof info), "info");
    must(t, tide_step(t->on.run, tide_graph_index(m->update)), "update");
    must(t, tide_read(t->on.run, m->loss, &sum, sizeof sum), "loss");
    return (double)sum / (double)d->valid;
}

static double evaluate(Trial *t)
{
    const Model *m = t->on.model;
    size_t x_bytes = tide_tensor_bytes(m->program, m->eval_tokens);
    size_t target_bytes = tide_tensor_bytes(m->program, m->eval_targets);
    void *x = malloc(x_bytes);
    int32_t *targets = malloc(target_bytes);
    TideStepInfo info = { .loss_scale = 1 };
    float sum = 0;

    batch_even(&m->config, t->text, 1, 3, x, targets);
    must(t, tide_write(t->on.run, m->eval_tokens, x, x_bytes), "tokens");
    must(t, tide_write(t->on.run, m->eval_targets, targets, target_bytes), "targets");
    must(t, tide_write(t->on.run, m->eval_info, &info, sizeof info), "info");
    must(t, tide_step(t->on.run, tide_graph_index(m->eval)), "eval");
    must(t, tide_read(t->on.run, m->eval_loss, &sum, sizeof sum), "loss");
    free(x);
    free(targets);
    return (double)sum / ((double)target_bytes / sizeof *targets);
}

/* ---- Starting weights ----------------------------------------------------- */

typedef struct Moments {
    double mean, deviation;
} Moments;

static float *fetch(const Trial *t, const char *name, int64_t *n)
{
    TideTensor x = tide_tensor_find(t->on.model->program, NULL, name);
    size_t bytes = x.id ? tide_tensor_bytes(t->on.model->program, x) : 0;
    float *values = malloc(bytes + 1);

    cr_assert(x.id, "there is no %s", name);
    must(t, tide_read(t->on.run, x, values, bytes), name);
    *n = (int64_t)(bytes / sizeof *values);
    return values;
}

static Moments moments_of(const float *x, int64_t n)
{
    double sum = 0, squares = 0;

    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    for (int64_t i = 0; i < n; i++)
        squares += ((double)x[i] - sum / (double)n) * ((double)x[i] - sum / (double)n);
    return (Moments){ sum / (double)n, sqrt(squares / (double)n) };
}

static void expect_moments(const Trial *t, const char *name, Moments want)
{
    int64_t n;
    float *x = fetch(t, name, &n);
    Moments got = moments_of(x, n);
    double margin = 5 * want.deviation / sqrt((double)n);

    cr_expect(fabs(got.mean - want.mean) <= margin && fabs(got.deviation - want.deviation) <= margin,
              "%s: mean %g, deviation %g", name, got.mean, got.deviation);
    free(x);
}

Test(models, weights_start_as_those_of_gpt2)
{
    ModelConfig c = config_of("gpt-char");
    int64_t n;

    c.vocab = 200; /* padded to 256 */
    Trial t = trial_new(c);
    expect_moments(&t, "h.1.attn.c_attn.weight", (Moments){ 0, 0.02 });
    expect_moments(&t, "h.0.mlp.c_proj.weight", (Moments){ 0, 0.02 / 2 });
    expect_moments(&t, "h.0.attn.c_proj.weight", (Moments){ 0, 0.02 / 2 });
    expect_moments(&t, "wpe.weight", (Moments){ 0, 0.02 });
    expect_moments(&t, "ln_f.weight", (Moments){ 1, 0 });
    expect_moments(&t, "h.1.mlp.c_fc.bias", (Moments){ 0, 0 });
    expect_moments(&t, "h.1.mlp.c_fc.weight.m", (Moments){ 0, 0 });
    float *wte = fetch(&t, "wte.weight", &n);
    cr_assert_eq(n, 256 * 64);
    cr_expect_float_eq(moments_of(wte, 200 * 64).deviation, 0.02, 0.001);
    for (int i = 200 * 64; i < 256 * 64; i++) cr_assert_eq(wte[i], 0, "row %d of the padding", i / 64);
    free(wte);
    trial_free(&t);
}

/* ---- Learning ------------------------------------------------------------- */

/* An untrained model knows nothing: ln 256 = 5.545. Later it knows at least which letters there are. */
static void expect_learning(const char *preset, double first_margin)
{
    Trial t = trial_new(config_of(preset));
    double first = train_step(&t, 0), last = 0, before = evaluate(&t);

    cr_expect(fabs(first - log(256)) < first_margin, "%s: the first loss is %g", preset, first);
    for (int i = 1; i < 80; i++) last = train_step(&t, i);
    double after = evaluate(&t);
    cr_expect(last < 2.5 && after < 2.5 && after < before, "%s: loss %g -> %g, evaluated %g -> %g", preset,
              first, last, before, after);
    trial_free(&t);
}

Test(models, a_gpt_learns)
{
    expect_learning("gpt-char", 0.1);
}

Test(models, an_mlp_learns)
{
    expect_learning("mlp", 2.5);
}

/* Six rows at once, or as three micro-steps of two: the same losses but for the order of sums. */
Test(models, accumulation_changes_nothing)
{
    ModelConfig whole = config_of("gpt-char"), cut = whole;

    whole.batch = 6;
    cut.batch = 2;
    cut.accum = 3;
    Trial a = trial_new(whole), b = trial_new(cut);
    for (int i = 0; i < 6; i++) {
        double x = train_step(&a, i), y = train_step(&b, i);
        cr_expect(fabs(x - y) < 2e-5 * x, "step %d: %.9g at once, %.9g in parts", i, x, y);
    }
    trial_free(&a);
    trial_free(&b);
}

/* Evaluation and sampling between steps leave training as it was, bit for bit. */
Test(models, evaluation_leaves_no_trace)
{
    for (int accum = 1; accum <= 2; accum++) {
        ModelConfig c = config_of("gpt-char");
        c.accum = accum;
        c.dropout = c.attn_dropout = 0.1f;
        Trial a = trial_new(c), b = trial_new(c);
        for (int i = 0; i < 5; i++) {
            double x = train_step(&a, i), y = train_step(&b, i);
            cr_expect_eq(x, y, "step %d: %.9g without, %.9g with evaluation", i, x, y);
            evaluate(&b);
            must(&b, tide_step(b.on.run, tide_graph_index(b.on.model->sample)), "sample");
        }
        trial_free(&a);
        trial_free(&b);
    }
}

/* Dropout changes what a step sees, and differently with every seed of a step. */
Test(models, dropout_drops)
{
    ModelConfig c = config_of("gpt-char"), dropping = c, attention = c;

    dropping.dropout = 0.2f;
    attention.attn_dropout = 0.2f;
    Trial a = trial_new(c), b = trial_new(dropping), d = trial_new(attention);
    double plain = train_step(&a, 0), x = train_step(&b, 0), y = train_step(&d, 0);
    cr_expect(plain != x && plain != y && x != y, "losses %g, %g, %g", plain, x, y);
    trial_free(&a);
    trial_free(&b);
    trial_free(&d);
}
