/* test_planner.c - plans of whole programs on the fake device: budgets, promises, messages. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/planner.h"
#include "tests/support/fake.h"
#include "tests/support/random_graph.h"

typedef struct Scene {
    Tide *tide;
    TideProgram *program;
    TideProfile *profile;
} Scene;

static Scene scene(uint64_t seed)
{
    Scene s = { .tide = fake_open() };

    cr_assert_not_null(s.tide);
    s.program = random_program(s.tide, (RandomSpec){ .seed = seed, .accumulate = seed % 3 == 0 });
    cr_assert_eq(tide_profile_guess(s.program, &s.profile), TIDE_OK, "%s", tide_message(s.tide));
    return s;
}

static void leave(Scene *s)
{
    tide_profile_free(s->profile);
    tide_program_free(s->program);
    tide_close(s->tide);
}

/* A plan that must be; proven by the checker and inside its budget. */
static TidePlan *plan_for(const Scene *s, TideBudget b, const char *what)
{
    TidePlan *plan = NULL;

    cr_assert_eq(tide_plan_make(s->program, s->profile, b, &plan, NULL), TIDE_OK, "%s: %s", what,
                 tide_message(s->tide));
    cr_assert_eq(tide_plan_check(s->program, plan), TIDE_OK, "%s: %s", what, tide_message(s->tide));
    cr_expect(tide_plan_stats(plan).checked);
    TidePlanStats st = tide_plan_stats(plan);
    if (b.device_bytes) cr_expect_leq(st.device_bytes, b.device_bytes, "%s", what);
    if (b.host_bytes) cr_expect_leq(st.host_bytes, b.host_bytes, "%s", what);
    cr_expect_leq(st.live_bytes, st.device_bytes, "%s", what);
    cr_expect_leq(st.least_bound_bytes, st.least_bytes, "%s", what);
    cr_expect_leq(st.least_bytes, st.device_bytes, "%s", what);
    cr_expect_gt(st.bound_seconds, 0, "%s", what);
    cr_expect_leq(st.bound_seconds, st.bound_lp_seconds, "%s", what);
    cr_expect_leq(st.bound_lp_seconds, st.seconds * (1 + 1e-9), "%s", what);
    return plan;
}

static TidePlanStats stats_of(const Scene *s)
{
    TidePlan *plan = plan_for(s, (TideBudget){ 0 }, "no limit");
    TidePlanStats st = tide_plan_stats(plan);

    tide_plan_free(plan);
    return st;
}

static size_t between(TidePlanStats st, int k, int n)
{
    return st.least_bytes + (st.keep_bytes - st.least_bytes) * (size_t)k / (size_t)n;
}

Test(planner, every_budget_from_least_to_keep_has_a_proven_plan, .timeout = 120)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        Scene s = scene(seed);
        TidePlanStats st = stats_of(&s);
        for (int k = 0; k <= 6; k++) {
            char what[64];
            snprintf(what, sizeof what, "seed %llu, budget %d/6", (unsigned long long)seed, k);
            tide_plan_free(plan_for(&s, (TideBudget){ .device_bytes = between(st, k, 6) }, what));
        }
        leave(&s);
    }
}

Test(planner, a_budget_that_keep_fits_keeps)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        Scene s = scene(seed);
        TidePlanStats st = stats_of(&s);
        TidePlan *plan = plan_for(&s, (TideBudget){ .device_bytes = st.keep_bytes }, "keep_bytes");
        TidePlanStats now = tide_plan_stats(plan);
        cr_expect_eq(now.fate[TIDE_RECOMPUTE].tensors + now.fate[TIDE_OFFLOAD].tensors, 0);
        cr_expect_eq(now.seconds, st.keep_seconds);
        tide_plan_free(plan);
        leave(&s);
    }
}

Test(planner, auto_is_never_slower_than_a_baseline, .timeout = 120)
{
    int compared = 0;

    for (uint64_t seed = 1; seed <= 30; seed++) {
        Scene s = scene(seed);
        TidePlanStats st = stats_of(&s);
        for (int k = 0; k < 5; k++) {
            TideBudget b = { .device_bytes = between(st, k, 5) };
            TidePlan *best = plan_for(&s, b, "auto"), *other = NULL;
            for (int p = TIDE_POLICY_KEEP; p < TIDE_POLICY_COUNT; p++) {
                b.policy = (TidePolicy)p;
                if (tide_plan_make(s.program, s.profile, b, &other, NULL)) continue;
                compared++;
                cr_expect_leq(tide_plan_stats(best).seconds, tide_plan_stats(other).seconds,
                              "seed %llu, %d/5: %s is faster", (unsigned long long)seed, k, policy_names[p]);
                tide_plan_free(other);
            }
            tide_plan_free(best);
        }
        leave(&s);
    }
    cr_expect_gt(compared, 100, "only %d comparisons", compared);
}

Test(planner, no_plan_names_the_least_and_the_least_has_one, .timeout = 120)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        Scene s = scene(seed);
        for (int p = 0; p < TIDE_POLICY_COUNT; p++) {
            TideBudget b = { .device_bytes = FAKE_ALIGNMENT, .policy = (TidePolicy)p };
            TidePlan *plan = NULL;
            size_t least = 0;
            char number[32];
            cr_assert_eq(tide_plan_make(s.program, s.profile, b, &plan, &least), TIDE_NO_PLAN);
            cr_expect_null(plan);
            snprintf(number, sizeof number, "%zu bytes", least);
            cr_expect_not_null(strstr(tide_message(s.tide), number), "%s", tide_message(s.tide));
            cr_expect_not_null(strstr(tide_message(s.tide), "set by node"), "%s", tide_message(s.tide));
            b.device_bytes = least;
            tide_plan_free(plan_for(&s, b, "the least"));
        }
        leave(&s);
    }
}

Test(planner, a_sweep_is_monotone, .timeout = 120)
{
    enum { N = 40 };

    for (uint64_t seed = 1; seed <= 12; seed++) {
        Scene s = scene(seed);
        TidePlanStats st = stats_of(&s);
        TideBudget b[N];
        TidePlan *plans[N];
        double before = 1e300;
        for (int i = 0; i < N; i++) b[i] = (TideBudget){ .device_bytes = between(st, i, N - 1) };
        cr_assert_eq(tide_plan_sweep(s.program, s.profile, b, N, plans), TIDE_OK);
        for (int i = 0; i < N; i++) {
            cr_assert_not_null(plans[i], "seed %llu: no plan %d", (unsigned long long)seed, i);
            cr_expect_eq(tide_plan_check(s.program, plans[i]), TIDE_OK, "%s", tide_message(s.tide));
            TidePlanStats now = tide_plan_stats(plans[i]);
            cr_expect_leq(now.device_bytes, b[i].device_bytes);
            cr_expect_leq(now.seconds, before, "seed %llu: more bytes, more seconds at %d",
                          (unsigned long long)seed, i);
            before = now.seconds;
            tide_plan_free(plans[i]);
        }
        leave(&s);
    }
}

static bool same_section(const Section *a, const Section *b)
{
    return a->n_slots == b->n_slots && a->n_steps == b->n_steps && a->n_args == b->n_args &&
           !memcmp(a->slots, b->slots, (size_t)a->n_slots * sizeof *a->slots) &&
           !memcmp(a->steps, b->steps, (size_t)a->n_steps * sizeof *a->steps) &&
           !memcmp(a->args, b->args, (size_t)a->n_args * sizeof *a->args);
}

Test(planner, the_same_question_gets_the_same_plan)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        Scene s = scene(seed);
        TideBudget b = { .device_bytes = between(stats_of(&s), 1, 3) };
        TidePlan *one = plan_for(&s, b, "once"), *two = plan_for(&s, b, "twice");
        cr_assert_eq(one->n_sections, two->n_sections);
        for (int i = 0; i < one->n_sections; i++)
            cr_expect(same_section(&one->sections[i], &two->sections[i]), "seed %llu, section %d differs",
                      (unsigned long long)seed, i);
        tide_plan_free(one);
        tide_plan_free(two);
        leave(&s);
    }
}

Test(planner, the_host_budget_holds, .timeout = 120)
{
    int moved = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        Scene s = scene(seed);
        TidePlanStats st = stats_of(&s);
        size_t stage = st.host_bytes; /* of a plan that offloads nothing */
        for (int k = 0; k < 4; k++) {
            TideBudget b = { .device_bytes = between(st, 2, 3), .host_bytes = stage + (size_t)k * 256 };
            TidePlan *plan = NULL;
            if (tide_plan_make(s.program, s.profile, b, &plan, NULL)) continue;
            cr_expect_leq(tide_plan_stats(plan).host_bytes, b.host_bytes);
            cr_expect_eq(tide_plan_check(s.program, plan), TIDE_OK);
            moved += tide_plan_stats(plan).fate[TIDE_OFFLOAD].tensors;
            tide_plan_free(plan);
        }
        TidePlan *plan = NULL;
        TideBudget none = { .host_bytes = stage > 1 ? stage - 1 : 1 };
        cr_expect_eq(tide_plan_make(s.program, s.profile, none, &plan, NULL), TIDE_NO_PLAN);
        cr_expect_not_null(strstr(tide_message(s.tide), "host budget"), "%s", tide_message(s.tide));
        leave(&s);
    }
    cr_expect_gt(moved, 0, "nothing was ever offloaded");
}

Test(planner, what_is_forbidden_is_not_done)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        Scene s = scene(seed);
        TidePlanStats st = stats_of(&s);
        for (int k = 0; k < 2; k++) {
            TideBudget b = { .device_bytes = between(st, 2, 3),
                             .no_recompute = k == 0,
                             .no_offload = k == 1 };
            TidePlan *plan = NULL;
            if (tide_plan_make(s.program, s.profile, b, &plan, NULL)) continue;
            cr_expect_eq(tide_plan_stats(plan).fate[k ? TIDE_OFFLOAD : TIDE_RECOMPUTE].tensors, 0);
            tide_plan_free(plan);
        }
        leave(&s);
    }
}

/* What can be forced is what a plan decides. */
static void expect_choices(const Scene *s, const TidePlan *plan)
{
    const TideProgram *p = s->program;
    int n = 0;

    for (int id = 1; id < p->n_tensors; id++)
        if (p->tensors[id]->graph == 0) n += tide_force(p->graphs[0], p->tensors[id]->name, TIDE_AUTO) != 0;
    cr_expect_eq(n, plan->n_decisions, "%d can be forced, %d are decided", n, plan->n_decisions);
}

Test(planner, forced_fates_are_obeyed)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        Scene s = scene(seed);
        TideGraph *g = s.program->graphs[0];
        TidePlan *plan = plan_for(&s, (TideBudget){ 0 }, "free");
        cr_assert_gt(plan->n_decisions, 0);
        const Tensor *t = s.program->tensors[plan->decisions[0].tensor];
        cr_expect_eq(tide_force(g, t->name, TIDE_OFFLOAD), 1);
        cr_expect_eq(tide_force(g, t->name, TIDE_OFFLOAD), 1, "twice the same is no contradiction");
        cr_expect_eq(tide_force(g, "*", TIDE_KEEP), -1, "a contradiction");
        cr_expect_eq(tide_force(g, "no such tensor", TIDE_KEEP), 0);
        TideTensor x = { plan->decisions[0].tensor };
        expect_choices(&s, plan);
        tide_plan_free(plan);
        plan = plan_for(&s, (TideBudget){ 0 }, "forced");
        cr_expect_eq(tide_plan_fate(plan, x), TIDE_OFFLOAD);
        cr_expect_eq(tide_plan_stats(plan).fate[TIDE_OFFLOAD].tensors, 1);
        tide_plan_free(plan);
        TideBudget b = { .no_offload = true };
        cr_expect_eq(tide_plan_make(s.program, s.profile, b, &plan, NULL), TIDE_BAD_GRAPH);
        cr_expect_not_null(strstr(tide_message(s.tide), "forced to offload"), "%s", tide_message(s.tide));
        leave(&s);
    }
}

/* Without any one of its waits, records or copies a plan is refused. */
Test(planner, nothing_is_synchronised_twice, .timeout = 120)
{
    int tried = 0;

    for (uint64_t seed = 1; seed <= 12; seed++) {
        Scene s = scene(seed);
        TidePlanStats st = stats_of(&s);
        for (int k = 0; k < 3; k++) {
            TidePlan *plan = plan_for(&s, (TideBudget){ .device_bytes = between(st, k, 3) }, "whole");
            Section *x = &plan->sections[0];
            for (int i = 0; i < x->n_steps; i++) {
                if (x->steps[i].kind == STEP_RUN) continue;
                Step gone = x->steps[i];
                size_t behind = (size_t)(x->n_steps - 1 - i) * sizeof gone;
                memmove(&x->steps[i], &x->steps[i + 1], behind);
                x->n_steps--;
                cr_expect_neq(tide_plan_check(s.program, plan), TIDE_OK,
                              "seed %llu: %s at step %d is not needed", (unsigned long long)seed,
                              step_names[gone.kind], i);
                memmove(&x->steps[i + 1], &x->steps[i], behind);
                x->steps[i] = gone;
                x->n_steps++;
                tried++;
            }
            tide_plan_free(plan);
        }
        leave(&s);
    }
    cr_expect_gt(tried, 200, "only %d deletions", tried);
}
