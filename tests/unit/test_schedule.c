/* test_schedule.c - schedules, moments, exact scores and the search, on paper-sized numbers. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include "runtime/bound.h"
#include "runtime/search.h"
#include "tests/support/all_fates.h"
#include "tests/support/paper.h"

static Paper pp;
static Facts *facts;
static Evaluator *e;
static TideFate fates[PAPER_MOST];

static void begin(void)
{
    cr_assert_eq(facts_new(&pp.p, (Limits){ false, false }, &facts), TIDE_OK);
    cr_assert_eq(evaluator_new(facts, &e), TIDE_OK);
    for (int t = 0; t < PAPER_MOST; t++) fates[t] = TIDE_KEEP;
}

static void end(void)
{
    evaluator_free(e);
    facts_free(facts);
}

/* "0 1 2 1' ..." : nodes in the order of runs, re-runs with a prime. */
static const char *order(void)
{
    static char text[512];
    size_t n = 0;

    for (int at = 0; at < e->schedule->n_runs; at++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d%s", at ? " " : "", e->schedule->runs[at].node,
                              e->schedule->runs[at].rerun ? "'" : "");
    return text;
}

static void expect_order(const char *wanted)
{
    cr_expect_str_eq(order(), wanted, "runs are %s, not %s", order(), wanted);
}

/* Three activations of 10, 20, 40 bytes; forward 1, 2, 3 s, backward twice that. Nodes 0 1 2 | 3 4 5. The
 * input's byte and the gradients' bytes come on top. */
static int a[3];

static void chain(void)
{
    static const size_t bytes[] = { 10, 20, 40 };
    static const double seconds[] = { 1, 2, 3 };

    paper_open(&pp);
    paper_chain(&pp, (PaperChain){ 3, bytes, seconds }, a);
    begin();
}

Test(schedule, keep_takes_everything_at_the_turn)
{
    chain();
    Score s = evaluate(e, fates, SIZE_MAX);
    expect_order("0 1 2 3 4 5");
    cr_expect_eq(facts->n_choices, 3);
    cr_expect_eq(s.peak, 1 + 10 + 20 + 40 + 1, "peak %zu", s.peak);
    cr_expect_eq(s.peak_at, 3);
    cr_expect_float_eq(s.seconds, 0.1 + 18, 1e-9, "the input's copy takes 0.1 s; %g", s.seconds);
    end();
}

Test(schedule, recompute_runs_just_before_the_need_with_its_closure)
{
    chain();
    fates[a[1]] = fates[a[0]] = TIDE_RECOMPUTE;
    Score s = evaluate(e, fates, SIZE_MAX);
    expect_order("0 1 2 0' 1' 3 4 5"); /* node 3 needs a[1], which needs a[0] */
    cr_expect_float_eq(e->schedule->rerun_seconds, 3, 1e-9);
    cr_expect_float_eq(s.seconds, 0.1 + 18 + 3, 1e-9);
    cr_expect_eq(e->schedule->live[2], 1 + 20 + 40, "a[0] is gone while node 2 runs");
    end();
}

Test(schedule, two_outputs_come_back_in_one_run)
{
    paper_open(&pp);
    int x = paper_tensor(&pp, 1, TIDE_INPUT), y = paper_tensor(&pp, 10, TIDE_ACTIVATION),
        z = paper_tensor(&pp, 20, TIDE_ACTIVATION), g = paper_tensor(&pp, 1, TIDE_OTHER),
        h = paper_tensor(&pp, 1, TIDE_OTHER), w = paper_tensor(&pp, 5, TIDE_ACTIVATION);
    paper_node(&pp, (PaperNode){ 1, { x, -1 }, { y, z, w, -1 }, .phase = PHASE_FORWARD });
    paper_node(&pp, (PaperNode){ 1, { z, -1 }, { g, -1 }, .phase = PHASE_BACKWARD });
    paper_node(&pp, (PaperNode){ 1, { y, w, -1 }, { h, -1 }, .phase = PHASE_BACKWARD });
    begin();
    fates[y] = fates[z] = TIDE_RECOMPUTE;
    evaluate(e, fates, SIZE_MAX);
    expect_order("0 0' 1 2");
    cr_expect_eq(e->schedule->live[1], 1 + 10 + 20 + 5 + 5, "w is kept, and thrown away when made again");
    cr_expect_eq(e->schedule->live[2], 1 + 10 + 20 + 5 + 1 - 1 + 0, "then only what is needed stays");
    end();
}

/* y is made by node 0 in 9 s together with the statistic m, or again by node 1 from x and m in 1 s. */
static int x0, y0, m0;

static void pair(void)
{
    paper_open(&pp);
    x0 = paper_tensor(&pp, 3, TIDE_INPUT);
    y0 = paper_tensor(&pp, 10, TIDE_ACTIVATION);
    m0 = paper_tensor(&pp, 2, TIDE_ACTIVATION);
    int g = paper_tensor(&pp, 1, TIDE_OTHER);
    paper_node(&pp, (PaperNode){ 9, { x0, -1 }, { y0, m0, -1 }, .phase = PHASE_FORWARD });
    paper_node(&pp, (PaperNode){ 1, { x0, m0, -1 }, { y0, -1 }, .phase = PHASE_FORWARD, .again = true });
    paper_node(&pp, (PaperNode){ 1, { y0, m0, -1 }, { g, -1 }, .phase = PHASE_BACKWARD });
    begin();
}

Test(schedule, the_cheaper_producer_makes_it_again)
{
    pair();
    fates[y0] = TIDE_RECOMPUTE;
    evaluate(e, fates, SIZE_MAX);
    expect_order("0 1' 2");
    cr_expect_float_eq(e->schedule->rerun_seconds, 1, 1e-9);
    end();
}

Test(schedule, the_first_producer_makes_both_again)
{
    pair();
    fates[y0] = fates[m0] = TIDE_RECOMPUTE;
    evaluate(e, fates, SIZE_MAX);
    expect_order("0 0' 2");
    end();
}

/* p is used in the forward phase only, so it has no fate; but q, made from it, has. */
Test(schedule, what_only_forward_used_is_made_again_too)
{
    paper_open(&pp);
    int x = paper_tensor(&pp, 1, TIDE_INPUT), p = paper_tensor(&pp, 7, TIDE_ACTIVATION),
        q = paper_tensor(&pp, 9, TIDE_ACTIVATION), g = paper_tensor(&pp, 1, TIDE_OTHER);
    paper_node(&pp, (PaperNode){ 1, { x, -1 }, { p, -1 }, .phase = PHASE_FORWARD });
    paper_node(&pp, (PaperNode){ 1, { p, -1 }, { q, -1 }, .phase = PHASE_FORWARD });
    paper_node(&pp, (PaperNode){ 1, { q, -1 }, { g, -1 }, .phase = PHASE_BACKWARD });
    begin();
    cr_expect_eq(facts->n_choices, 1);
    fates[q] = TIDE_RECOMPUTE;
    evaluate(e, fates, SIZE_MAX);
    expect_order("0 1 0' 1' 2");
    end();
}

/* The same, but p's producer runs once: then p stays until q is made again. */
Test(schedule, what_cannot_be_made_again_stays)
{
    paper_open(&pp);
    int x = paper_tensor(&pp, 1, TIDE_INPUT), p = paper_tensor(&pp, 7, TIDE_ACTIVATION),
        q = paper_tensor(&pp, 9, TIDE_ACTIVATION), g = paper_tensor(&pp, 1, TIDE_OTHER);
    paper_node(&pp, (PaperNode){ 1, { x, -1 }, { p, -1 }, .phase = PHASE_FORWARD, .once = true });
    paper_node(&pp, (PaperNode){ 1, { p, -1 }, { q, -1 }, .phase = PHASE_FORWARD });
    paper_node(&pp, (PaperNode){ 1, { g, -1 }, { g, -1 }, .phase = PHASE_BACKWARD });
    paper_node(&pp, (PaperNode){ 1, { q, g, -1 }, { g, -1 }, .phase = PHASE_BACKWARD });
    pp.tensors[g].input = true;
    begin();
    fates[q] = TIDE_RECOMPUTE;
    evaluate(e, fates, SIZE_MAX);
    expect_order("0 1 2 1' 3");
    cr_expect_eq(e->schedule->live[2], 1 + 7 + 9 - 9, "g is an input, p waits, q is gone; %zu",
                 e->schedule->live[2]);
    end();
}

Test(schedule, outputs_take_the_bytes_of_dying_inputs)
{
    for (int keep_input = 0; keep_input < 2; keep_input++) {
        paper_open(&pp);
        int x = paper_tensor(&pp, 1, TIDE_INPUT), p = paper_tensor(&pp, 8, TIDE_ACTIVATION),
            q = paper_tensor(&pp, 8, TIDE_ACTIVATION), g = paper_tensor(&pp, 1, TIDE_OTHER);
        paper_node(&pp, (PaperNode){ 1, { x, -1 }, { p, -1 }, .phase = PHASE_FORWARD });
        paper_node(&pp, (PaperNode){ 1, { p, -1 }, { q, -1 }, .phase = PHASE_FORWARD, .in_place = true });
        paper_node(&pp, (PaperNode){ 1, { q, keep_input ? p : -1, -1 }, { g, -1 }, .phase = PHASE_BACKWARD });
        begin();
        evaluate(e, fates, SIZE_MAX);
        cr_expect_eq(e->schedule->live[1], keep_input ? 16 : 8, "x is dead; %zu", e->schedule->live[1]);
        end();
    }
}

/* a[0], 10 bytes: out in 1 s from 1.1 on, in in 1 s; node 4 needs it at 12.1. Nothing waits. */
Test(moments, an_offload_hides_behind_runs)
{
    chain();
    fates[a[0]] = TIDE_OFFLOAD;
    Score s = evaluate(e, fates, SIZE_MAX);
    cr_expect_float_eq(s.seconds, 18.1, 1e-9, "%g", s.seconds);
    cr_expect_eq(s.host_bytes, 10);
    cr_expect_eq(e->schedule->live[2], 1 + 20 + 40, "gone while node 2 runs");
    end();
}

/* At 1 byte a second a[1] leaves in 20 s from 3.1 to 23.1 and returns at 43.1, instead of being there at
 * 6.1, when node 3 wants it: 37 s of stall. */
Test(moments, a_slow_link_stalls_exactly)
{
    chain();
    pp.p.link = (Link){ 1, 1, 1, 0 };
    end();
    begin();
    fates[a[1]] = TIDE_OFFLOAD;
    Score s = evaluate(e, fates, SIZE_MAX);
    cr_expect_float_eq(s.seconds, 1 + 18 + 37, 1e-9, "%g", s.seconds); /* the input comes at 1 byte/s, too */
    end();
}

/* Node 2 reads a[1] until 6.1, and node 3 wants it right then: it comes back 2 s later. */
Test(moments, what_is_needed_at_once_is_waited_for)
{
    chain();
    fates[a[0]] = TIDE_RECOMPUTE;
    fates[a[1]] = TIDE_OFFLOAD;
    Score loose = evaluate(e, fates, SIZE_MAX);
    cr_expect_float_eq(loose.seconds, 0.1 + 18 + 1 + 2, 1e-9, "%g", loose.seconds);
    end();
}

/* a[0] leaves from 1.1 to 11.1, at 1 byte a second, while nodes 1 and 2 have 20 and 40 bytes there. With
 * room for all it stays until then, that is, beside node 3, which runs from 6.1 to 12.1; then it comes
 * back in 1 s for node 4. With 62 bytes node 2 waits for the copy from 3.1 to 11.1, and the copy back
 * finds no room beside node 3 either. */
Test(moments, a_limit_makes_runs_wait_for_copies)
{
    chain();
    pp.p.link = (Link){ 1, 10, 10, 0 };
    end();
    begin();
    fates[a[0]] = TIDE_OFFLOAD;
    Score loose = evaluate(e, fates, 72), tight = evaluate(e, fates, 62);
    cr_expect_float_eq(loose.seconds, 18.1 + 1, 1e-9, "%g", loose.seconds);
    cr_expect_float_eq(tight.seconds, 18.1 + 8 + 1, 1e-9, "%g", tight.seconds);
    cr_expect_eq(e->schedule->live[2], 1 + 20 + 40);
    end();
}

/* Whatever the limit, a tighter one never makes a schedule that takes more, nor a faster one. */
Test(moments, tighter_is_slower_and_smaller)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        paper_random(&pp, seed);
        pp.p.link.duplex = 0; /* one speed whatever the other lane does */
        begin();
        for (int i = 0; i < facts->n_choices; i++) fates[facts->choices[i]] = TIDE_OFFLOAD;
        size_t peak = evaluate(e, fates, SIZE_MAX).peak, least = evaluate(e, fates, 0).peak;
        for (size_t limit = least; limit <= peak; limit++) {
            Score s = evaluate(e, fates, limit);
            cr_expect_leq(s.peak, limit, "seed %llu: peak %zu above %zu", (unsigned long long)seed, s.peak,
                          limit);
            cr_expect_eq(s.excess, 0);
            cr_expect_geq(s.seconds, evaluate_freely(e) - 1e-9, "seed %llu: below what any placement takes",
                          (unsigned long long)seed);
        }
        end();
    }
}

/* ---- Search against all there is ------------------------------------------- */

typedef struct Best {
    double seconds;
    size_t least;
} Best;

/* Every legal combination of fates: the fastest that fits, and the least peak. */
static Best brute_force(size_t limit)
{
    Best best = { INFINITY, SIZE_MAX };

    for (int number = 0; number < all_fates_count(facts); number++) {
        if (!all_fates_take(facts, number, fates)) continue;
        size_t peak = evaluate(e, fates, 0).peak;
        if (peak < best.least) best.least = peak;
        Score s = evaluate(e, fates, limit);
        if (s.excess <= 0 && s.seconds < best.seconds) best.seconds = s.seconds;
    }
    return best;
}

static size_t lower_bound(void)
{
    LeastBytes least;

    cr_assert_eq(least_bound(facts, &least), TIDE_OK);
    return least.bytes;
}

/* The search finds something wherever something is, nearly; and nearly the best of it. */
Test(search, comes_close_to_brute_force, .timeout = 120)
{
    int cases = 0, missed = 0;
    double excess = 0;

    for (uint64_t seed = 1; seed <= 150; seed++) {
        paper_random(&pp, seed);
        begin();
        size_t keep = evaluate(e, fates, SIZE_MAX).peak, bound = lower_bound();
        for (int k = 0; k < 4; k++) {
            size_t limit = bound + (keep - bound) * (size_t)k / 4;
            Best best = brute_force(limit);
            cr_expect_leq(bound, best.least, "seed %llu: a peak below the proven bound",
                          (unsigned long long)seed);
            if (isinf(best.seconds)) continue;
            for (int t = 0; t < PAPER_MOST; t++) fates[t] = TIDE_KEEP;
            search_fates(&(Question){ e, limit, SIZE_MAX, 300 }, fates);
            Score s = evaluate(e, fates, limit);
            cases++;
            missed += s.excess > 0;
            if (s.excess > 0) continue;
            cr_expect_geq(s.seconds, best.seconds - 1e-9, "seed %llu: faster than all there is",
                          (unsigned long long)seed);
            excess += s.seconds / best.seconds - 1;
        }
        end();
    }
    printf("%d cases: %d missed, on average %.3f %% over the best\n", cases, missed,
           100 * excess / (cases - missed));
    cr_expect_gt(cases, 200);
    cr_expect_leq(missed, cases / 20, "%d of %d missed", missed, cases);
    cr_expect_leq(excess / (cases - missed), 0.02);
}

/* a[0] costs 1 s for 10 bytes, a[1] 2 s (and a[0] is there) for 20, a[2] 3 s for 40: the cheapest by
 * the byte is a[2], but it is needed at the turn, where memory binds; a[0] goes first, by its number. */
Test(search, sheds_the_cheapest_byte_first)
{
    chain();
    pp.p.link.out = pp.p.link.in = 0; /* no way out but recomputing */
    end();
    begin();
    search_fates(&(Question){ e, 71, SIZE_MAX, 0 }, fates);
    cr_expect_eq(fates[a[0]], TIDE_RECOMPUTE);
    cr_expect_eq(fates[a[1]], TIDE_KEEP);
    cr_expect_eq(fates[a[2]], TIDE_KEEP);
    end();
}

/* a[0] finds no room beside node 3 and is back half a second late; making it again takes a second. */
Test(search, an_idle_link_is_cheaper_than_running_again)
{
    chain();
    pp.p.link = (Link){ 20, 20, 20, 0 };
    end();
    begin();
    search_fates(&(Question){ e, 71, SIZE_MAX, 100 }, fates);
    Score s = evaluate(e, fates, 71);
    cr_expect_eq(fates[a[0]], TIDE_OFFLOAD);
    cr_expect_float_eq(s.seconds, 0.05 + 18 + 0.5, 1e-9, "%g s", s.seconds);
    end();
}

Test(search, the_host_limit_holds)
{
    chain();
    search_fates(&(Question){ e, 71, 9, 100 }, fates);
    Score s = evaluate(e, fates, 71);
    cr_expect_eq(s.host_bytes, 0, "a[0] has 10 bytes");
    cr_expect_eq(s.excess, 0);
    end();
}

Test(search, forced_fates_are_obeyed)
{
    chain();
    pp.tensors[a[0]].forced = TIDE_KEEP;
    pp.tensors[a[1]].forced = TIDE_RECOMPUTE;
    baseline_fates(facts, TIDE_POLICY_KEEP, fates);
    search_fates(&(Question){ e, 30, SIZE_MAX, 100 }, fates);
    cr_expect_eq(fates[a[0]], TIDE_KEEP);
    cr_expect_eq(fates[a[1]], TIDE_RECOMPUTE);
    end();
}

/* Layers 0 1 2 of one tensor each: all cross but the last; it is made again. */
Test(baselines, keep_what_crosses)
{
    chain();
    baseline_fates(facts, TIDE_POLICY_RECOMPUTE, fates);
    cr_expect_eq(fates[a[0]], TIDE_KEEP);
    cr_expect_eq(fates[a[1]], TIDE_KEEP);
    cr_expect_eq(fates[a[2]], TIDE_RECOMPUTE);
    baseline_fates(facts, TIDE_POLICY_SQRT, fates); /* segments of two layers */
    cr_expect_eq(fates[a[0]], TIDE_RECOMPUTE);
    cr_expect_eq(fates[a[1]], TIDE_KEEP);
    baseline_fates(facts, TIDE_POLICY_OFFLOAD_INPUTS, fates);
    cr_expect_eq(fates[a[0]], TIDE_OFFLOAD);
    cr_expect_eq(fates[a[2]], TIDE_RECOMPUTE);
    baseline_fates(facts, TIDE_POLICY_OFFLOAD, fates);
    for (int i = 0; i < 3; i++) cr_expect_eq(fates[a[i]], TIDE_OFFLOAD);
    end();
}
