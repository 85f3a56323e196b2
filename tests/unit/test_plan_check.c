/* test_plan_check.c - good plans pass; each broken rule is found, and the message names it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "runtime/holding.h"
#include "tests/support/chain.h"
#include "tests/support/fake.h"
#include "tests/support/hand_plan.h"
#include "tests/support/random_graph.h"

/* ---- Good plans ------------------------------------------------------------ */

Test(plan_check, a_plan_with_everything_passes)
{
    Tide *t = fake_open();
    TideProgram *p = chain_program(t);
    TidePlan *plan = chain_plan(p);

    cr_assert_eq(plan->sections[0].n_steps, CHAIN_STEPS);
    cr_expect_eq(tide_plan_check(p, plan), TIDE_OK, "%s", tide_message(t));
    tide_plan_free(plan);
    tide_program_free(p);
    tide_close(t);
}

Test(plan_check, random_programs_with_everything_apart_pass)
{
    Tide *t = fake_open();

    for (uint64_t seed = 0; seed < 200; seed++) {
        TideProgram *p = random_program(t, (RandomSpec){ .seed = seed, .accumulate = seed % 3 == 0 });
        cr_assert_eq(tide_program_check(p), TIDE_OK, "seed %d: %s", (int)seed, tide_message(t));
        TidePlan *plan = hand_plan_everything(p);
        cr_expect_eq(tide_plan_check(p, plan), TIDE_OK, "seed %d: %s", (int)seed, tide_message(t));
        tide_plan_free(plan);
        tide_program_free(p);
    }
    tide_close(t);
}

/* ---- One thing wrong ------------------------------------------------------- */

/* Every step of these plans is needed: without any one of them they are refused. */
static void delete_each_step(TideProgram *p, const TidePlan *good, const char *what)
{
    Tide *t = tide_program_device(p);

    for (int s = 0; s < good->n_sections; s++)
        for (int i = 0; i < good->sections[s].n_steps; i++) {
            TidePlan *plan = hand_plan_copy(good);
            hand_delete_step(&plan->sections[s], i);
            cr_expect_eq(tide_plan_check(p, plan), TIDE_BAD_FILE, "%s: section %d passes without step %d",
                         what, s, i);
            cr_expect(strstr(tide_message(t), "section"), "%s", tide_message(t));
            tide_plan_free(plan);
        }
}

Test(plan_check, no_step_can_be_left_out)
{
    Tide *t = fake_open();
    TideProgram *p = chain_program(t);
    TidePlan *plan = chain_plan(p);

    delete_each_step(p, plan, "chain");
    tide_plan_free(plan);
    tide_program_free(p);
    for (uint64_t seed = 0; seed < 20; seed++) {
        p = random_program(t, (RandomSpec){ .seed = seed, .layers = 2, .width = 3 });
        plan = hand_plan_everything(p);
        delete_each_step(p, plan, "random");
        tide_plan_free(plan);
        tide_program_free(p);
    }
    tide_close(t);
}

static void swap_steps(Section *s, int a, int b)
{
    Step x = s->steps[a];

    s->steps[a] = s->steps[b];
    s->steps[b] = x;
}

/* ---- Persistent tensors ---------------------------------------------------- */

/* p (200 elements) and q (100) with gradients; micro writes both gradients and reads p and q,
 * update reads the gradients and writes the parameters, eval reads p. */
typedef struct Small {
    Tide *t;
    TideProgram *p;
    TidePlan *plan;
    TideTensor params, grads, pv, qv, pg, qg;
} Small;

enum { MICRO, UPDATE, EVAL };

static void small_graphs(Small *s, bool accumulate)
{
    FakeAttr attr = { .elements = 64 };

    tide_set_gradient(s->p, s->pv, s->pg, accumulate);
    tide_set_gradient(s->p, s->qv, s->qg, accumulate);
    TideGraph *g = tide_graph_new(s->p, "micro");
    TideTensor x = tide_input(g, "x", TIDE_F32, (TideShape){ 1, { 64 } });
    TideTensor dy = tide_input(g, "dy", TIDE_F32, (TideShape){ 1, { 64 } });
    TideTensor h = tide_name(g, fake_mix(g, (TideTensor[]){ x, s->pv }, 2, attr), "h");
    TideTensor y = tide_name(g, fake_mix(g, (TideTensor[]){ h, s->qv }, 2, attr), "y");
    tide_output(g, y);
    tide_backward(g, y, dy);
    fake_update(tide_graph_new(s->p, "update"), s->params, s->grads, accumulate);
    g = tide_graph_new(s->p, "eval");
    TideTensor ex = tide_input(g, "x", TIDE_F32, (TideShape){ 1, { 64 } });
    tide_output(g, tide_name(g, fake_mix(g, (TideTensor[]){ ex, s->pv }, 2, attr), "y"));
}

static Small small_new(bool accumulate)
{
    Small s = { .t = fake_open() };

    s.p = tide_program_new(s.t);
    s.params = tide_flat(s.p, "params", TIDE_PARAMETER, TIDE_F32);
    s.grads = tide_flat(s.p, "grads", TIDE_GRADIENT, TIDE_F32);
    s.pv = tide_flat_view(s.p, s.params, "p", (TideShape){ 1, { 200 } });
    s.qv = tide_flat_view(s.p, s.params, "q", (TideShape){ 1, { 100 } });
    s.pg = tide_flat_view(s.p, s.grads, "p.grad", (TideShape){ 1, { 200 } });
    s.qg = tide_flat_view(s.p, s.grads, "q.grad", (TideShape){ 1, { 100 } });
    small_graphs(&s, accumulate);
    s.plan = hand_plan_everything(s.p);
    cr_assert_eq(tide_plan_check(s.p, s.plan), TIDE_OK, "%s", tide_message(s.t));
    return s;
}

static void small_free(Small *s)
{
    tide_plan_free(s->plan);
    tide_program_free(s->p);
    tide_close(s->t);
}

/* The device slot of the tensor of that name in a section. */
static Slot *slot_named(Small *s, int section, const char *name)
{
    Section *sec = &s->plan->sections[section];

    for (int i = 0; i < sec->n_slots; i++)
        if (sec->slots[i].tensor && sec->slots[i].space == SPACE_DEVICE &&
            strcmp(tide_tensor_name(s->p, (TideTensor){ sec->slots[i].tensor }), name) == 0)
            return &sec->slots[i];
    cr_assert(false, "no slot of %s", name);
    return NULL;
}

static size_t home_offset(Small *s, TideTensor flat)
{
    for (int i = 0; i < s->plan->n_homes; i++)
        if (s->plan->homes[i].tensor == flat.id) return s->plan->homes[i].offset;
    cr_assert(false, "no home");
    return 0;
}

static void expect(Small *s, TideStatus status, const char *what, const char *word)
{
    cr_expect_eq(tide_plan_check(s->p, s->plan), status, "%s: %s", what, tide_message(s->t));
    if (status)
        cr_expect(strstr(tide_message(s->t), word), "%s: no '%s' in: %s", what, word, tide_message(s->t));
}

/* An input of eval may lie on any gradient, but not on the zeros between them. */
Test(plan_check, evaluation_may_use_gradients_but_no_padding)
{
    Small s = small_new(false);
    size_t grads = home_offset(&s, s.grads);
    Slot *x = slot_named(&s, EVAL, "x");

    for (size_t at = 0; at + 256 <= 1536; at += 64) { /* p.grad is [0, 800), q.grad [1024, 1424) */
        bool padding = (at + 256 > 800 && at < 1024) || at + 256 > 1424;
        x->offset = grads + at;
        if (padding)
            expect(&s, TIDE_BAD_FILE, "x over padding", "kept for grads");
        else
            expect(&s, TIDE_OK, "x over a gradient", "");
    }
    small_free(&s);
}

Test(plan_check, gradients_lend_their_bytes_until_they_are_written)
{
    Small s = small_new(false);
    size_t grads = home_offset(&s, s.grads);
    Slot *h = slot_named(&s, MICRO, "h"), *dh = slot_named(&s, MICRO, "y.back");
    size_t h_home = h->offset, dh_home = dh->offset;

    h->offset = grads + 1024; /* dh is the last to read it, before q.grad is written */
    expect(&s, TIDE_OK, "h over the gradient of q", "");
    h->offset = h_home;
    dh->offset = grads + 1024; /* but dh lives until p.grad is written */
    expect(&s, TIDE_BAD_FILE, "dh over the gradient of q", "(q.grad");
    dh->offset = grads;
    expect(&s, TIDE_BAD_FILE, "dh over the gradient that is made of it", "(p.grad");
    dh->offset = dh_home;
    expect(&s, TIDE_OK, "all as it was", "");
    small_free(&s);
}

Test(plan_check, gradients_that_accumulate_lend_nothing)
{
    Small s = small_new(true);
    Slot *ex = slot_named(&s, EVAL, "x");

    ex->offset = home_offset(&s, s.grads);
    expect(&s, TIDE_BAD_FILE, "eval x over a gradient", "p.grad");
    small_free(&s);
}

Test(plan_check, parameters_lend_nothing_even_where_unused)
{
    Small s = small_new(false);
    Slot *ex = slot_named(&s, EVAL, "x");

    ex->offset = home_offset(&s, s.params) + 1024; /* q, which eval does not use */
    expect(&s, TIDE_BAD_FILE, "eval x over q", "kept for q");
    ex->offset = home_offset(&s, s.params);
    expect(&s, TIDE_BAD_FILE, "eval x over p", "(p,");
    small_free(&s);
}

Test(plan_check, homes_are_kept)
{
    Small s = small_new(false);
    Slot *q = slot_named(&s, MICRO, "q");
    Home *h = s.plan->homes, saved = h[0];

    q->offset += 64;
    expect(&s, TIDE_BAD_FILE, "a view away from home", "must lie at 1024");
    q->offset -= 64;
    h[0].offset = h[1].offset;
    expect(&s, TIDE_BAD_FILE, "homes overlap", "overlap");
    h[0] = saved;
    h[0].bytes -= 64;
    expect(&s, TIDE_BAD_FILE, "home too small", "1536");
    h[0] = saved;
    h[0].tensor = s.qv.id;
    expect(&s, TIDE_BAD_FILE, "home of a view", "no flat");
    h[0].tensor = 1000;
    expect(&s, TIDE_BAD_FILE, "home of no tensor", "tensor 1000");
    h[0] = h[1];
    expect(&s, TIDE_BAD_FILE, "two homes", "two homes");
    h[0] = saved;
    h[0].offset = SIZE_MAX - 63;
    expect(&s, TIDE_BAD_FILE, "home far away", "leaves the device arena");
    h[0] = saved;
    h[0].space = SPACE_STAGE;
    expect(&s, TIDE_BAD_FILE, "home in staging memory", "must be on the device or the host");
    h[0] = saved;
    s.plan->n_homes--;
    expect(&s, TIDE_BAD_FILE, "no home", "has no home");
    s.plan->n_homes++;
    expect(&s, TIDE_OK, "all as it was", "");
    small_free(&s);
}

Test(plan_check, an_update_runs_once)
{
    Small s = small_new(false);
    Section *u = &s.plan->sections[UPDATE];
    int args[5];

    memcpy(args, u->args, sizeof args);
    hand_run(s.plan, UPDATE, 0, args, 5);
    expect(&s, TIDE_BAD_FILE, "update twice", "exactly once");
    u->n_steps = 0;
    expect(&s, TIDE_BAD_FILE, "update never", "never runs");
    small_free(&s);
}

Test(plan_check, sections_do_not_share_staging_memory)
{
    Small s = small_new(false);
    Section *e = &s.plan->sections[EVAL];

    for (int i = 0; i < e->n_slots; i++)
        if (e->slots[i].space == SPACE_STAGE) e->slots[i].offset = i ? 256 : 0;
    expect(&s, TIDE_BAD_FILE, "eval stages where micro stages", "share staging memory");
    small_free(&s);
}

/* Chains: the second writer of a gradient adds to what the first left. */
Test(plan_check, a_chain_keeps_its_order)
{
    Tide *t = fake_open();
    TideProgram *p = tide_program_new(t);
    TideTensor params = tide_flat(p, "params", TIDE_PARAMETER, TIDE_F32);
    TideTensor grads = tide_flat(p, "grads", TIDE_GRADIENT, TIDE_F32);
    TideTensor w = tide_flat_view(p, params, "w", (TideShape){ 1, { 128 } });
    tide_set_gradient(p, w, tide_flat_view(p, grads, "w.grad", (TideShape){ 1, { 128 } }), false);
    TideGraph *g = tide_graph_new(p, "micro");
    TideTensor x = tide_input(g, "x", TIDE_F32, (TideShape){ 1, { 64 } });
    FakeAttr attr = { .elements = 64 };
    TideTensor h = fake_mix(g, (TideTensor[]){ x, w }, 2, attr),
               y = fake_mix(g, (TideTensor[]){ h, w }, 2, attr);
    tide_output(g, y);
    tide_backward(g, y, tide_input(g, "dy", TIDE_F32, (TideShape){ 1, { 64 } }));
    TidePlan *plan = hand_plan_everything(p);
    Section *s = &plan->sections[0];
    cr_assert_eq(tide_plan_check(p, plan), TIDE_OK, "%s", tide_message(t));

    int first = -1, second = -1;
    for (int i = 0; i < s->n_steps; i++) {
        if (s->steps[i].kind != STEP_RUN || g->nodes[s->steps[i].node]->op != &fake_ops[FAKE_PARAM]) continue;
        if (first < 0) first = i;
        second = i;
    }
    cr_assert_neq(first, second);
    cr_expect_eq(g->nodes[s->steps[second].node]->in[1].id, g->nodes[s->steps[second].node]->out[0].id);
    swap_steps(s, first, second);
    cr_expect_eq(tide_plan_check(p, plan), TIDE_BAD_FILE);
    swap_steps(s, first, second);
    int args[4];
    memcpy(args, &s->args[s->steps[second].first_arg], sizeof args);
    hand_run(plan, 0, s->steps[second].node, args, 4);
    cr_expect_eq(tide_plan_check(p, plan), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(t), "exactly once"), "%s", tide_message(t));
    tide_plan_free(plan);
    tide_program_free(p);
    tide_close(t);
}

/* ---- Beyond the plan --------------------------------------------------------- */

/* The checker reads lives from the graph by itself; they must be those of holding.h. */
Test(plan_check, lives_are_those_of_the_graph)
{
    Tide *t = fake_open();
    int checked = 0;

    for (uint64_t seed = 0; seed < 40; seed++) {
        TideProgram *p = random_program(t, (RandomSpec){ .seed = seed, .accumulate = seed % 2 });
        TidePlan *plan = hand_plan_everything(p);
        Pool pool = { 0 };
        for (int i = 0; i < plan->n_sections; i++) {
            Section *s = &plan->sections[i];
            const Holding *holding = graph_holding(p->graphs[i], &pool);
            int input = -1;
            cr_assert_not_null(holding);
            for (int k = 0; k < s->n_slots; k++)
                if (s->slots[k].space == SPACE_DEVICE && s->slots[k].tensor &&
                    p->tensors[s->slots[k].tensor]->kind == TIDE_INPUT)
                    input = k;
            /* The whole of a view, if it is long enough: an input may lie there just if it lives in no
             * part of the section; it is used from the first steps on. */
            for (int id = 1; id < p->n_tensors && input >= 0; id++) {
                const Tensor *v = p->tensors[id];
                if (!v->flat || v->kind != TIDE_GRADIENT || v->bytes < s->slots[input].bytes) continue;
                size_t offset = s->slots[input].offset;
                bool used = graph_producer(p->graphs[i], id) >= 0;
                bool lives = holding[id].live_in || (holding[id].live_out && !used);
                for (int h = 0; h < plan->n_homes; h++)
                    if (plan->homes[h].tensor == v->flat)
                        s->slots[input].offset = plan->homes[h].offset + v->flat_offset;
                bool passes = tide_plan_check(p, plan) == TIDE_OK;
                if (lives) cr_expect_not(passes, "seed %d: an input lies on %s", (int)seed, v->name);
                if (!lives && !used)
                    cr_expect(passes, "seed %d: %s: %s", (int)seed, v->name, tide_message(t));
                s->slots[input].offset = offset;
                checked++;
            }
        }
        pool_free(&pool);
        tide_plan_free(plan);
        tide_program_free(p);
    }
    cr_expect_gt(checked, 50);
    tide_close(t);
}

Test(plan_check, checking_takes_little_time)
{
    Tide *t = fake_open();
    TideProgram *p = random_program(t, (RandomSpec){ .seed = 5, .layers = 100, .width = 12 });
    TidePlan *plan = hand_plan_everything(p);
    struct timespec from, to;
    double best = 1;

    for (int i = 0; i < 5; i++) {
        clock_gettime(CLOCK_MONOTONIC, &from);
        cr_assert_eq(tide_plan_check(p, plan), TIDE_OK, "%s", tide_message(t));
        clock_gettime(CLOCK_MONOTONIC, &to);
        double seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
        if (seconds < best) best = seconds;
    }
    cr_log_info("%d steps, %d slots: %.2f ms", plan->sections[0].n_steps, plan->sections[0].n_slots,
                best * 1e3);
    cr_expect_lt(best, 0.5, "%d steps took %g s", plan->sections[0].n_steps, best);
    tide_plan_free(plan);
    tide_program_free(p);
    tide_close(t);
}

/* ---- Plans of the planner ---------------------------------------------------- */

/* A plan of p at a share of the way from the least device bytes of the policy to no limit. */
static TidePlan *planned(TideProgram *p, TidePolicy policy, double share)
{
    const char *message = tide_message(tide_program_device(p));
    TideBudget budget = { .policy = policy };
    TideProfile *f = NULL;
    TidePlan *plan = NULL;
    size_t least = 0;

    cr_assert_eq(tide_profile_guess(p, &f), TIDE_OK, "%s", message);
    cr_assert_eq(tide_plan_make(p, f, budget, &plan, &least), TIDE_OK, "%s", message);
    if (share < 1) {
        size_t most = tide_plan_stats(plan).device_bytes;
        tide_plan_free(plan);
        budget.device_bytes = 1;
        cr_assert_eq(tide_plan_make(p, f, budget, &plan, &least), TIDE_NO_PLAN);
        budget.device_bytes = least + (size_t)(share * (double)(most > least ? most - least : 0));
        cr_assert_eq(tide_plan_make(p, f, budget, &plan, &least), TIDE_OK, "%s", message);
    }
    tide_profile_free(f);
    return plan;
}

/* Steps of the planner carry nothing needless: no wait, record or copy can go. */
Test(plan_check, planned_steps_are_safe_and_all_needed)
{
    Tide *t = fake_open();
    int plans = 0, copies = 0, reruns = 0;

    for (uint64_t seed = 0; seed < 60; seed++) {
        TideProgram *p = random_program(t, (RandomSpec){ .seed = seed, .accumulate = seed % 3 == 0 });
        TidePolicy policy = (TidePolicy)(seed % TIDE_POLICY_COUNT);
        TidePlan *plan = planned(p, policy, 0.25 * (double)(seed % 5));
        TidePlanStats s = tide_plan_stats(plan);
        cr_expect_eq(tide_plan_check(p, plan), TIDE_OK, "seed %d: %s", (int)seed, tide_message(t));
        delete_each_step(p, plan, "planned");
        plans++;
        copies += s.fate[TIDE_OFFLOAD].tensors;
        reruns += s.fate[TIDE_RECOMPUTE].tensors;
        tide_plan_free(plan);
        tide_program_free(p);
    }
    cr_log_info("%d plans, %d tensors offloaded, %d recomputed", plans, copies, reruns);
    cr_expect(plans > 30 && copies > 10 && reruns > 10, "%d plans, %d copies, %d reruns", plans, copies,
              reruns);
    tide_close(t);
}
