/* test_scaling_values.c - the scale grows, backs off and stops at its floor; what a step reads of it. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "kernels/ops.h"
#include "tests/support/numeric.h"

enum { INTERVAL = 3 };

/* One update: its two ops, and what the test gives them and looks at. */
typedef struct Bench {
    Scene scene;
    TideTensor info, scaled, state, norm, update, after;
} Bench;

static TideTensor info_input(Scene *s)
{
    return tide_input(s->g, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } });
}

static TideTensor state_of(Scene *s)
{
    TideTensor flat = tide_flat(s->p, "scaling.flat", TIDE_STATE, TIDE_I32);

    return tide_flat_view(s->p, flat, "scaling", (TideShape){ 1, { TIDE_SCALING_WORDS } });
}

static void ready(Scene *s)
{
    const char *mistake = scene_ready(s);
    cr_assert(!mistake, "%s", mistake);
}

static void bench_open(Bench *b, float clip, float least, float scale)
{
    Scene *s = &b->scene;

    scene_open(s);
    b->info = info_input(s);
    b->scaled = tide_input(s->g, "scaled", TIDE_F32, (TideShape){ 1, { 2 } });
    b->state = state_of(s);
    b->norm = tide_loss_scaling(s->g, (TideLossScaling){ .info = b->info,
                                                         .norm = b->scaled,
                                                         .scaling = b->state,
                                                         .growth = 2,
                                                         .backoff = 0.5f,
                                                         .least = least,
                                                         .clip = clip,
                                                         .interval = INTERVAL });
    b->update = graph_sibling(s->g, b->norm, 1);
    b->after = graph_sibling(s->g, b->norm, 3);
    ready(s);
    TideScaling start = { .scale = scale };
    memcpy(scene_i32(s, b->state), &start, sizeof start);
}

/* The state after an update whose scaled gradients have this norm. */
static TideScaling step(Bench *b, float scaled_norm)
{
    const TideStepInfo info = { .seed = 3,
                                .step = 4,
                                .grad_scale = 0.5f,
                                .lr = 8,
                                .bias1 = 9,
                                .bias2 = 10,
                                .late_lr = 11,
                                .late_bias1 = 12,
                                .late_bias2 = 13 };
    TideScaling state, after;
    Scene *s = &b->scene;

    memcpy(scene_i32(s, b->info), &info, sizeof info);
    memcpy(scene_f32(s, b->scaled), (float[]){ scaled_norm, 77 }, 2 * sizeof(float));
    cr_assert_eq(numeric_run(s->g, s->memory), TIDE_OK);
    memcpy(&state, scene_i32(s, b->state), sizeof state);
    memcpy(&after, scene_i32(s, b->after), sizeof after);
    cr_expect(!memcmp(&state, &after, sizeof state), "the host is told what the next step will find");
    return state;
}

static void expect_state(TideScaling got, float scale, int skipped, const char *when)
{
    cr_expect(got.scale == scale && got.skipped == skipped, "%s: scale %g, %d skipped; not %g, %d", when,
              (double)got.scale, got.skipped, (double)scale, skipped);
}

Test(loss_scaling, it_grows_after_so_many_good_steps_in_a_row)
{
    Bench b;

    bench_open(&b, 0, 1, 8);
    for (int i = 1; i < INTERVAL; i++) expect_state(step(&b, 1), 8, 0, "before the interval is over");
    expect_state(step(&b, 1), 16, 0, "at its end");
    expect_state(step(&b, 1), 16, 0, "the next begins");
    expect_state(step(&b, INFINITY), 8, 1, "overflow");
    for (int i = 1; i < INTERVAL; i++) expect_state(step(&b, 1), 8, 1, "counted anew");
    expect_state(step(&b, 1), 16, 1, "at the end of the second");
    scene_close(&b.scene);
}

Test(loss_scaling, it_backs_off_to_its_floor)
{
    static const float odd[] = { INFINITY, -INFINITY, NAN };
    Bench b;

    bench_open(&b, 0, 3, 16);
    expect_state(step(&b, odd[0]), 8, 1, "inf");
    expect_state(step(&b, odd[1]), 4, 2, "-inf");
    expect_state(step(&b, odd[2]), 3, 3, "nan: half of 4 is below the floor");
    for (int i = 0; i < 3; i++) {
        TideScaling s = step(&b, odd[i]);
        expect_state(s, 3, 4 + i, "at the floor");
        cr_expect(s.late == 1 && s.used == 3);
    }
    scene_close(&b.scene);
}

Test(loss_scaling, it_never_becomes_infinite)
{
    Bench b;

    bench_open(&b, 0, 1, 0x1p127f);
    for (int i = 0; i < 2 * INTERVAL; i++) expect_state(step(&b, 1), 0x1p127f, 0, "at the end of all floats");
    scene_close(&b.scene);
}

/* The norm and its clipping are those of the gradient without the scale. */
Test(loss_scaling, the_norm_is_true)
{
    static const float cases[][4] = { /* scaled norm, clip, norm, factor */
                                      { 1024, 0, 4, 1 },
                                      { 1024, 1, 4, 0.25f },
                                      { 1024, 5, 4, 1 },
                                      { 0, 1, 0, 1 }
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const float *c = cases[i];
        Bench b;
        bench_open(&b, c[1], 1, 256);
        step(&b, c[0]);
        const float *norm = scene_f32(&b.scene, b.norm);
        cr_expect(norm[0] == c[2] && norm[1] == c[3], "case %zu: norm %g, factor %g", i, (double)norm[0],
                  (double)norm[1]);
        step(&b, NAN);
        cr_expect(!isfinite(norm[0]), "case %zu: nan became %g", i, (double)norm[0]);
        scene_close(&b.scene);
    }
}

static TideStepInfo update_of(const Bench *b)
{
    TideStepInfo info;

    memcpy(&info, scene_i32(&b->scene, b->update), sizeof info);
    return info;
}

/* The host does not know yet how the step before ended. */
Test(loss_scaling, rates_are_those_of_the_updates_done)
{
    Bench b;

    bench_open(&b, 0, 1, 4);
    step(&b, INFINITY);
    TideStepInfo first = update_of(&b);
    cr_expect(first.lr == 8 && first.bias1 == 9 && first.bias2 == 10, "no step was before this one");
    cr_expect(first.seed == 3 && first.step == 4 && first.grad_scale == 0.5f / 4);
    step(&b, 1);
    TideStepInfo second = update_of(&b);
    cr_expect(second.lr == 11 && second.bias1 == 12 && second.bias2 == 13, "the one before was skipped");
    cr_expect(second.grad_scale == 0.5f / 2, "the scale that its gradients had, not the next");
    step(&b, 1);
    cr_expect(update_of(&b).lr == 8, "the one before was good again");
    scene_close(&b.scene);
}

Test(loss_scaling, the_loss_is_scaled)
{
    const TideStepInfo info = { .seed = 5, .step = 6, .loss_scale = 0.125f, .grad_scale = 7, .lr = 8 };
    const TideScaling state = { .scale = 1024 };
    TideStepInfo want = info, got;
    Scene s;

    scene_open(&s);
    TideTensor in = info_input(&s), scaling = state_of(&s), out = tide_scale_loss(s.g, in, scaling);
    ready(&s);
    memcpy(scene_i32(&s, in), &info, sizeof info);
    memcpy(scene_i32(&s, scaling), &state, sizeof state);
    cr_assert_eq(numeric_run(s.g, s.memory), TIDE_OK);
    memcpy(&got, scene_i32(&s, out), sizeof got);
    want.loss_scale = 128;
    cr_expect(!memcmp(&got, &want, sizeof want), "loss_scale %g", (double)got.loss_scale);
    scene_close(&s);
}
