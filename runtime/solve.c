/* solve.c - solutions that fit: live bytes are decided, heights are placed.
 *
 * The search knows live bytes only. Where the height that placing finds exceeds the budget, the limit of
 * live bytes is lowered by the excess, and it is decided anew. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/bound_time.h"
#include "runtime/emit.h"
#include "runtime/planner.h"

enum {
    TIGHTEN_ROUNDS = 6,
    EFFORT = 8000,       /* evaluations to polish one search                               */
    EFFORT_AGAIN = 2000, /* the same, at a lower limit                                    */
};

static const double near_bound = 0.01; /* of what needs no other search */

static TideStatus no_memory(const Planner *pl)
{
    return tide_fail(pl->program->tide, TIDE_NO_MEMORY, "no memory to plan a program of %d tensors",
                     pl->program->n_tensors);
}

/* An empty solution in the planner's pool. */
static TideStatus new_solution(Planner *pl, Solution *out)
{
    *out = (Solution){ .fates =
                           pool_new(&pl->pool, (size_t)pl->work[0].problem->n_tensors, sizeof *out->fates) };
    return out->fates ? TIDE_OK : no_memory(pl);
}

static void copy_solution(const Planner *pl, const Solution *from, Solution *to)
{
    TideFate *fates = to->fates;

    memcpy(fates, from->fates, (size_t)pl->work[0].problem->n_tensors * sizeof *fates);
    *to = *from;
    to->fates = fates;
}

TideStatus planner_apply(Planner *pl, const Solution *s)
{
    GraphWork *w = &pl->work[0];

    evaluate(w->evaluator, s->fates, s->live_limit);
    return layout_place(w->layout, w->evaluator->schedule, s->enough) ? no_memory(pl) : TIDE_OK;
}

/* ---- Fitting given fates -------------------------------------------------- */

/* The seconds of the placed schedule as its section will have them. */
static TideStatus emitted_seconds(Planner *pl, double *seconds)
{
    GraphWork *w = &pl->work[0];
    Emitted e;

    if (section_emit((Emission){ w->graph, w->evaluator->schedule, w->layout->offsets, 0 }, &e))
        return no_memory(pl);
    *seconds = e.seconds;
    section_free(&e.section);
    return TIDE_OK;
}

static size_t excess_of(const Planner *pl, size_t height)
{
    return height > pl->device_limit ? height - pl->device_limit : 0;
}

/* The limit of live bytes to try after so many live bytes were placed at a height above the budget. */
static size_t lower_limit(const Planner *pl, size_t live, size_t height)
{
    size_t excess = excess_of(pl, height);

    return live > excess ? live - excess : 0;
}

/* Place s->fates such that they fit the budget; s->found says whether that was found. Else s->height is the
 * lowest height seen, 0 if live bytes alone are too many. The first of so many rounds has this limit of live
 * bytes; the lower ones of the others only move the moments of transfers. */
static TideStatus fit(Planner *pl, Solution *s, size_t limit, int rounds)
{
    GraphWork *w = &pl->work[0];

    s->found = false;
    s->height = 0;
    s->enough = pl->device_limit;
    for (int round = 0; round < rounds && !s->found; round++) {
        Score score = evaluate(w->evaluator, s->fates, limit);
        if (score.excess > 0 || score.host_bytes > pl->host_limit) return TIDE_OK;
        s->live_limit = limit;
        s->live = score.peak;
        s->host_bytes = score.host_bytes;
        TRY(planner_apply(pl, s));
        if (!s->height || w->layout->height < s->height) s->height = w->layout->height;
        s->found = w->layout->height <= pl->device_limit;
        if (!w->evaluator->schedule->n_transfers) break; /* a lower limit changes nothing */
        limit = lower_limit(pl, score.peak, w->layout->height);
    }
    return s->found ? emitted_seconds(pl, &s->seconds) : TIDE_OK;
}

static void take_faster(const Planner *pl, const Solution *s, Solution *best)
{
    if (s->found && (!best->found || s->seconds < best->seconds)) copy_solution(pl, s, best);
}

static bool lasts_whole(const Planner *pl, const Solution *s)
{
    return s->found && s->height <= pl->device_limit && s->host_bytes <= pl->host_limit;
}

/* ---- Searching ------------------------------------------------------------- */

/* Could the schedule of the newest evaluation be faster than the best solution, however it is placed? */
static bool may_win(Planner *pl, const Solution *best)
{
    return !best->found || evaluate_freely(pl->work[0].evaluator) < best->seconds;
}

/* Search from the fates of a baseline, at lower and lower limits of live bytes until the height fits. Where
 * it never does, or not nearly, the fates may also have to wait for their transfers. */
static TideStatus search_from(Planner *pl, TidePolicy start, size_t host_limit, Solution *s, Solution *best)
{
    GraphWork *w = &pl->work[0];
    size_t limit = pl->device_limit;

    baseline_fates(w->facts, start, s->fates);
    for (int round = 0; round < TIGHTEN_ROUNDS; round++) {
        Question q = { w->evaluator, limit, host_limit, round ? EFFORT_AGAIN : EFFORT };
        search_fates(&q, s->fates);
        evaluate(w->evaluator, s->fates, limit);
        if (!may_win(pl, best)) return TIDE_OK;
        TRY(fit(pl, s, limit, 1));
        take_faster(pl, s, best);
        if (s->found || !s->height) break;
        size_t live = s->live, height = s->height;
        bool far = round == 0 && excess_of(pl, height) > pl->device_limit / SLACK;
        if (far) {
            TRY(fit(pl, s, pl->device_limit, TIGHTEN_ROUNDS));
            take_faster(pl, s, best);
        }
        limit = lower_limit(pl, live, height);
        if (far) limit += (live - limit) / 2; /* other fates may lie better */
    }
    if (best->found) return TIDE_OK;
    TRY(fit(pl, s, pl->device_limit, TIGHTEN_ROUNDS));
    take_faster(pl, s, best);
    return TIDE_OK;
}

/* Fit a baseline, unless nothing can make it faster than the best solution. */
static TideStatus try_policy(Planner *pl, TidePolicy policy, Solution *s, Solution *best)
{
    GraphWork *w = &pl->work[0];

    baseline_fates(w->facts, policy, s->fates);
    schedule_build(w->evaluator->schedule, s->fates);
    if (!may_win(pl, best)) return TIDE_OK;
    TRY(fit(pl, s, pl->device_limit, TIGHTEN_ROUNDS));
    take_faster(pl, s, best);
    return TIDE_OK;
}

/* Search; where what was found is not near what is proven, also without any copies, whose buffers may not let
 * themselves be placed. */
static TideStatus solve_auto(Planner *pl, Solution *trial, Solution *best)
{
    TimeBound bound;

    TRY(search_from(pl, TIDE_POLICY_KEEP, pl->host_limit, trial, best));
    if (best->found && best->seconds <= pl->keep.seconds * (1 + 1e-12))
        return TIDE_OK; /* nothing is faster */
    if (bound_seconds(pl->work[0].facts, ANY_SCHEDULE, pl->device_limit, pl->host_limit, &bound))
        return no_memory(pl);
    if (!best->found || best->seconds > bound.seconds * (1 + near_bound))
        TRY(search_from(pl, TIDE_POLICY_KEEP, 0, trial, best));
    if (!best->found) TRY(search_from(pl, TIDE_POLICY_RECOMPUTE, pl->host_limit, trial, best));
    for (int p = TIDE_POLICY_KEEP; p < TIDE_POLICY_COUNT; p++)
        TRY(try_policy(pl, (TidePolicy)p, trial, best));
    return TIDE_OK;
}

TideStatus planner_solve(Planner *pl, const Solution *also, Solution *out)
{
    TidePolicy policy = pl->budget.policy;
    Solution trial;

    TRY(new_solution(pl, out));
    TRY(new_solution(pl, &trial));
    if (pl->others > pl->device_limit) return TIDE_OK;
    if (policy <= TIDE_POLICY_KEEP && lasts_whole(pl, &pl->keep)) {
        copy_solution(pl, &pl->keep, out);
        return TIDE_OK;
    }
    if (policy == TIDE_POLICY_AUTO)
        TRY(solve_auto(pl, &trial, out));
    else
        TRY(try_policy(pl, policy, &trial, out));
    if (lasts_whole(pl, &pl->least)) take_faster(pl, &pl->least, out);
    if (also && lasts_whole(pl, also)) take_faster(pl, also, out);
    return TIDE_OK;
}

/* ---- Extremes -------------------------------------------------------------- */

enum { LEAST_CANDIDATES = 2 * TIDE_POLICY_COUNT };

/* Solutions that are candidates for the least one, with their live bytes at the tightest moments. */
typedef struct Candidates {
    Solution all[LEAST_CANDIDATES];
    int n;
} Candidates;

static TideStatus add_candidate(Planner *pl, Candidates *c, const TideFate *fates)
{
    GraphWork *w = &pl->work[0];
    Solution *s = &c->all[c->n];
    Score score = evaluate(w->evaluator, fates, 0);

    if (score.host_bytes > pl->host_limit) return TIDE_OK;
    TRY(new_solution(pl, s));
    memcpy(s->fates, fates, (size_t)w->problem->n_tensors * sizeof *fates);
    s->live = s->live_limit = score.peak; /* the same peak with looser moments */
    s->enough = score.peak;
    s->host_bytes = score.host_bytes;
    c->n++;
    return TIDE_OK;
}

/* Baselines, and what shedding makes of some of them. */
static TideStatus find_candidates(Planner *pl, Candidates *c)
{
    GraphWork *w = &pl->work[0];
    TideFate *fates = pool_new(&pl->pool, (size_t)w->problem->n_tensors, sizeof *fates);

    if (!fates) return no_memory(pl);
    for (int p = TIDE_POLICY_KEEP; p < TIDE_POLICY_COUNT; p++) {
        if (pl->budget.policy != TIDE_POLICY_AUTO && pl->budget.policy != (TidePolicy)p) continue;
        baseline_fates(w->facts, (TidePolicy)p, fates);
        TRY(add_candidate(pl, c, fates));
        if (pl->budget.policy != TIDE_POLICY_AUTO || p < TIDE_POLICY_OFFLOAD) continue;
        search_fates(&(Question){ w->evaluator, pl->bound.bytes, pl->host_limit, 0 }, fates);
        TRY(add_candidate(pl, c, fates));
    }
    return TIDE_OK;
}

static int compare_live(const void *a, const void *b)
{
    const Solution *x = a, *y = b;

    return x->live < y->live ? -1 : x->live > y->live;
}

/* The lowest candidate once placed. The most promising come first, so that few are: those that promise little
 * are not worth the time. */
static TideStatus find_least(Planner *pl)
{
    Candidates c = { .n = 0 };
    int placed = -1;

    pl->least.found = false;
    TRY(find_candidates(pl, &c));
    qsort(c.all, (size_t)c.n, sizeof *c.all, compare_live);
    for (int i = 0; i < c.n; i++) {
        Solution *s = &c.all[i];
        if (pl->least.found && s->enough >= pl->least.height - pl->least.height / SLACK) continue;
        TRY(planner_apply(pl, s));
        placed = i;
        s->height = pl->work[0].layout->height;
        s->found = true;
        if (!pl->least.found || s->height < pl->least.height) copy_solution(pl, s, &pl->least);
    }
    if (!pl->least.found) return TIDE_OK;
    if (c.all[placed].height != pl->least.height) TRY(planner_apply(pl, &pl->least));
    return emitted_seconds(pl, &pl->least.seconds);
}

TideStatus planner_find_extremes(Planner *pl)
{
    GraphWork *w = &pl->work[0];

    TRY(new_solution(pl, &pl->keep));
    TRY(new_solution(pl, &pl->least));
    baseline_fates(w->facts, TIDE_POLICY_KEEP, pl->keep.fates);
    TRY(planner_note_bound(pl, 0));
    Score score = evaluate(w->evaluator, pl->keep.fates, SIZE_MAX);
    pl->keep.live_limit = SIZE_MAX;
    pl->keep.enough = score.peak + score.peak / SLACK;
    pl->keep.host_bytes = score.host_bytes;
    TRY(planner_apply(pl, &pl->keep));
    pl->keep.height = w->layout->height;
    pl->keep.found = true;
    TRY(emitted_seconds(pl, &pl->keep.seconds));
    return find_least(pl);
}
