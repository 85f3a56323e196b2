/* test_bound_time.c - bounds of seconds: never above any schedule, and reached where that is possible. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "runtime/bound_time.h"
#include "runtime/evaluate.h"
#include "runtime/profile.h"
#include "runtime/search.h"
#include "tests/support/fake.h"
#include "tests/support/random_graph.h"

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

/* The fates with this number, in base 3; false: one of them is not allowed. */
static bool set_fates(const Scene *s, int number)
{
    for (int i = 0; i < s->facts->n_choices; i++, number /= 3) {
        int t = s->facts->choices[i];
        s->fates[t] = (TideFate)(TIDE_KEEP + number % 3);
        if (!fate_is_allowed(s->facts, t, s->fates[t])) return false;
    }
    return true;
}

static int count_fates(const Scene *s)
{
    int n = 1;

    for (int i = 0; i < s->facts->n_choices; i++) n *= 3;
    return n;
}

static size_t peak_between(const Scene *s, int k)
{
    for (int i = 0; i < s->facts->n_choices; i++) s->fates[s->facts->choices[i]] = TIDE_KEEP;
    size_t most = evaluate(s->evaluator, s->fates, SIZE_MAX).peak, least = most;
    for (int i = 0; i < count_fates(s); i++) {
        if (!set_fates(s, i)) continue;
        size_t peak = evaluate(s->evaluator, s->fates, 0).peak;
        if (peak < least) least = peak;
    }
    return least + (most - least) / LIMITS * (size_t)k;
}

static long check_limit(const Scene *s, size_t limit, size_t host_limit, long *tight, const char *what)
{
    TimeBound bound;
    double best = INFINITY;
    long checked = 0;

    cr_assert_eq(bound_seconds(s->facts, limit, host_limit, &bound), TIDE_OK);
    for (int i = 0; i < count_fates(s); i++) {
        if (!set_fates(s, i)) continue;
        Score score = evaluate(s->evaluator, s->fates, limit);
        if (score.excess > 0 || score.host_bytes > host_limit) continue;
        checked++;
        cr_expect(score.seconds >= bound.seconds * (1 - 1e-9), "%s, fates %d, limit %zu: %.9g < bound %.9g",
                  what, i, limit, score.seconds, bound.seconds);
        best = fmin(best, score.seconds);
    }
    *tight += best < INFINITY && best <= bound.seconds * (1 + 1e-9);
    return checked;
}

Test(bound_time, no_fates_beat_it, .timeout = 300)
{
    long checked = 0, tight = 0, limits = 0;

    for (uint64_t seed = 1; seed <= 400; seed++) {
        Scene s;
        char what[32];
        snprintf(what, sizeof what, "seed %d", (int)seed);
        if (enter(&s, seed))
            for (int k = 0; k <= LIMITS; k++, limits++) {
                size_t limit = peak_between(&s, k), host = chance(&s.state, 3) ? SIZE_MAX : limit / 8;
                checked += check_limit(&s, limit, host, &tight, what);
            }
        leave(&s);
    }
    cr_log_info("%ld schedules at %ld limits, the bound is reached at %ld", checked, limits, tight);
    cr_expect_gt(checked, 50000, "only %ld", checked);
    cr_expect_gt(tight, limits / 4, "reached at %ld of %ld", tight, limits);
}
