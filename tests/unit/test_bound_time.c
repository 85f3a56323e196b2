/* test_bound_time.c - bounds of seconds: never above any schedule, and reached where that is possible. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "runtime/bound_time.h"
#include "runtime/evaluate.h"
#include "runtime/profile.h"
#include "runtime/search.h"
#include "tests/support/all_fates.h"
#include "tests/support/fake.h"
#include "tests/support/random_graph.h"
#include "tests/support/toy.h"

enum { MOST_CHOICES = 7, LIMITS = 4 };

/* ---- Random graphs: every set of fates ------------------------------------- */

typedef struct Scene {
    Tide *tide;
    TideProgram *program;
    TideProfile *profile;
    Problem *problem;
    Facts *facts;
    Evaluator *evaluator;
    size_t *homes;
    TideFate *fates;
    uint64_t state;
} Scene;

/* Any relation of computing to copying. */
static void random_times(Scene *s)
{
    double speed = 1e6 * (1 + chance(&s->state, 400));

    for (int i = 0; i < s->profile->n_entries; i++)
        s->profile->entries[i].seconds = 1e-5 * (1 + chance(&s->state, 100));
    s->profile->link = (Link){ .out = speed, .in = speed * (1 + chance(&s->state, 3)), .latency = 1e-6 };
    s->profile->link.duplex = chance(&s->state, 2) ? 0.7 * speed : 0;
}

static void lay_out(Scene *s, size_t *end)
{
    for (int id = 1; id < s->program->n_tensors; id++) {
        const Tensor *t = s->program->tensors[id];
        if (t->graph >= 0 || t->flat) continue;
        s->homes[id] = *end;
        *end += (t->bytes + 255) & ~(size_t)255;
    }
}

static void random_forced(Scene *s)
{
    for (int id = 1; id < s->program->n_tensors; id++)
        if (s->program->tensors[id]->kind == TIDE_ACTIVATION && chance(&s->state, 8) == 0)
            s->program->tensors[id]->forced = (TideFate)(TIDE_KEEP + chance(&s->state, 3));
}

/* false: the graph has too many choices, or none. */
static bool enter(Scene *s, uint64_t seed)
{
    size_t end = 0;
    bool forced = seed % 3 == 0;

    *s = (Scene){ .tide = fake_open(), .state = seed };
    cr_assert_not_null(s->tide);
    s->program = random_program(
        s->tide,
        (RandomSpec){ .seed = seed, .layers = 1 + (int)(seed % 3), .width = 3, .accumulate = seed % 5 == 0 });
    cr_assert_eq(tide_profile_guess(s->program, &s->profile), TIDE_OK);
    random_times(s);
    if (forced) random_forced(s);
    s->homes = calloc((size_t)s->program->n_tensors, sizeof *s->homes);
    lay_out(s, &end);
    cr_assert_eq(problem_from_graph(s->program->graphs[0], s->profile, s->homes, end, &s->problem), TIDE_OK);
    for (int t = 0; t < s->problem->n_tensors; t++) /* evaluate() counts whole units of alignment */
        s->problem->tensors[t].moved = s->problem->tensors[t].bytes;
    Limits limits = { .no_recompute = seed % 7 == 0, .no_offload = seed % 11 == 0 };
    cr_assert_eq(facts_new(s->problem, limits, &s->facts), TIDE_OK);
    cr_assert_eq(evaluator_new(s->facts, &s->evaluator), TIDE_OK);
    s->fates = calloc((size_t)s->problem->n_tensors, sizeof *s->fates);
    return s->facts->n_choices > 0 && s->facts->n_choices <= MOST_CHOICES;
}

static void leave(Scene *s)
{
    evaluator_free(s->evaluator);
    facts_free(s->facts);
    problem_free(s->problem);
    tide_profile_free(s->profile);
    tide_program_free(s->program);
    tide_close(s->tide);
    free(s->homes);
    free(s->fates);
}

static size_t peak_between(const Scene *s, int k)
{
    for (int i = 0; i < s->facts->n_choices; i++) s->fates[s->facts->choices[i]] = TIDE_KEEP;
    size_t most = evaluate(s->evaluator, s->fates, SIZE_MAX).peak, least = most;
    for (int i = 0; i < all_fates_count(s->facts); i++) {
        if (!all_fates_take(s->facts, i, s->fates)) continue;
        size_t peak = evaluate(s->evaluator, s->fates, 0).peak;
        if (peak < least) least = peak;
    }
    return least + (most - least) / LIMITS * (size_t)k;
}

/* Limits at which memory makes a schedule slower, and those of them at which the best one reaches the
 * bound. */
typedef struct Tally {
    long binding, tight;
} Tally;

static long check_limit(const Scene *s, Freedom freedom, size_t limit, size_t host_limit, Tally *t,
                        const char *what)
{
    TimeBound bound;
    double best = INFINITY;
    long checked = 0;

    cr_assert_eq(bound_seconds(s->facts, freedom, limit, host_limit, &bound), TIDE_OK);
    for (int i = 0; i < all_fates_count(s->facts); i++) {
        if (!all_fates_take(s->facts, i, s->fates)) continue;
        Score score = evaluate(s->evaluator, s->fates, limit);
        if (score.excess > 0 || score.host_bytes > host_limit) continue;
        checked++;
        cr_expect(score.seconds >= bound.seconds * (1 - 1e-9), "%s, fates %d, limit %zu: %.9g < bound %.9g",
                  what, i, limit, score.seconds, bound.seconds);
        best = fmin(best, score.seconds);
    }
    bool binds = bound.seconds > least_seconds(s->facts) * (1 + 1e-9);
    t->binding += binds;
    t->tight += binds && best <= bound.seconds * (1 + 1e-4);
    return checked;
}

Test(bound_time, no_fates_beat_it, .timeout = 300)
{
    long checked = 0;
    Tally any = { 0 }, fates = { 0 };

    for (uint64_t seed = 1; seed <= 400; seed++) {
        Scene s;
        char what[32];
        snprintf(what, sizeof what, "seed %d", (int)seed);
        if (enter(&s, seed))
            for (int k = 0; k <= LIMITS; k++) {
                size_t limit = peak_between(&s, k), host = chance(&s.state, 3) ? SIZE_MAX : limit / 8;
                checked += check_limit(&s, ANY_SCHEDULE, limit, host, &any, what);
                checked += check_limit(&s, ONE_FATE, limit, host, &fates, what);
            }
        leave(&s);
    }
    cr_log_info("%ld schedules; the bounds bind at %ld and %ld limits and are reached at %ld and %ld of them",
                checked, any.binding, fates.binding, any.tight, fates.tight);
    cr_expect_gt(checked, 50000, "only %ld", checked);
    cr_expect_gt(any.binding, 20, "only %ld", any.binding);
    cr_expect_geq(fates.tight, any.tight);
}

/* ---- Random small problems: every set of fates ------------------------------ */

/* A few tensors, read by later nodes and by one or two backward nodes each. */
static void random_toy(Toy *t, uint64_t *state)
{
    size_t bytes[TOY_MOST];
    double seconds[TOY_MOST], again[TOY_MOST];
    int n = 3 + (int)chance(state, MOST_CHOICES - 2);

    for (int i = 0; i < n; i++) {
        bytes[i] = 10 * (1 + chance(state, 20));
        seconds[i] = 1 + chance(state, 30);
        again[i] = chance(state, 4) ? 0 : 0.3 * seconds[i];
    }
    toy_make(t, (ToySpec){ .n = n,
                           .bytes = bytes,
                           .seconds = seconds,
                           .again = again,
                           .backward = 1 + chance(state, 20),
                           .chained = chance(state, 3),
                           .link = chance(state, 4) ? 1 + chance(state, 60) : 0 });
    for (int i = 1; i < 2 * n; i++) /* the last reader so far of some tensor */
        if (t->nodes[i].n_in < 2 && chance(state, 3))
            t->in[i][t->nodes[i].n_in++] = (int)chance(state, (uint32_t)(i < n ? i : n));
    if (chance(state, 3) == 0) t->nodes[chance(state, (uint32_t)n)].once = true;
    if (t->problem.link.out > 0 && chance(state, 2)) t->problem.link.duplex = 0.6 * t->problem.link.out;
    if (chance(state, 3) == 0)
        t->tensors[chance(state, (uint32_t)n)].forced = (TideFate)(TIDE_KEEP + chance(state, 3));
}

Test(bound_time, nothing_beats_it_in_small_problems, .timeout = 300)
{
    long checked = 0;
    Tally any = { 0 }, fates = { 0 };
    uint64_t state = 11;

    for (int trial = 0; trial < 500; trial++) {
        Toy toy;
        Scene s = { .problem = &toy.problem, .state = state };
        char what[32];
        random_toy(&toy, &s.state);
        cr_assert_eq(facts_new(s.problem, (Limits){ false, false }, &s.facts), TIDE_OK);
        cr_assert_eq(evaluator_new(s.facts, &s.evaluator), TIDE_OK);
        s.fates = calloc((size_t)s.problem->n_tensors, sizeof *s.fates);
        snprintf(what, sizeof what, "trial %d", trial);
        for (int k = 0; k < LIMITS; k++) {
            size_t limit = peak_between(&s, k), host = chance(&s.state, 3) ? SIZE_MAX : limit / 3;
            checked += check_limit(&s, ANY_SCHEDULE, limit, host, &any, what);
            checked += check_limit(&s, ONE_FATE, limit, host, &fates, what);
        }
        state = s.state;
        free(s.fates);
        evaluator_free(s.evaluator);
        facts_free(s.facts);
    }
    cr_log_info("%ld schedules; the bounds bind at %ld and %ld limits and are reached at %ld and %ld of them",
                checked, any.binding, fates.binding, any.tight, fates.tight);
    cr_expect_gt(any.binding, 500, "only %ld", any.binding);
    cr_expect_gt(any.tight, 10, "only %ld", any.tight);
    cr_expect_geq(fates.tight, any.tight);
}

/* ---- Every moment ---------------------------------------------------------- */

/* Let transfer i leave and return at these positions, which lie inside its gap. */
static void set_moments(Schedule *s, int i, int leave_at, int back_at)
{
    Transfer *x = &s->transfers[i];

    x->leave = s->stays[x->out_stay].to = leave_at;
    x->back = s->stays[x->in_stay].from = back_at;
}

/* Random moments for all transfers; each is at its tightest now. */
static void random_moments(Scene *s, Schedule *c)
{
    for (int i = 0; i < c->n_transfers; i++) {
        Transfer *x = &c->transfers[i];
        int leave_at = x->leave + (int)chance(&s->state, (uint32_t)(x->need - x->leave));
        int back_at = x->need - (int)chance(&s->state, (uint32_t)(x->need - leave_at));
        set_moments(c, i, leave_at, back_at);
    }
}

/* Seconds of the schedule with its moments: a run waits for what it reads to return and for the copies of
 * what has left before it; a copy in, until its bytes are taken and the copy out is over. */
static double seconds_of(const Scene *s, const Schedule *c)
{
    Pool pool = { 0 };
    double before = s->evaluator->prologue, after = s->evaluator->epilogue;
    size_t transfers = (size_t)c->n_transfers;
    Task *run = pool_new(&pool, (size_t)c->n_runs, sizeof *run),
         *out = pool_new(&pool, transfers, sizeof *out), *in = pool_new(&pool, transfers, sizeof *in);
    Timeline t = { .tasks = { run, out, in },
                   .n_tasks = { c->n_runs, c->n_transfers, c->n_transfers },
                   .link = s->problem->link,
                   .origin = before };

    cr_assert(!pool.failed);
    for (int at = 0; at < c->n_runs; at++) run[at].seconds = s->problem->nodes[c->runs[at].node].seconds;
    for (int k = 0; k < c->n_transfers; k++) {
        int i = c->fetches[k];
        const Transfer *x = &c->transfers[i];
        double bytes = (double)s->problem->tensors[x->tensor].moved;
        out[i] = (Task){ .seconds = t.link.latency, .bytes = bytes, .after[LANE_COMPUTE] = x->made + 1 };
        in[k] = (Task){ .seconds = t.link.latency, .bytes = bytes, .after = { x->back, i + 1, 0 } };
        run[x->need].after[LANE_IN] = k + 1;
        if (run[x->leave + 1].after[LANE_OUT] < i + 1) run[x->leave + 1].after[LANE_OUT] = i + 1;
    }
    double seconds = simulate(&t) + after;
    pool_free(&pool);
    return seconds;
}

static size_t peak_of(Schedule *c)
{
    size_t peak = 0;

    schedule_count_live(c);
    for (int at = 0; at < c->n_runs; at++)
        if (c->live[at] > peak) peak = c->live[at];
    return peak;
}

Test(bound_time, no_moments_beat_it, .timeout = 300)
{
    enum { TRIES = 300 };
    long checked = 0;

    for (uint64_t seed = 1; seed <= 300; seed++) {
        Scene s;
        if (enter(&s, seed))
            for (int n = 0; n < TRIES; n++) {
                TimeBound bound;
                if (!all_fates_take(s.facts, (int)chance(&s.state, (uint32_t)all_fates_count(s.facts)),
                                    s.fates))
                    continue;
                Schedule *c = s.evaluator->schedule;
                schedule_build(c, s.fates);
                random_moments(&s, c);
                double seconds = seconds_of(&s, c);
                cr_assert_eq(bound_seconds(s.facts, ANY_SCHEDULE, peak_of(c), SIZE_MAX, &bound), TIDE_OK);
                cr_expect(seconds >= bound.seconds * (1 - 1e-9), "seed %d: %.9g < %.9g", (int)seed, seconds,
                          bound.seconds);
                checked++;
            }
        leave(&s);
    }
    cr_expect_gt(checked, 10000, "only %ld", checked);
}

/* ---- Cases whose optimum is known ------------------------------------------ */

static TimeBound toy_bound(Toy *t, size_t limit, size_t host_limit)
{
    Facts *f;
    TimeBound bound;

    cr_assert_eq(facts_new(&t->problem, (Limits){ false, false }, &f), TIDE_OK);
    cr_assert_eq(bound_seconds(f, ANY_SCHEDULE, limit, host_limit, &bound), TIDE_OK);
    facts_free(f);
    return bound;
}

static void expect_seconds(TimeBound b, double seconds, const char *what)
{
    cr_expect(fabs(b.seconds - seconds) < 1e-4 * seconds, "%s: %.6g, not %.6g", what, b.seconds, seconds);
}

static const size_t equal[] = { 100, 100, 100, 100, 100, 100, 100, 100 };
static const double dearer[] = { 1, 2, 3, 4, 5, 6, 7, 8 }; /* 36 in all */

Test(bound_time, without_a_link_the_cheapest_run_again)
{
    Toy t;

    /* The first backward node reads the last tensor; of the seven others k have room. */
    toy_make(&t, (ToySpec){ .n = 8, .bytes = equal, .seconds = dearer, .backward = 1 });
    for (int k = 0; k < 7; k++) {
        double again = 0;
        for (int i = 0; i < 7 - k; i++) again += dearer[i];
        expect_seconds(toy_bound(&t, TOY_PARAMETER + 100 + 100 * (size_t)k, SIZE_MAX), 44 + again, "whole");
        TimeBound half = toy_bound(&t, TOY_PARAMETER + 150 + 100 * (size_t)k, SIZE_MAX);
        expect_seconds(half, 44 + again - dearer[6 - k] / 2, "half a tensor");
        cr_expect(fabs(half.prices.byte[0] * 100 - dearer[6 - k]) < 1e-3, "the price with room for %d", k);
    }
}

Test(bound_time, what_a_chain_needs_runs_again_too)
{
    Toy t;

    /* Tensor 7 is there, and one more, at best tensor 6; one chain makes all others. */
    toy_make(&t, (ToySpec){ .n = 8, .bytes = equal, .seconds = dearer, .backward = 1, .chained = true });
    expect_seconds(toy_bound(&t, TOY_PARAMETER + 200, SIZE_MAX), 44 + 21, "room for one");
    expect_seconds(toy_bound(&t, TOY_PARAMETER + 300, SIZE_MAX), 44 + 15, "room for two");
    cr_expect(isinf(toy_bound(&t, TOY_PARAMETER + 199, SIZE_MAX).seconds), "a node and its input do not fit");
    /* What may not run twice is not there for others either. */
    t.nodes[3].once = true;
    expect_seconds(toy_bound(&t, TOY_PARAMETER + 300, SIZE_MAX), 44 + 28 - 7 - 4, "tensors 3 and 6 stay");
}

Test(bound_time, a_cheaper_node_counts)
{
    static const double again[] = { 0.5, 0, 0.25, 0, 0, 0, 0, 0 };
    Toy t;

    toy_make(&t, (ToySpec){ .n = 8, .bytes = equal, .seconds = dearer, .backward = 1, .again = again });
    expect_seconds(toy_bound(&t, TOY_PARAMETER + 700, SIZE_MAX), 44 + 0.25, "one");
    expect_seconds(toy_bound(&t, TOY_PARAMETER + 600, SIZE_MAX), 44 + 0.75, "two");
    expect_seconds(toy_bound(&t, TOY_PARAMETER + 500, SIZE_MAX), 44 + 2.75, "three");
}

Test(bound_time, what_may_run_only_once_must_leave_or_stay)
{
    Toy t;

    toy_make(
        &t, (ToySpec){ .n = 8, .bytes = equal, .seconds = dearer, .backward = 1, .once = true, .link = 1e9 });
    expect_seconds(toy_bound(&t, TOY_PARAMETER + 100, SIZE_MAX), 44, "a fast link hides all");
    /* 700 bytes at 10 a second: 70 s, of which the 35 after the first tensor are hidden on the way out, and
     * the 7 before the last need on the way in. */
    toy_make(&t,
             (ToySpec){ .n = 8, .bytes = equal, .seconds = dearer, .backward = 1, .once = true, .link = 10 });
    expect_seconds(toy_bound(&t, TOY_PARAMETER + 100, SIZE_MAX), 44 + 35 + 63, "a slow link");
    /* The host takes 300 of the 700 bytes that have no room; else no price is too high. With room for the
     * others they must have left when tensor 7 is made, 27 s after the first, and be back 7 s after the
     * turn. */
    cr_expect_gt(toy_bound(&t, TOY_PARAMETER + 100, 300).seconds, 1e3);
    expect_seconds(toy_bound(&t, TOY_PARAMETER + 500, 300), 44 + 3 + 23, "a small host");
    cr_expect(isinf(toy_bound(&t, TOY_PARAMETER + 99, SIZE_MAX).seconds),
              "the first backward node does not fit");
}
