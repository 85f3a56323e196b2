/* test_loss_scaling.c - whole steps with loss scaling, on the device and in the type of the other tests:
 * in f32 where only a huge scale overflows, and in f16, for which it is made. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tests/support/loaded.h"
#include "tests/support/train.h"

enum { SEED = 3, ROWS = 4, SEQ = 32 };

typedef struct Trial {
    Tide *tide;
    Loaded on;
    int64_t updates;
} Trial;

/* How a step ended. */
typedef struct End {
    float loss; /* mean */
    float norm;
    TideScaling scaling; /* zeros without loss scaling */
} End;

static void must(const Trial *t, TideStatus status, const char *what)
{
    cr_assert(!status, "%s: %s", what, tide_message(t->tide));
}

static ModelConfig config_of(TideType type, float loss_scale)
{
    ModelConfig c;

    cr_assert(model_preset("gpt-char", &c));
    c.layers = 2;
    c.width = 64;
    c.batch = ROWS;
    c.seq = SEQ;
    c.dtype = type;
    c.loss_scale = loss_scale;
    return c;
}

static TideType test_type(void)
{
    return small_model(0)->dtype;
}

static Trial trial_new(ModelConfig c)
{
    Trial t = { 0 };

    cr_assert(!tide_open(test_device(), (TideDeviceOptions){ 0 }, &t.tide), "%s", tide_message(t.tide));
    t.on = loaded_new(t.tide, &c);
    must(&t, model_init(t.on.model, t.on.run, SEED), "init");
    return t;
}

static void trial_free(Trial *t)
{
    loaded_free(&t->on);
    tide_close(t->tide);
}

static TideStepInfo info_of(const Trial *t, int step)
{
    const ModelConfig *c = &t->on.model->config;
    double n = (double)t->updates + 1;
    TideStepInfo info = { .seed = SEED,
                          .step = step,
                          .loss_scale = 1.0f / (ROWS * SEQ),
                          .grad_scale = 1,
                          .lr = 1e-3f,
                          .bias1 = (float)(1 - pow((double)c->beta1, n)),
                          .bias2 = (float)(1 - pow((double)c->beta2, n)) };

    info.late_lr = info.lr; /* nothing is unknown here: each step is looked at before the next */
    info.late_bias1 = info.bias1;
    info.late_bias2 = info.bias2;
    return info;
}

/* One step on a text that repeats itself. */
static End step(Trial *t, int i)
{
    const Model *m = t->on.model;
    int32_t tokens[ROWS * SEQ], targets[ROWS * SEQ];
    TideStepInfo info = info_of(t, i);
    float loss, norm[2];
    End end = { 0 };

    for (int k = 0; k < ROWS * SEQ; k++) {
        tokens[k] = (k * k + 3 * i) % 23;
        targets[k] = (tokens[k] * 5 + 1) % 23;
    }
    must(t, tide_write(t->on.run, m->tokens, tokens, sizeof tokens), "tokens");
    must(t, tide_write(t->on.run, m->targets, targets, sizeof targets), "targets");
    must(t, tide_write(t->on.run, m->info, &info, sizeof info), "info");
    must(t, tide_step(t->on.run, tide_graph_index(m->micro)), "micro");
    must(t, tide_write(t->on.run, m->update_info, &info, sizeof info), "info");
    must(t, tide_step(t->on.run, tide_graph_index(m->update)), "update");
    must(t, tide_read(t->on.run, m->loss, &loss, sizeof loss), "loss");
    must(t, tide_read(t->on.run, m->norm, norm, sizeof norm), "norm");
    if (m->scaling.id)
        must(t, tide_read(t->on.run, m->scaling_after, &end.scaling, sizeof end.scaling), "scaling");
    end.loss = loss / (ROWS * SEQ);
    end.norm = norm[0];
    t->updates += !end.scaling.late;
    return end;
}

/* FNV-1a over a parameter and what the optimizer keeps beside it. */
static uint64_t hash_beside(const Trial *t, const char *parameter, uint64_t hash)
{
    static const char *const suffixes[] = { "", ".m", ".v", ".master" };
    const TideProgram *p = t->on.model->program;
    char name[128];

    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s%s", parameter, suffixes[i]);
        TideTensor x = tide_tensor_find(p, NULL, name);
        size_t bytes = x.id ? tide_tensor_bytes(p, x) : 0;
        unsigned char *data = malloc(bytes + 1);
        if (x.id) must(t, tide_read(t->on.run, x, data, bytes), name);
        for (size_t k = 0; k < bytes; k++) hash = (hash ^ data[k]) * 0x100000001b3u;
        free(data);
    }
    return hash;
}

static uint64_t hash_all(const Trial *t)
{
    const TideProgram *p = t->on.model->program;
    uint64_t hash = 0xcbf29ce484222325u;

    for (int i = 0; i < tide_parameter_count(p); i++)
        hash = hash_beside(t, tide_tensor_name(p, tide_parameter_at(p, i)), hash);
    return hash;
}

Test(loss_scaling, a_step_that_overflows_changes_nothing)
{
    Trial t = trial_new(config_of(test_type(), too_large_scale()));
    uint64_t before = hash_all(&t), after = before;
    End end = step(&t, 0);
    int n = 1;

    cr_assert(end.scaling.late == 1 && !isfinite(end.norm), "scale %g: norm %g", (double)end.scaling.used,
              (double)end.norm);
    for (; end.scaling.late && n < 40; n++) {
        cr_assert_eq(after, before, "step %d was skipped, and yet weights or moments changed", n);
        cr_expect(end.scaling.scale == end.scaling.used / 2 && end.scaling.skipped == n);
        end = step(&t, n);
        after = hash_all(&t);
    }
    cr_assert(!end.scaling.late && isfinite(end.norm), "%d steps, and none was good", n);
    cr_expect_neq(after, before, "a good step");
    trial_free(&t);
}

/* A bias that became infinite makes every gradient NaN, whatever the scale. */
static void spoil(const Trial *t)
{
    const TideProgram *p = t->on.model->program;
    TideTensor x = tide_tensor_find(p, NULL, "ln_f.bias");
    int64_t n = tide_tensor_shape(p, x).dim[0];
    float *values = malloc((size_t)n * sizeof *values);
    void *stored = malloc((size_t)n * sizeof *values);

    cr_assert(values && stored);
    for (int64_t i = 0; i < n; i++) values[i] = INFINITY;
    tide_narrow(tide_tensor_type(p, x), values, n, stored);
    must(t, tide_write(t->on.run, x, stored, tide_tensor_bytes(p, x)), "a bias");
    free(values);
    free(stored);
}

/* With and without loss scaling no update touches anything; who trains is told and stops. */
Test(loss_scaling, what_is_not_finite_changes_nothing)
{
    for (int scaled = 0; scaled < 2; scaled++) {
        if (!scaled && test_type() == TIDE_F16) continue;
        Trial t = trial_new(config_of(test_type(), scaled ? 2 : 0));
        spoil(&t);
        uint64_t before = hash_all(&t);
        for (int i = 0; i < 3; i++) {
            End end = step(&t, i);
            cr_expect(!isfinite(end.norm) && !isfinite(end.loss), "norm %g", (double)end.norm);
            cr_expect_eq(hash_all(&t), before, "step %d changed something", i);
            if (scaled) cr_expect_eq(end.scaling.scale, 1, "the floor");
        }
        trial_free(&t);
    }
}

/* It starts too large and soon tries to grow again and again. */
Test(loss_scaling, a_model_learns_whatever_the_scale)
{
    ModelConfig c = config_of(test_type(), too_large_scale());

    c.scale_interval = 7;
    Trial t = trial_new(c);
    End first = step(&t, 0), last = first;
    for (int i = 1; i < 80; i++) last = step(&t, i);
    cr_expect(last.scaling.skipped >= 3 && last.scaling.skipped < 40, "%d steps skipped",
              last.scaling.skipped);
    cr_expect(last.loss < 0.5f * first.loss, "loss %g -> %g", (double)first.loss, (double)last.loss);
    trial_free(&t);
}

Test(loss_scaling, it_grows_on_the_device)
{
    ModelConfig c = config_of(test_type(), 64);

    c.scale_interval = 3;
    Trial t = trial_new(c);
    for (int i = 0; i < 10; i++) {
        End end = step(&t, i);
        cr_expect_eq(end.scaling.scale, ldexpf(64, (i + 1) / 3), "step %d: %g", i, (double)end.scaling.scale);
    }
    trial_free(&t);
}

/* A power of two changes exponents only, where the type has enough of them. */
Test(loss_scaling, a_scale_changes_no_bit_of_a_wide_type)
{
    uint64_t hash[2];

    if (test_type() == TIDE_F16) cr_skip_test("f16 has no exponents to spare");
    for (int scaled = 0; scaled < 2; scaled++) {
        ModelConfig c = config_of(test_type(), scaled ? 65536 : 0);
        c.clip = 0; /* the norm is rounded once more */
        Trial t = trial_new(c);
        for (int i = 0; i < 6; i++) step(&t, i);
        hash[scaled] = hash_all(&t);
        trial_free(&t);
    }
    cr_expect_eq(hash[0], hash[1]);
}

/* The type of the test, with loss scaling, against f32 without. */
Test(loss_scaling, losses_follow_those_of_f32)
{
    ModelConfig narrow = config_of(test_type(), 65536), wide = config_of(TIDE_F32, 0);
    double margin = test_type() == TIDE_F32 ? 1e-4 : 0.02;
    Trial a = trial_new(narrow), b = trial_new(wide);

    for (int i = 0; i < 60; i++) {
        double x = (double)step(&a, i).loss, y = (double)step(&b, i).loss;
        cr_expect(fabs(x - y) <= margin * y, "step %d: loss %g, in f32 %g", i, x, y);
    }
    trial_free(&a);
    trial_free(&b);
}

Test(loss_scaling, scales_that_cannot_be_are_refused)
{
    const float scales[] = { 0.5f, -1, NAN, INFINITY, FLT_MAX };
    Tide *tide = NULL;

    cr_assert(!tide_open("cpu", (TideDeviceOptions){ 0 }, &tide));
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        ModelConfig c = config_of(TIDE_F32, scales[i]);
        Model *m = NULL;
        cr_expect_eq(model_new(tide, &c, &m), TIDE_BAD_GRAPH, "scale %g", (double)scales[i]);
        cr_expect(strstr(tide_message(tide), "loss-scale"), "%s", tide_message(tide));
    }
    tide_close(tide);
}
