/* test_draft.c - a draft that follows changes says the same as a schedule built from nothing. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include "runtime/draft.h"
#include "runtime/planner.h"
#include "tests/support/fake.h"
#include "tests/support/paper.h"
#include "tests/support/random_graph.h"

static uint64_t state;

static uint32_t roll(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

static void change_some(const Facts *f, TideFate *fates)
{
    for (uint32_t i = roll(4) ? 1 : 1 + roll(6); i > 0; i--) {
        int t = f->choices[roll((uint32_t)f->n_choices)];
        TideFate fate = (TideFate)(TIDE_KEEP + roll(3));
        if (fate_is_allowed(f, t, fate)) fates[t] = fate;
    }
}

static void expect_same(const Outline *o, const Schedule *s, const char *what)
{
    cr_assert_eq(o->n_runs, s->n_runs, "%s: %d runs, not %d", what, o->n_runs, s->n_runs);
    for (int at = 0; at < s->n_runs; at++) {
        cr_assert_eq(o->live[at], s->live[at], "%s: %zu bytes at %d, not %zu", what, o->live[at], at,
                     s->live[at]);
        cr_assert_eq(o->before[at + 1], s->before[at + 1], "%s: seconds at %d", what, at);
    }
    cr_assert_eq(o->n_transfers, s->n_transfers, "%s", what);
    cr_assert_eq(o->host_bytes, s->host_bytes, "%s", what);
    for (int i = 0; i < s->n_transfers; i++) {
        const Transfer *a = &o->transfers[i], *b = &s->transfers[i];
        cr_assert_eq(a->tensor, b->tensor, "%s: transfer %d", what, i);
        cr_assert_eq(a->made, b->made, "%s: transfer %d", what, i);
        cr_assert_eq(a->until, b->until, "%s: transfer %d", what, i);
        cr_assert_eq(a->need, b->need, "%s: transfer %d is needed at %d, not %d", what, i, a->need, b->need);
        cr_assert_eq(a->bytes, b->bytes, "%s: transfer %d", what, i);
        cr_assert_eq(o->fetches[i], s->fetches[i], "%s: fetch %d", what, i);
    }
}

/* Follow many changes; compare all of the outline, then the score at some limit. */
static void follow(const Facts *f, int changes, const char *what)
{
    TideFate *fates = calloc((size_t)f->problem->n_tensors, sizeof *fates);
    Draft *d;
    Evaluator *e;
    Schedule *s;

    cr_assert_eq(draft_new(f, &d), TIDE_OK);
    cr_assert_eq(evaluator_new(f, &e), TIDE_OK);
    cr_assert_eq(schedule_new(f, &s), TIDE_OK);
    for (int t = 0; t < f->problem->n_tensors; t++) fates[t] = TIDE_KEEP;
    size_t most = evaluate(e, fates, SIZE_MAX).peak;
    for (int i = 0; i < changes; i++) {
        char text[128];
        snprintf(text, sizeof text, "%s, change %d", what, i);
        if (i && f->n_choices) change_some(f, fates);
        schedule_build(s, fates);
        expect_same(draft_follow(d, fates), s, text);
        size_t limit =
            most / 2 + roll((uint32_t)(most < 1u << 30 ? most : 1u << 30)) * (most / 2 / (most + 1) + 1);
        Score whole = evaluate(e, fates, limit), quick = evaluate_outline(e, draft_follow(d, fates), limit);
        cr_assert_eq(whole.seconds, quick.seconds, "%s: %.17g, not %.17g", text, quick.seconds,
                     whole.seconds);
        cr_assert_eq(whole.peak, quick.peak, "%s", text);
        cr_assert_eq(whole.peak_at, quick.peak_at, "%s", text);
        cr_assert_eq(whole.excess, quick.excess, "%s", text);
        cr_assert_eq(whole.host_bytes, quick.host_bytes, "%s", text);
    }
    free(fates);
    schedule_free(s);
    evaluator_free(e);
    draft_free(d);
}

Test(draft, follows_on_paper)
{
    static Paper pp;

    for (uint64_t seed = 1; seed <= 400; seed++) {
        Facts *f;
        char what[32];
        state = seed;
        snprintf(what, sizeof what, "paper %llu", (unsigned long long)seed);
        paper_random(&pp, seed);
        cr_assert_eq(facts_new(&pp.p, (Limits){ false, false }, &f), TIDE_OK);
        follow(f, 60, what);
        facts_free(f);
    }
}

Test(draft, follows_on_random_graphs, .timeout = 120)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        RandomSpec spec = { .seed = seed, .accumulate = seed % 3 == 0, .real = seed % 4 == 0 };
        Tide *t = NULL;
        if (spec.real)
            cr_assert_eq(tide_open("cpu", (TideDeviceOptions){ 0 }, &t), TIDE_OK);
        else
            t = fake_open();
        TideProgram *p = random_program(t, spec);
        TideProfile *f;
        Planner *pl;
        char what[32];
        state = seed;
        snprintf(what, sizeof what, "graph %llu", (unsigned long long)seed);
        cr_assert_eq(tide_profile_guess(p, &f), TIDE_OK);
        cr_assert_eq(planner_open(p, f, (TideBudget){ 0 }, &pl), TIDE_OK);
        for (int g = 0; g < pl->n_graphs; g++) follow(pl->work[g].facts, g ? 2 : 300, what);
        planner_close(pl);
        tide_profile_free(f);
        tide_program_free(p);
        tide_close(t);
    }
}
