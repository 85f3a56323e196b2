/* test_same_bits.c - a plan changes when and where, never what.
 *
 * Every small model is trained under keep-everything; then under every baseline, the search at ten
 * budgets and random fates, with copies delayed, dead slots poisoned and other numbers of
 * threads: the gradients of step 1 and the weights after 20 steps must be the same bytes. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>
#include "runtime/graph.h"
#include "tests/support/train.h"

enum { STEPS = 20, N_BUDGETS = 10, N_RANDOM = 8, N_MODELS = 5 };

typedef struct Bed {
    Tide *tide;
    Model *model;
    TideProfile *profile;
    TrainResult keep;
    TidePlanStats stats; /* of keep-everything */
} Bed;

static void check(const Bed *b, TideStatus status, const char *what)
{
    cr_assert(!status, "%s: %s: %s", b->model ? b->model->config.name : "", what, tide_message(b->tide));
}

static void bed_open(Bed *b, int row, TideDeviceOptions options)
{
    *b = (Bed){ 0 };
    cr_assert(!tide_open(test_device(), options, &b->tide), "%s", tide_message(b->tide));
    check(b, model_new(b->tide, small_model(row), &b->model), "model");
    check(b, tide_profile_guess(b->model->program, &b->profile), "profile");
}

static void bed_close(Bed *b)
{
    tide_profile_free(b->profile);
    model_free(b->model);
    tide_close(b->tide);
}

static TidePlan *plan_for(const Bed *b, TideBudget budget)
{
    TidePlan *plan = NULL;

    check(b, tide_plan_make(b->model->program, b->profile, budget, &plan, NULL), "plan");
    check(b, tide_plan_check(b->model->program, plan), "check");
    return plan;
}

/* Train under a plan and compare with keep-everything. */
static void same_bits(const Bed *b, TidePlan *plan, TrainOptions o, const char *what)
{
    TrainResult got;

    check(b, train_plan(b->model, plan, o, &got), what);
    cr_expect_eq(got.grads, b->keep.grads, "%s, %s: gradients of step 1 differ", b->model->config.name, what);
    cr_expect_eq(got.weights, b->keep.weights, "%s, %s: weights after %d steps differ", b->model->config.name,
                 what, o.steps);
    cr_expect(touched_as_planned(got.stats.arena_bytes, tide_plan_stats(plan).device_bytes),
              "%s, %s: %zu bytes of the arena touched, %zu planned", b->model->config.name, what,
              got.stats.arena_bytes, tide_plan_stats(plan).device_bytes);
    tide_plan_free(plan);
}

static void train_keep(Bed *b)
{
    TidePlan *plan = plan_for(b, (TideBudget){ 0 }); /* no limit: everything is kept */

    b->stats = tide_plan_stats(plan);
    check(b, train_plan(b->model, plan, (TrainOptions){ .steps = STEPS }, &b->keep), "keep");
    cr_assert(b->keep.last_loss < b->keep.first_loss + 1, "%s: loss %g became %g", b->model->config.name,
              (double)b->keep.first_loss, (double)b->keep.last_loss);
    bool skips = b->model->config.loss_scale > 65536; /* too much at first: a plan sees both kinds of steps */
    cr_assert(!skips || (b->keep.skipped > 0 && b->keep.skipped < STEPS), "%s: %d of %d steps skipped",
              b->model->config.name, b->keep.skipped, STEPS);
    tide_plan_free(plan);
}

static void try_baselines(const Bed *b)
{
    static const char *const names[] = { "auto", "keep", "recompute", "sqrt", "offload", "offload-inputs" };

    for (int p = 0; p < TIDE_POLICY_COUNT; p++) {
        same_bits(b, plan_for(b, (TideBudget){ .policy = (TidePolicy)p }),
                  (TrainOptions){ .steps = STEPS, .poison = true }, names[p]);
        same_bits(b, plan_for(b, (TideBudget){ .policy = (TidePolicy)p }),
                  (TrainOptions){ .steps = STEPS, .delay_seconds = 2e-4 }, names[p]);
    }
}

/* The search at budgets from the least to keep-everything, no byte of slack in the arena. */
static void try_budgets(const Bed *b)
{
    for (int i = 0; i < N_BUDGETS; i++) {
        char what[64];
        size_t room = b->stats.keep_bytes - b->stats.least_bytes;
        size_t budget = b->stats.least_bytes + room * (size_t)i / N_BUDGETS;
        snprintf(what, sizeof what, "auto at %zu bytes", budget);
        TidePlan *plan = plan_for(b, (TideBudget){ .device_bytes = budget });
        cr_assert(tide_plan_stats(plan).device_bytes <= budget, "%s: the plan takes %zu", what,
                  tide_plan_stats(plan).device_bytes);
        same_bits(b, plan,
                  (TrainOptions){ .steps = STEPS, .delay_seconds = i % 2 ? 1e-4 : 0, .poison = i % 3 == 0 },
                  what);
    }
}

static void force_random(const Bed *b, uint64_t seed)
{
    static const TideFate fates[] = { TIDE_KEEP, TIDE_RECOMPUTE, TIDE_OFFLOAD };
    TideProgram *p = b->model->program;

    for (int i = 1; i < p->n_tensors; i++)
        if (p->tensors[i]->kind == TIDE_ACTIVATION) p->tensors[i]->forced = fates[test_random(&seed, 3)];
}

static void try_random_fates(const Bed *b)
{
    for (int i = 0; i < N_RANDOM; i++) {
        char what[32];
        snprintf(what, sizeof what, "random fates %d", i);
        force_random(b, (uint64_t)i + 1);
        same_bits(b, plan_for(b, (TideBudget){ .policy = TIDE_POLICY_KEEP }),
                  (TrainOptions){ .steps = STEPS, .delay_seconds = i % 2 ? 3e-4 : 0, .poison = i % 2 == 0 },
                  what);
    }
}

ParameterizedTestParameters(same_bits, every_plan)
{
    static int row[N_MODELS];
    for (int i = 0; i < N_MODELS; i++) row[i] = i;
    return cr_make_param_array(int, row, N_MODELS);
}

ParameterizedTest(int *row, same_bits, every_plan)
{
    Bed b;

    bed_open(&b, *row, (TideDeviceOptions){ .threads = 2 });
    train_keep(&b);
    try_baselines(&b);
    try_budgets(&b);
    try_random_fates(&b);
    bed_close(&b);
}

ParameterizedTestParameters(same_bits, every_number_of_threads)
{
    static int row[N_MODELS];
    for (int i = 0; i < N_MODELS; i++) row[i] = i;
    return cr_make_param_array(int, row, N_MODELS);
}

ParameterizedTest(int *row, same_bits, every_number_of_threads)
{
    static const int threads[] = { 1, 2, 4 };
    TrainResult first = { 0 };

    for (int i = 0; i < 3; i++) {
        Bed b;
        bed_open(&b, *row, (TideDeviceOptions){ .threads = threads[i] });
        train_keep(&b);
        if (i == 0) first = b.keep;
        cr_expect_eq(b.keep.grads, first.grads, "%s: %d threads change the gradients", b.model->config.name,
                     threads[i]);
        cr_expect_eq(b.keep.weights, first.weights, "%s: %d threads change the weights", b.model->config.name,
                     threads[i]);
        same_bits(&b, plan_for(&b, (TideBudget){ .device_bytes = b.stats.least_bytes }),
                  (TrainOptions){ .steps = STEPS }, "least");
        bed_close(&b);
    }
}

/* Host memory that is not page-locked is slower and no more, in replayed steps and in issued ones. */
Test(same_bits, with_pageable_memory)
{
    Bed pinned, b;

    if (strncmp(test_device(), "cpu", 3) == 0) cr_skip_test("the CPU device locks no pages");
    bed_open(&pinned, 0, (TideDeviceOptions){ 0 });
    train_keep(&pinned);
    for (int replayed = 0; replayed < 2; replayed++) {
        bed_open(&b, 0, (TideDeviceOptions){ .no_pin = true, .no_graph = !replayed });
        b.keep = pinned.keep;
        same_bits(&b, plan_for(&b, (TideBudget){ .policy = TIDE_POLICY_OFFLOAD }),
                  (TrainOptions){ .steps = STEPS }, replayed ? "pageable, replayed" : "pageable");
        bed_close(&b);
    }
    bed_close(&pinned);
}
