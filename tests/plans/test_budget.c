/* test_budget.c - the budget is physical.
 *
 * For every small model a sweep of budgets: each plan fits, is proven by the checker, and is not
 * slower (predicted) than the plan of a smaller budget; the highest byte that a run touches is
 * the last byte of the planned arena; traffic is what the plan says. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include "runtime/planner.h"
#include "tests/support/train.h"

enum { N_BUDGETS = 100, N_MODELS = 3, RUN_EVERY = 20 };

typedef struct Bed {
    Tide *tide;
    Model *model;
    TideProfile *profile;
    TidePlanStats stats; /* of the plan without a limit */
} Bed;

static void check(const Bed *b, TideStatus status, const char *what)
{
    cr_assert(!status, "%s: %s", what, tide_message(b->tide));
}

static void bed_open(Bed *b, int row)
{
    TidePlan *keep = NULL;

    *b = (Bed){ 0 };
    cr_assert(!tide_open(test_device(), (TideDeviceOptions){ .threads = 2 }, &b->tide), "%s",
              tide_message(b->tide));
    check(b, model_new(b->tide, small_model(row), &b->model), "model");
    check(b, tide_profile_guess(b->model->program, &b->profile), "profile");
    check(b, tide_plan_make(b->model->program, b->profile, (TideBudget){ 0 }, &keep, NULL), "keep");
    b->stats = tide_plan_stats(keep);
    tide_plan_free(keep);
}

static void bed_close(Bed *b)
{
    tide_profile_free(b->profile);
    model_free(b->model);
    tide_close(b->tide);
}

static void budgets_between(TideBudget *budgets, size_t low, size_t high)
{
    for (int i = 0; i < N_BUDGETS; i++)
        budgets[i] =
            (TideBudget){ .device_bytes = low + (size_t)((double)(high - low) * i / (N_BUDGETS - 1)) };
}

/* Run two steps and compare what was touched and moved with the plan. */
static void touches_what_it_planned(const Bed *b, const TidePlan *plan, size_t budget)
{
    TrainResult got;
    TidePlanStats s = tide_plan_stats(plan);

    check(b, train_plan(b->model, plan, (TrainOptions){ .steps = 2 }, &got), "run");
    cr_expect(touched_as_planned(got.stats.arena_bytes, s.device_bytes),
              "budget %zu: %zu bytes touched, %zu planned", budget, got.stats.arena_bytes, s.device_bytes);
    cr_expect_leq(got.stats.arena_bytes, budget);
    cr_expect_leq(got.stats.host_bytes, s.host_bytes);
}

ParameterizedTestParameters(budget, sweep)
{
    static int row[N_MODELS];
    for (int i = 0; i < N_MODELS; i++) row[i] = i;
    return cr_make_param_array(int, row, N_MODELS);
}

ParameterizedTest(int *row, budget, sweep)
{
    Bed b;
    TideBudget budgets[N_BUDGETS];
    TidePlan *plans[N_BUDGETS] = { NULL };
    double last = 0;

    bed_open(&b, *row);
    budgets_between(budgets, b.stats.least_bytes, b.stats.keep_bytes);
    check(&b, tide_plan_sweep(b.model->program, b.profile, budgets, N_BUDGETS, plans), "sweep");
    for (int i = 0; i < N_BUDGETS; i++) {
        cr_assert(plans[i], "no plan for budget %zu though the least is %zu", budgets[i].device_bytes,
                  b.stats.least_bytes);
        TidePlanStats s = tide_plan_stats(plans[i]);
        check(&b, tide_plan_check(b.model->program, plans[i]), "check");
        cr_expect_leq(s.device_bytes, budgets[i].device_bytes);
        cr_expect_geq(s.device_bytes, s.live_bytes, "an arena of %zu cannot hold %zu", s.device_bytes,
                      s.live_bytes);
        if (i)
            cr_expect_leq(s.seconds, last, "budget %zu: %.9g s, a smaller budget %.9g s",
                          budgets[i].device_bytes, s.seconds, last);
        if (i % RUN_EVERY == 0) touches_what_it_planned(&b, plans[i], budgets[i].device_bytes);
        last = s.seconds;
        tide_plan_free(plans[i]);
    }
    bed_close(&b);
}

/* One byte less than the least has no plan, and the message says the least. */
ParameterizedTestParameters(budget, below_the_least)
{
    static int row[N_MODELS];
    for (int i = 0; i < N_MODELS; i++) row[i] = i;
    return cr_make_param_array(int, row, N_MODELS);
}

ParameterizedTest(int *row, budget, below_the_least)
{
    Bed b;
    TidePlan *plan = NULL;
    size_t least = 0;

    bed_open(&b, *row);
    TideBudget low = { .device_bytes = b.stats.least_bound_bytes - 1 };
    cr_assert_eq(tide_plan_make(b.model->program, b.profile, low, &plan, &least), TIDE_NO_PLAN);
    cr_expect_null(plan);
    cr_expect_eq(least, b.stats.least_bytes, "least is %zu here and %zu there", least, b.stats.least_bytes);
    check(&b, tide_plan_make(b.model->program, b.profile, (TideBudget){ .device_bytes = least }, &plan, NULL),
          "least");
    cr_expect_leq(tide_plan_stats(plan).device_bytes, least);
    tide_plan_free(plan);
    bed_close(&b);
}
