/* test_search.c - the search against what is known to be best. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/bound.h"
#include "runtime/search.h"
#include "tests/support/all_fates.h"
#include "tests/support/paper.h"

enum { ENOUGH = 1 << 16, LOCAL = 2000 }; /* evaluations: to try everything on paper; not to */

static Paper pp;
static Facts *facts;
static Evaluator *e;
static TideFate fates[PAPER_MOST];

static void begin(void)
{
    cr_assert_eq(facts_new(&pp.p, (Limits){ false, false }, &facts), TIDE_OK);
    cr_assert_eq(evaluator_new(facts, &e), TIDE_OK);
}

static void end(void)
{
    evaluator_free(e);
    facts_free(facts);
}

static Score search(size_t limit, size_t host_limit, long effort)
{
    for (int t = 0; t < PAPER_MOST; t++) fates[t] = TIDE_KEEP;
    search_fates(&(Question){ e, limit, host_limit, effort }, fates);
    return evaluate(e, fates, limit);
}

static size_t keep_peak(void)
{
    for (int t = 0; t < PAPER_MOST; t++) fates[t] = TIDE_KEEP;
    return evaluate(e, fates, SIZE_MAX).peak;
}

static size_t proven_least(void)
{
    LeastBytes least;

    cr_assert_eq(least_bound(facts, &least), TIDE_OK);
    return least.bytes;
}

/* ---- Everything ------------------------------------------------------------ */

/* The fewest seconds of all combinations of fates that fit; INFINITY: none does. */
static double fewest_seconds(size_t limit, size_t host_limit)
{
    double best = INFINITY;

    for (int number = 0; number < all_fates_count(facts); number++) {
        if (!all_fates_take(facts, number, fates)) continue;
        Score s = evaluate(e, fates, limit);
        if (s.excess <= 0 && s.host_bytes <= host_limit && s.seconds < best) best = s.seconds;
    }
    return best;
}

/* 2000 cases of few choices, where all is tried, are exact; local search alone is nearly so. */
Test(search, is_exact_where_choices_are_few, .timeout = 240)
{
    int cases = 0, missed = 0;
    double worst = 1, sum = 0;

    for (uint64_t seed = 1; seed <= 500; seed++) {
        paper_random(&pp, seed);
        begin();
        size_t keep = keep_peak(), bound = proven_least(), host = seed % 3 ? SIZE_MAX : keep / 4;
        for (int k = 0; k < 4; k++) {
            size_t limit = bound + (keep - bound) * (size_t)k / 4;
            double best = fewest_seconds(limit, host);
            Score s = search(limit, host, ENOUGH);
            if (isinf(best)) {
                cr_expect(s.excess > 0 || s.host_bytes > host);
                continue;
            }
            cr_expect_eq(s.excess, 0, "seed %llu: nothing found", (unsigned long long)seed);
            cr_expect_leq(s.host_bytes, host, "seed %llu", (unsigned long long)seed);
            cr_expect_float_eq(s.seconds, best, 1e-9 * best, "seed %llu: %g, not %g",
                               (unsigned long long)seed, s.seconds, best);
            Score local = search(limit, host, 200);
            cases++;
            missed += local.excess > 0 || local.host_bytes > host;
            if (local.excess > 0 || local.host_bytes > host) continue;
            if (local.seconds / best > worst) worst = local.seconds / best;
            sum += local.seconds / best - 1;
        }
        end();
    }
    printf("%d cases; with 200 evaluations: %d missed, on average %.3f %% over the best, at worst %.2f %%\n",
           cases, missed, 100 * sum / (cases - missed), 100 * (worst - 1));
    cr_expect_gt(cases, 1200);
    cr_expect_leq(missed, cases / 50);
    cr_expect_leq(sum / (cases - missed), 0.005);
}

/* ---- Knapsack -------------------------------------------------------------- */

enum { ITEMS = 8, LOSS = 200 };
static const size_t item_bytes[ITEMS] = { 0, 100, 100, 120, 0, 100, 0, 0 };
static const double item_seconds[ITEMS] = { 5, 5, 8, 15, 15, 9, 1, 5 };

/* Items made from the input, each read by one node of the backward phase; in between a node with so much
 * scratch that memory binds there and nowhere else. */
static void knapsack(int *a)
{
    int x = paper_tensor(&pp, 1, TIDE_INPUT);

    for (int i = 0; i < ITEMS; i++) {
        a[i] = paper_tensor(&pp, item_bytes[i], TIDE_ACTIVATION);
        paper_node(
            &pp, (PaperNode){ item_seconds[i], { x, -1 }, { a[i], -1 }, .phase = PHASE_FORWARD, .layer = i });
    }
    int loss = paper_tensor(&pp, 1, TIDE_OTHER);
    paper_node(&pp, (PaperNode){ 1, { x, -1 }, { loss, -1 }, .phase = PHASE_FORWARD, .scratch = LOSS });
    for (int i = ITEMS - 1; i >= 0; i--) {
        int d = paper_tensor(&pp, 0, TIDE_OTHER);
        paper_node(&pp, (PaperNode){
                            1, { a[i], loss, -1 }, { d, -1 }, .phase = PHASE_BACKWARD, .layer = ITEMS + i });
    }
}

/* The fewest seconds of items left out such that the others have at most this many bytes. */
static double knapsack_optimum(size_t capacity)
{
    double best = INFINITY;

    for (unsigned kept = 0; kept < 1u << ITEMS; kept++) {
        size_t bytes = 0;
        double seconds = 0;
        for (int i = 0; i < ITEMS; i++) {
            if (kept >> i & 1)
                bytes += item_bytes[i];
            else
                seconds += item_seconds[i];
        }
        if (bytes <= capacity && seconds < best) best = seconds;
    }
    return best;
}

Test(search, packs_a_knapsack_at_every_capacity)
{
    int a[ITEMS];
    double worst = 0;

    paper_open(&pp);
    pp.p.link = (Link){ 0 };
    knapsack(a);
    begin();
    for (size_t capacity = 0; capacity <= 430; capacity++) {
        Score s = search(1 + 1 + LOSS + capacity, SIZE_MAX, LOCAL);
        cr_expect_eq(s.excess, 0, "capacity %zu: does not fit", capacity);
        cr_expect_float_eq(e->schedule->rerun_seconds, knapsack_optimum(capacity), 1e-9,
                           "capacity %zu: %g s again, not %g", capacity, e->schedule->rerun_seconds,
                           knapsack_optimum(capacity));
        double best = knapsack_optimum(capacity);
        s = search(1 + 1 + LOSS + capacity, SIZE_MAX, 200); /* too few to try everything */
        cr_expect_eq(s.excess, 0, "capacity %zu: does not fit", capacity);
        worst = fmax(worst, e->schedule->rerun_seconds - best);
    }
    printf("with 200 evaluations: at worst %g s over the best\n", worst);
    cr_expect_leq(worst, 3);
    end();
}

/* ---- Chains ---------------------------------------------------------------- */

enum { LINKS = 14, MOST_BYTES = 9 * LINKS };

/* Everything that is dropped between two kept tensors is made again at once, before the first use of its
 * last. So memory binds at the backward node of each kept tensor, and what is kept before it is a sum: an
 * exact dynamic program over the last kept tensor and that sum. least[k + 1][b]: seconds again, b bytes
 * kept. */
static double chain_optimum(const size_t *bytes, const double *seconds, size_t limit)
{
    static double least[LINKS + 1][MOST_BYTES + 1];
    double best = INFINITY;

    for (int k = 0; k <= LINKS; k++)
        for (int b = 0; b <= MOST_BYTES; b++) least[k][b] = INFINITY;
    least[0][0] = 0;
    for (int k = -1; k < LINKS; k++)
        for (size_t b = 0; b <= MOST_BYTES; b++) {
            double again = least[k + 1][b];
            size_t dropped = 0;
            if (isinf(again)) continue;
            for (int m = k + 1; m <= LINKS; m++) { /* the next that is kept; LINKS: none is */
                bool last = m == LINKS;
                size_t forward = last ? 0 : b + bytes[m] + (m > k + 1 ? bytes[m - 1] : 0);
                size_t backward = last ? b + dropped + 1 : b + dropped + bytes[m] + (m < LINKS - 1) + 1;
                if (1 + forward > limit) break; /* nor does keeping a later one help node m */
                if (1 + backward <= limit && last && again < best) best = again;
                if (1 + backward <= limit && !last && again < least[m + 1][b + bytes[m]])
                    least[m + 1][b + bytes[m]] = again;
                if (last) break;
                dropped += bytes[m];
                again += seconds[m];
            }
        }
    return best;
}

static void random_chain(uint64_t seed, size_t *bytes, double *seconds)
{
    int a[LINKS];
    uint64_t s = seed * 2654435761u + 1;

    for (int i = 0; i < LINKS; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = 1 + (s >> 33) % 9;
        seconds[i] = (double)(1 + (s >> 40) % 20);
    }
    paper_open(&pp);
    pp.p.link = (Link){ 0 };
    paper_chain(&pp, (PaperChain){ LINKS, bytes, seconds }, a);
}

Test(search, cuts_chains_as_a_dynamic_program_does, .timeout = 240)
{
    int cases = 0, missed = 0;
    double worst = 1, sum = 0;

    for (uint64_t seed = 1; seed <= 60; seed++) {
        size_t bytes[LINKS];
        double seconds[LINKS];
        random_chain(seed, bytes, seconds);
        begin();
        size_t keep = keep_peak(), bound = proven_least();
        for (size_t limit = bound; limit <= keep; limit += seed % 2 ? 7 : 3) {
            double best = chain_optimum(bytes, seconds, limit);
            Score s = search(limit, SIZE_MAX, ENOUGH); /* 2^14 combinations: all are tried */
            cr_expect_eq(s.excess > 0, isinf(best), "seed %llu, limit %zu", (unsigned long long)seed, limit);
            if (isinf(best)) continue;
            cr_expect_float_eq(e->schedule->rerun_seconds, best, 1e-9,
                               "seed %llu, limit %zu: %g s again, not %g", (unsigned long long)seed, limit,
                               e->schedule->rerun_seconds, best);
            s = search(limit, SIZE_MAX, LOCAL);
            cases++;
            missed += s.excess > 0;
            if (s.excess > 0) continue;
            double ratio = s.seconds / (s.seconds - e->schedule->rerun_seconds + best);
            if (ratio > worst) worst = ratio;
            sum += ratio - 1;
        }
        end();
    }
    printf("%d chains; with %d evaluations: %d missed, on average %.3f %% over the best, at worst %.2f %%\n",
           cases, LOCAL, missed, 100 * sum / (cases - missed), 100 * (worst - 1));
    cr_expect_gt(cases, 500);
    cr_expect_leq(missed, cases / 50);
    cr_expect_leq(sum / (cases - missed), 0.01);
}

/* ---- Promises -------------------------------------------------------------- */

/* Where an offload stays, making the tensor again instead is slower or does not fit. */
Test(search, no_offload_costs_more_than_making_it_again, .timeout = 120)
{
    int checked = 0;

    for (uint64_t seed = 1; seed <= 400; seed++) {
        paper_random(&pp, seed);
        pp.p.link.out /= 4;
        pp.p.link.in /= 4;
        begin();
        size_t keep = keep_peak(), bound = proven_least();
        for (int k = 1; k < 4; k++) {
            size_t limit = bound + (keep - bound) * (size_t)k / 4;
            Score s = search(limit, SIZE_MAX, 200);
            for (int i = 0; i < facts->n_choices && s.excess <= 0; i++) {
                int t = facts->choices[i];
                if (fates[t] != TIDE_OFFLOAD || !fate_is_allowed(facts, t, TIDE_RECOMPUTE)) continue;
                fates[t] = TIDE_RECOMPUTE;
                Score again = evaluate(e, fates, limit);
                fates[t] = TIDE_OFFLOAD;
                checked++;
                cr_expect(again.excess > 0 || again.seconds >= s.seconds * (1 - 1e-8),
                          "seed %llu, limit %zu: %g s, and %g s made again", (unsigned long long)seed, limit,
                          s.seconds, again.seconds);
            }
        }
        end();
    }
    cr_expect_gt(checked, 300, "only %d offloads", checked);
}

/* With an endless link nothing runs again that takes time. */
Test(search, a_fast_link_is_preferred_to_running_again)
{
    int offloads = 0;

    for (uint64_t seed = 1; seed <= 100; seed++) {
        size_t bytes[LINKS];
        double seconds[LINKS];
        random_chain(seed, bytes, seconds);
        pp.p.link = (Link){ 1e6, 1e6, 1e6, 0 };
        begin();
        size_t keep = keep_peak();
        Score s = search(keep * 6 / 10, SIZE_MAX, LOCAL);
        cr_expect_eq(s.excess, 0);
        cr_expect_eq(e->schedule->rerun_seconds, 0, "seed %llu: %g s again", (unsigned long long)seed,
                     e->schedule->rerun_seconds);
        offloads += e->schedule->n_transfers;
        end();
    }
    cr_expect_gt(offloads, 100);
}
