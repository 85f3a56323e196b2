/* test_plan_check.c - good plans pass; each broken rule is found, and the message names it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
            cr_expect_eq(tide_plan_check(p, plan), TIDE_BAD_FILE, "%s: section %d passes without step %d", what, s, i);
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

/* Changes to the plan of chain.h, and words that the message must have. */
typedef struct Wrong {
    const char *name;
    void      (*change)(TidePlan *plan, Section *s);
    const char *words[3];
} Wrong;

static void swap_steps(Section *s, int a, int b)
{
    Step x = s->steps[a];

    s->steps[a] = s->steps[b];
    s->steps[b] = x;
}

static int *arg(Section *s, int step, int i) { return &s->args[s->steps[step].first_arg + i]; }

static void program_hash_differs(TidePlan *p, Section *s) { (void)s, p->program_hash ^= 1; }
static void numerics_hash_differs(TidePlan *p, Section *s) { (void)s, p->numerics_hash ^= 1; }
static void section_of_no_graph(TidePlan *p, Section *s) { (void)p, s->graph = 7; }
static void offsets_swapped(TidePlan *p, Section *s)
{
    (void)p;
    s->slots[CHAIN_A].offset = 2048;
    s->slots[CHAIN_B].offset = 1024;
}
static void slot_too_small(TidePlan *p, Section *s) { (void)p, s->slots[CHAIN_D].bytes = 960; }
static void slot_unaligned(TidePlan *p, Section *s) { (void)p, s->slots[CHAIN_A2].offset += 32; }
static void slot_beyond_the_end(TidePlan *p, Section *s) { (void)p, s->slots[CHAIN_A2].offset += 64; }
static void offset_wraps(TidePlan *p, Section *s) { (void)p, s->slots[CHAIN_C].offset = SIZE_MAX - 63; }
static void bytes_wrap(TidePlan *p, Section *s) { (void)p, s->slots[CHAIN_C].bytes = SIZE_MAX - 1000; }
static void arena_too_small(TidePlan *p, Section *s) { (void)s, p->arena_bytes[SPACE_DEVICE]--; }
static void host_arena_too_small(TidePlan *p, Section *s) { (void)s, p->arena_bytes[SPACE_HOST] = 512; }
static void stage_arena_missing(TidePlan *p, Section *s) { (void)s, p->arena_bytes[SPACE_STAGE] = 0; }
static void tensor_too_high(TidePlan *p, Section *s) { (void)p, s->slots[CHAIN_B].tensor = 8; }
static void tensor_negative(TidePlan *p, Section *s) { (void)p, s->slots[CHAIN_B].tensor = -1; }
static void space_unknown(TidePlan *p, Section *s) { (void)p, s->slots[CHAIN_B].space = SPACE_COUNT; }
static void stage_of_activation(TidePlan *p, Section *s) { (void)p, s->slots[CHAIN_AH].space = SPACE_STAGE; }
static void wrong_tensor(TidePlan *p, Section *s) { (void)p, *arg(s, 18, 1) = CHAIN_C; }
static void stale_copy(TidePlan *p, Section *s) { (void)p, *arg(s, 18, 1) = CHAIN_A; }
static void slot_before_written(TidePlan *p, Section *s) { (void)p, *arg(s, 10, 0) = CHAIN_A2; }
static void slot_index_high(TidePlan *p, Section *s) { (void)p, *arg(s, 12, 1) = CHAIN_SLOTS; }
static void slot_index_negative(TidePlan *p, Section *s) { (void)p, *arg(s, 12, 0) = -2; }
static void input_left_out(TidePlan *p, Section *s) { (void)p, *arg(s, 12, 0) = -1; }
static void scratch_is_a_tensor(TidePlan *p, Section *s) { (void)p, *arg(s, 12, 2) = CHAIN_A2; }
static void arguments_beyond(TidePlan *p, Section *s) { (void)p, s->steps[20].first_arg = s->n_args - 3; }
static void arguments_negative(TidePlan *p, Section *s) { (void)p, s->steps[20].first_arg = -1; }
static void arguments_huge(TidePlan *p, Section *s) { (void)p, s->steps[20].first_arg = INT32_MAX; }
static void host_slot_for_a_run(TidePlan *p, Section *s) { (void)p, *arg(s, 18, 1) = CHAIN_AH; }
static void node_unknown(TidePlan *p, Section *s) { (void)p, s->steps[5].node = 6; }
static void node_negative(TidePlan *p, Section *s) { (void)p, s->steps[5].node = -1; }
static void run_on_copy_lane(TidePlan *p, Section *s) { (void)p, s->steps[12].lane = LANE_IN; }
static void lane_unknown(TidePlan *p, Section *s) { (void)p, s->steps[8].lane = LANE_COUNT; }
static void kind_unknown(TidePlan *p, Section *s) { (void)p, s->steps[8].kind = STEP_KIND_COUNT; }
static void copy_within_device(TidePlan *p, Section *s) { (void)p, s->steps[8].dst = CHAIN_A2; }
static void copy_of_another(TidePlan *p, Section *s) { (void)p, s->steps[8].src = CHAIN_B; }
static void copy_index_high(TidePlan *p, Section *s) { (void)p, s->steps[8].dst = 1 << 30; }
static void copy_index_negative(TidePlan *p, Section *s) { (void)p, s->steps[8].src = -1; }
static void event_unknown(TidePlan *p, Section *s) { (void)p, s->steps[7].event = s->n_events; }
static void event_negative(TidePlan *p, Section *s) { (void)p, s->steps[7].event = -1; }
static void events_more_than_steps(TidePlan *p, Section *s) { (void)p, s->n_events = INT32_MAX; }
static void event_never_recorded(TidePlan *p, Section *s) { (void)p, s->n_events++; }
static void event_recorded_twice(TidePlan *p, Section *s) { (void)p, s->steps[15].event = s->steps[9].event; }
static void wait_before_record(TidePlan *p, Section *s) { (void)p, swap_steps(s, 6, 7); }
static void nodes_out_of_order(TidePlan *p, Section *s) { (void)p, swap_steps(s, 12, 16); }
static void counts_negative(TidePlan *p, Section *s) { (void)p, s->n_slots = -1; }
static void in_place_elsewhere(TidePlan *p, Section *s)
{
    p->arena_bytes[SPACE_DEVICE] += 4096;
    s->slots[CHAIN_E].offset = 4096;
    s->slots[CHAIN_F].offset = 4096 + 64;
}
static void over_the_wrong_input(TidePlan *p, Section *s) { (void)p, s->slots[CHAIN_F].offset = 2048; }
static void stage_shared(TidePlan *p, Section *s) { (void)p, s->slots[CHAIN_FS].offset = 0; }
static void stage_twice(TidePlan *p, Section *s) { (void)p, s->slots[CHAIN_FS] = s->slots[CHAIN_XS]; }
static void fetched_too_early(TidePlan *p, Section *s)
{
    (void)p;
    s->slots[CHAIN_A2].offset = 2048; /* where b still lies when the copy may run */
    s->slots[CHAIN_B2].offset = 3072;
}
static void decision_of_no_tensor(TidePlan *p, Section *s)
{
    (void)s;
    cr_assert(hand_decorate(p));
    p->decisions[1].tensor = 99;
}

static const Wrong wrongs[] = {
    { "program hash", program_hash_differs, { "made for program", "plan anew" } },
    { "numerics hash", numerics_hash_differs, { "made for numerics", "plan anew" } },
    { "section of no graph", section_of_no_graph, { "graph 7" } },
    { "offsets swapped", offsets_swapped, { "share 1024 bytes at 1024" } },
    { "slot too small", slot_too_small, { "slot 4 (d, 960 bytes", "1024 bytes" } },
    { "slot unaligned", slot_unaligned, { "slot 5 (a, 1024 bytes at 3104" } },
    { "slot beyond the end", slot_beyond_the_end, { "slot 5", "leaves its arena of 4096" } },
    { "offset wraps", offset_wraps, { "slot 3", "leaves its arena" } },
    { "bytes wrap", bytes_wrap, { "slot 3", "leaves its arena" } },
    { "arena too small", arena_too_small, { "slot 5", "4095" } },
    { "host arena too small", host_arena_too_small, { "slot 9", "host", "512" } },
    { "stage arena missing", stage_arena_missing, { "slot 10", "stage" } },
    { "tensor too high", tensor_too_high, { "slot 2 holds tensor 8", "1 to 7" } },
    { "tensor negative", tensor_negative, { "slot 2 holds tensor -1" } },
    { "space unknown", space_unknown, { "slot 2 lies in space 3" } },
    { "stage of an activation", stage_of_activation, { "slot 9", "neither an input nor an output" } },
    { "wrong tensor", wrong_tensor, { "step 18 (run e", "tensor 2 (a)", "slot 3 (c" } },
    { "stale copy", stale_copy, { "share 1024 bytes", "slot 1 (a", "is not over before" } },
    { "slot before written", slot_before_written, { "step 10 (run b", "slot 5 (a", "before anything was written" } },
    { "slot index high", slot_index_high, { "step 12", "slot 12 of 12" } },
    { "slot index negative", slot_index_negative, { "step 12", "slot -2" } },
    { "input left out", input_left_out, { "step 12", "slot -1" } },
    { "scratch is a tensor", scratch_is_a_tensor, { "step 12", "slot 5 (a", "scratch" } },
    { "arguments beyond", arguments_beyond, { "step 20 (run f", "4 arguments" } },
    { "arguments negative", arguments_negative, { "step 20 (run f", "from -1" } },
    { "arguments huge", arguments_huge, { "step 20", "from 2147483647" } },
    { "host slot for a run", host_slot_for_a_run, { "step 18", "slot 9", "not on the device" } },
    { "node unknown", node_unknown, { "step 5 runs node 6 of 6" } },
    { "node negative", node_negative, { "step 5 runs node -1" } },
    { "run on a copy lane", run_on_copy_lane, { "step 12 (run c, in)", "compute lane" } },
    { "lane unknown", lane_unknown, { "step 8 (copy) is on lane 3" } },
    { "kind unknown", kind_unknown, { "step 8 is of kind 4" } },
    { "copy within the device", copy_within_device, { "step 8", "between the device and the host" } },
    { "copy of another tensor", copy_of_another, { "step 8", "slot 2 (b", "slot 9 (a" } },
    { "copy index high", copy_index_high, { "step 8 copies slot 1 to slot 1073741824" } },
    { "copy index negative", copy_index_negative, { "step 8 copies slot -1" } },
    { "event unknown", event_unknown, { "step 7 (wait) names event 7 of 7" } },
    { "event negative", event_negative, { "step 7 (wait) names event -1" } },
    { "events more than steps", events_more_than_steps, { "2147483647 events", "26 steps" } },
    { "event never recorded", event_never_recorded, { "event 7 of 8 is never recorded" } },
    { "event recorded twice", event_recorded_twice, { "step 15", "step 9" } },
    { "wait before record", wait_before_record, { "step 6 (wait event 2, out)", "before the event is recorded" } },
    { "nodes out of order", nodes_out_of_order, { "step 12 (run d", "slot 3 (c", "before anything was written" } },
    { "counts negative", counts_negative, { "-1 slots" } },
    { "in place elsewhere", in_place_elsewhere, { "slot 6 (e", "slot 8 (f", "share 960 bytes at 4160" } },
    { "over the wrong input", over_the_wrong_input, { "slot 7 (b", "slot 8 (f", "share 1024 bytes" } },
    { "stage shared", stage_shared, { "slot 10 (x", "slot 11 (f", "share 1024 bytes at 0 of stage" } },
    { "stage twice", stage_twice, { "slot 11 (x", "slot 10" } },
    { "fetched too early", fetched_too_early, { "slot 2 (b", "slot 5 (a", "is not over before step 14" } },
    { "decision of no tensor", decision_of_no_tensor, { "decision 1", "tensor 99" } },
};

Test(plan_check, each_wrong_is_named)
{
    Tide *t = fake_open();
    TideProgram *p = chain_program(t);
    TidePlan *good = chain_plan(p);

    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const Wrong *w = &wrongs[i];
        TidePlan *plan = hand_plan_copy(good);
        int n_slots = plan->sections[0].n_slots;
        w->change(plan, &plan->sections[0]);
        cr_expect_eq(tide_plan_check(p, plan), TIDE_BAD_FILE, "%s: the plan passes", w->name);
        for (int k = 0; k < 3 && w->words[k]; k++)
            cr_expect(strstr(tide_message(t), w->words[k]), "%s: no '%s' in: %s", w->name, w->words[k], tide_message(t));
        plan->sections[0].n_slots = n_slots;
        tide_plan_free(plan);
    }
    tide_plan_free(good);
    tide_program_free(p);
    tide_close(t);
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
    if (status) cr_expect(strstr(tide_message(s->t), word), "%s: no '%s' in: %s", what, word, tide_message(s->t));
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
        if (padding) expect(&s, TIDE_BAD_FILE, "x over padding", "kept for grads");
        else expect(&s, TIDE_OK, "x over a gradient", "");
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
    TideTensor h = fake_mix(g, (TideTensor[]){ x, w }, 2, attr), y = fake_mix(g, (TideTensor[]){ h, w }, 2, attr);
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

/* The checker reads lives from the graph by itself; they must be those of graph.h. */
Test(plan_check, lives_are_those_of_the_graph)
{
    Tide *t = fake_open();
    int checked = 0;

    for (uint64_t seed = 0; seed < 40; seed++) {
        TideProgram *p = random_program(t, (RandomSpec){ .seed = seed, .accumulate = seed % 2 });
        TidePlan *plan = hand_plan_everything(p);
        for (int i = 0; i < plan->n_sections; i++) {
            Section *s = &plan->sections[i];
            int input = -1;
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
                bool lives = tensor_live_in(p->graphs[i], id) || (tensor_live_out(p->graphs[i], id) && !used);
                for (int h = 0; h < plan->n_homes; h++)
                    if (plan->homes[h].tensor == v->flat) s->slots[input].offset = plan->homes[h].offset + v->flat_offset;
                bool passes = tide_plan_check(p, plan) == TIDE_OK;
                if (lives) cr_expect_not(passes, "seed %d: an input lies on %s", (int)seed, v->name);
                if (!lives && !used) cr_expect(passes, "seed %d: %s: %s", (int)seed, v->name, tide_message(t));
                s->slots[input].offset = offset;
                checked++;
            }
        }
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
    cr_log_info("%d steps, %d slots: %.2f ms", plan->sections[0].n_steps, plan->sections[0].n_slots, best * 1e3);
    cr_expect_lt(best, 0.1, "%d steps took %g s", plan->sections[0].n_steps, best);
    tide_plan_free(plan);
    tide_program_free(p);
    tide_close(t);
}
