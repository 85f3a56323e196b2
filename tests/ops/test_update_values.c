/* test_update_values.c - gradient norm, AdamW and SGD against plain references in double. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/ops.h"
#include "tests/support/numeric.h"

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

/* ---- Norm ----------------------------------------------------------------- */

enum { GRADS = 3 };
static const int64_t sizes[GRADS] = { 100003, 5, 32768 };

/* The norm of three gradients, one of whose elements is replaced. */
static void run_norm(float clip, float grad_scale, float odd, float out[2], double *want)
{
    Scene s;
    TideTensor grads[GRADS];
    char name[8];
    TideStepInfo info = { .grad_scale = grad_scale };

    scene_open(&s);
    for (int i = 0; i < GRADS; i++) {
        snprintf(name, sizeof name, "g%d", i);
        grads[i] = scene_persistent(&s, name, TIDE_GRADIENT, (TideShape){ 1, { sizes[i] } });
    }
    TideTensor in = info_input(&s), norm = tide_grad_norm(s.g, grads, GRADS, in, clip);
    ready(&s);
    memcpy(scene_i32(&s, in), &info, sizeof info);
    *want = 0;
    for (int i = 0; i < GRADS; i++) randomize(&s, grads[i], 1.0f, (uint64_t)i);
    scene_f32(&s, grads[0])[77777] = odd;
    for (int i = 0; i < GRADS; i++)
        for (int64_t e = 0; e < sizes[i]; e++)
            *want += (double)scene_f32(&s, grads[i])[e] * (double)scene_f32(&s, grads[i])[e];
    *want = sqrt(*want) * (double)grad_scale;
    run(&s);
    memcpy(out, scene_f32(&s, norm), 2 * sizeof *out);
    scene_close(&s);
}

Test(updates, norm_and_clip_factor)
{
    float out[2];
    double want;

    run_norm(0.0f, 1.0f, 0.5f, out, &want);
    cr_expect(fabs((double)out[0] - want) < 1e-6 * want, "%g, not %g", (double)out[0], want);
    cr_expect_eq(out[1], 1.0f, "no clipping");
    run_norm(1.0f, 0.25f, 0.5f, out, &want);
    cr_expect(fabs((double)out[0] - want) < 1e-6 * want, "scaled: %g, not %g", (double)out[0], want);
    cr_expect(fabs((double)out[1] - 1 / want) < 1e-6, "clipped by %g", (double)out[1]);
    run_norm(1e6f, 1.0f, 0.5f, out, &want);
    cr_expect_eq(out[1], 1.0f, "below the clip");
}

Test(updates, norm_shows_what_is_not_finite)
{
    const float odd[] = { NAN, INFINITY, -INFINITY };
    float out[2];
    double want;

    for (int i = 0; i < 3; i++) {
        run_norm(1.0f, 1.0f, odd[i], out, &want);
        cr_expect(!isfinite(out[0]), "%g gives norm %g", (double)odd[i], (double)out[0]);
    }
}

/* ---- AdamW, SGD --------------------------------------------------------------- */

enum { N = 4099, STEPS = 4 };

typedef struct Reference {
    double p[N], m[N], v[N];
} Reference;

static void adamw_reference(Reference *r, const float *gradient, const TideAdamW *a, const TideStepInfo *info,
                            double factor)
{
    for (int i = 0; i < N; i++) {
        double g = (double)gradient[i] * (double)info->grad_scale * factor;
        r->m[i] = (double)a->beta1 * r->m[i] + (1 - (double)a->beta1) * g;
        r->v[i] = (double)a->beta2 * r->v[i] + (1 - (double)a->beta2) * g * g;
        double mhat = r->m[i] / (double)info->bias1, vhat = r->v[i] / (double)info->bias2;
        r->p[i] -= (double)info->lr * (mhat / (sqrt(vhat) + (double)a->eps) + (double)a->decay * r->p[i]);
    }
}

static TideStepInfo info_of_step(const TideAdamW *a, int step)
{
    return (TideStepInfo){ .step = step,
                           .lr = 1e-2f,
                           .grad_scale = 0.5f,
                           .bias1 = 1.0f - powf(a->beta1, (float)(step + 1)),
                           .bias2 = 1.0f - powf(a->beta2, (float)(step + 1)) };
}

static void check_adamw(bool clipped, bool mastered)
{
    static Reference want;
    Scene s;
    TideShape shape = { 1, { N } };
    TideAdamW a = { .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .decay = 0.1f };

    scene_open(&s);
    a.parameter = scene_persistent(&s, "p", TIDE_PARAMETER, shape);
    a.gradient = scene_persistent(&s, "g", TIDE_GRADIENT, shape);
    a.m = scene_persistent(&s, "m", TIDE_STATE, shape);
    a.v = scene_persistent(&s, "v", TIDE_STATE, shape);
    if (mastered) a.master = scene_persistent(&s, "master", TIDE_STATE, shape);
    a.info = info_input(&s);
    if (clipped) a.norm = tide_grad_norm(s.g, &a.gradient, 1, a.info, 0.75f);
    tide_adamw(s.g, a);
    ready(&s);
    randomize(&s, a.parameter, 1.0f, 1);
    if (mastered) memcpy(scene_f32(&s, a.master), scene_f32(&s, a.parameter), N * sizeof(float));
    memset(&want, 0, sizeof want);
    for (int i = 0; i < N; i++) want.p[i] = (double)scene_f32(&s, a.parameter)[i];
    for (int step = 0; step < STEPS; step++) {
        TideStepInfo info = info_of_step(&a, step);
        randomize(&s, a.gradient, 1.0f, 100 + (uint64_t)step);
        memcpy(scene_i32(&s, a.info), &info, sizeof info);
        run(&s);
        adamw_reference(&want, scene_f32(&s, a.gradient), &a, &info,
                        clipped ? (double)scene_f32(&s, a.norm)[1] : 1);
        if (clipped) cr_assert_lt(scene_f32(&s, a.norm)[1], 1.0f);
    }
    cr_expect_lt(numeric_error(scene_f32(&s, a.parameter), want.p, N), 1e-6);
    cr_expect_lt(numeric_error(scene_f32(&s, a.m), want.m, N), 1e-6);
    cr_expect_lt(numeric_error(scene_f32(&s, a.v), want.v, N), 1e-6);
    if (mastered) cr_expect_arr_eq(scene_f32(&s, a.parameter), scene_f32(&s, a.master), N * sizeof(float));
    scene_close(&s);
}

Test(updates, adamw)
{
    check_adamw(false, false);
    check_adamw(true, false);
    check_adamw(true, true);
}

Test(updates, sgd)
{
    Scene s;
    TideShape shape = { 1, { N } };
    TideStepInfo info = { .lr = 0.1f, .grad_scale = 2.0f };
    double want[N];

    scene_open(&s);
    TideTensor p = scene_persistent(&s, "p", TIDE_PARAMETER, shape);
    TideTensor g = scene_persistent(&s, "g", TIDE_GRADIENT, shape), in = info_input(&s);
    TideTensor norm = tide_grad_norm(s.g, &g, 1, in, 3.0f);
    tide_sgd(s.g, p, g, norm, in);
    tide_sgd(s.g, p, g, (TideTensor){ 0 }, in);
    ready(&s);
    randomize(&s, p, 1.0f, 1);
    randomize(&s, g, 1.0f, 2);
    memcpy(scene_i32(&s, in), &info, sizeof info);
    for (int i = 0; i < N; i++) want[i] = (double)scene_f32(&s, p)[i];
    run(&s);
    double factor = (double)scene_f32(&s, norm)[1];
    cr_expect_lt(factor, 1.0);
    for (int i = 0; i < N; i++) want[i] -= 0.1 * 2.0 * (double)scene_f32(&s, g)[i] * (factor + 1);
    cr_expect_lt(numeric_error(scene_f32(&s, p), want, N), 1e-6);
    scene_close(&s);
}

Test(updates, a_norm_that_is_not_finite_changes_nothing)
{
    Scene s;
    TideShape shape = { 1, { N } };
    TideStepInfo info = { .lr = 0.1f, .grad_scale = 1, .bias1 = 0.1f, .bias2 = 0.05f };
    TideAdamW a = { .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .decay = 0.1f };
    float before[3][N];

    scene_open(&s);
    a.parameter = scene_persistent(&s, "p", TIDE_PARAMETER, shape);
    a.gradient = scene_persistent(&s, "g", TIDE_GRADIENT, shape);
    a.m = scene_persistent(&s, "m", TIDE_STATE, shape);
    a.v = scene_persistent(&s, "v", TIDE_STATE, shape);
    a.info = info_input(&s);
    a.norm = tide_grad_norm(s.g, &a.gradient, 1, a.info, 1.0f);
    tide_adamw(s.g, a);
    tide_sgd(s.g, a.parameter, a.gradient, a.norm, a.info);
    ready(&s);
    TideTensor kept[3] = { a.parameter, a.m, a.v };
    for (int i = 0; i < 3; i++) randomize(&s, kept[i], 1.0f, 7 + (uint64_t)i);
    for (int i = 0; i < 3; i++) memcpy(before[i], scene_f32(&s, kept[i]), sizeof before[i]);
    randomize(&s, a.gradient, 1.0f, 3);
    scene_f32(&s, a.gradient)[N / 2] = INFINITY;
    memcpy(scene_i32(&s, a.info), &info, sizeof info);
    run(&s);
    for (int i = 0; i < 3; i++) cr_expect_arr_eq(before[i], scene_f32(&s, kept[i]), sizeof before[i]);
    scene_close(&s);
}
