/* planner.c - a program and a budget become a plan.
 *
 *     describe   every graph as numbers; homes for what is persistent        problem.c, liveness.c
 *     decide     a fate for each activation                                  search*.c, baselines.c
 *     schedule   re-runs, stays, copies and their moments                    schedule.c, moments.c
 *     place      offsets                                                     layout.c, place.c
 *     emit       slots and steps with few waits, and their predicted times   emit.c
 *
 * Deciding looks at live bytes; placing may need more. Then the limit of live bytes is tightened, and
 * all of it is done again (solve.c). How far a plan can be from the best is known by bound.c and
 * bound_time.c; decide.c says why each fate was chosen. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "runtime/base.h"
#include "runtime/bound_time.h"
#include "runtime/emit.h"
#include "runtime/io/record.h"
#include "runtime/planner.h"
#include "runtime/profile.h"

static double wall_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static TideStatus no_memory(const TideProgram *p)
{
    return tide_fail(p->tide, TIDE_NO_MEMORY, "no memory to plan a program of %d tensors", p->n_tensors);
}

/* ---- Describe ------------------------------------------------------------ */

/* Flats lie one behind the other: parameters, states, gradients last, because only their bytes
 * are ever free, next to the activations that may use them. */
static void choose_homes(Planner *pl)
{
    static const TideKind kinds[] = { TIDE_PARAMETER, TIDE_STATE, TIDE_GRADIENT };
    const TideProgram *p = pl->program;
    size_t alignment = p->tide->backend->alignment;

    for (int id = 0; id < p->n_tensors; id++) pl->homes[id] = SIZE_MAX;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int id = 1; id < p->n_tensors; id++) {
            const Tensor *t = p->tensors[id];
            if (t->graph >= 0 || t->flat || t->kind != kinds[k]) continue;
            pl->homes[id] = pl->static_bytes;
            pl->static_bytes += align_up(t->bytes, alignment);
        }
}

static TideStatus describe_graph(Planner *pl, int i)
{
    GraphWork *w = &pl->work[i];

    w->graph = pl->program->graphs[i];
    TRY(problem_from_graph(w->graph, pl->profile, pl->homes, pl->static_bytes, &w->problem));
    TideStatus status =
        facts_new(w->problem, (Limits){ pl->budget.no_recompute, pl->budget.no_offload }, &w->facts);
    if (!status) status = evaluator_new(w->facts, &w->evaluator);
    if (!status) status = layout_new(w->facts, &w->layout);
    if (status) return no_memory(pl->program);
    pl->stage_bytes += w->facts->stage_bytes;
    return TIDE_OK;
}

/* A forced fate that cannot be must not pass in silence. */
static TideStatus check_forced(const Planner *pl)
{
    const Facts *f = pl->work[0].facts;

    for (int i = 0; i < f->n_choices; i++) {
        const CostTensor *x = &f->problem->tensors[f->choices[i]];
        if (x->forced == TIDE_AUTO || fate_is_allowed(f, f->choices[i], x->forced)) continue;
        return tide_fail(
            pl->program->tide, TIDE_BAD_GRAPH,
            "%s is forced to %s, which cannot be: %s; force it to another fate or allow this one", x->name,
            fate_names[x->forced],
            x->forced == TIDE_OFFLOAD ? "offloading is off or there is no link"
            : pl->budget.no_recompute ? "recomputing is off"
                                      : "the node that makes it may run only once");
    }
    return TIDE_OK;
}

void planner_set_budget(Planner *pl, TideBudget b)
{
    size_t mask = ~(pl->work[0].problem->alignment - 1), stage = 2 * pl->stage_bytes;

    pl->budget = b;
    pl->device_limit = b.device_bytes ? b.device_bytes & mask : SIZE_MAX;
    pl->host_limit = !b.host_bytes ? SIZE_MAX : b.host_bytes > stage ? b.host_bytes - stage : 0;
}

TideStatus planner_note_bound(Planner *pl, int graph)
{
    LeastBytes least;

    if (least_bound(pl->work[graph].facts, &least)) return no_memory(pl->program);
    if (least.bytes <= pl->bound.bytes) return TIDE_OK;
    pl->bound = least;
    pl->bound_graph = graph;
    return TIDE_OK;
}

/* Other graphs keep everything: their activations have no fate. */
static TideStatus place_others(Planner *pl)
{
    for (int i = 1; i < pl->n_graphs; i++) {
        GraphWork *w = &pl->work[i];
        TideFate *keep = pool_new(&pl->pool, (size_t)w->problem->n_tensors, sizeof *keep);
        if (!keep) return no_memory(pl->program);
        TRY(planner_note_bound(pl, i));
        Score score = evaluate(w->evaluator, keep, SIZE_MAX);
        if (layout_place(w->layout, w->evaluator->schedule, score.peak + score.peak / SLACK))
            return no_memory(pl->program);
        if (w->layout->height <= pl->others) continue;
        pl->others = w->layout->height;
        pl->highest = i;
    }
    return TIDE_OK;
}

static TideStatus describe(Planner *pl)
{
    choose_homes(pl);
    for (int i = 0; i < pl->n_graphs; i++) TRY(describe_graph(pl, i));
    TRY(check_forced(pl));
    planner_set_budget(pl, pl->budget);
    return place_others(pl);
}

TideStatus planner_open(const TideProgram *p, const TideProfile *f, TideBudget b, Planner **out)
{
    *out = NULL;
    TRY(tide_program_check(p));
    assert(p->n_graphs > 0);
    Planner *pl = calloc(1, sizeof *pl);
    if (!pl) return no_memory(p);
    *pl = (Planner){ .program = p, .profile = f, .budget = b, .n_graphs = p->n_graphs };
    pl->homes = pool_new(&pl->pool, (size_t)p->n_tensors, sizeof *pl->homes);
    pl->work = pool_new(&pl->pool, (size_t)p->n_graphs, sizeof *pl->work);
    TideStatus status = pl->pool.failed ? no_memory(p) : describe(pl);
    if (status)
        planner_close(pl);
    else
        *out = pl;
    return status;
}

void planner_close(Planner *pl)
{
    if (!pl) return;
    for (int i = 0; pl->work && i < pl->n_graphs; i++) {
        layout_free(pl->work[i].layout);
        evaluator_free(pl->work[i].evaluator);
        facts_free(pl->work[i].facts);
        problem_free(pl->work[i].problem);
    }
    pool_free(&pl->pool);
    free(pl);
}

/* ---- Write --------------------------------------------------------------- */

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

static TideStatus write_homes(const Planner *pl, TidePlan *plan)
{
    const TideProgram *p = pl->program;

    plan->homes = calloc((size_t)p->n_tensors, sizeof *plan->homes);
    if (!plan->homes) return no_memory(p);
    for (int id = 1; id < p->n_tensors; id++)
        if (pl->homes[id] != SIZE_MAX)
            plan->homes[plan->n_homes++] = (Home){ id, SPACE_DEVICE, pl->homes[id], p->tensors[id]->bytes };
    return TIDE_OK;
}

static TideStatus write_section(Planner *pl, int i, TidePlan *plan, Emitted *e)
{
    const GraphWork *w = &pl->work[i];
    Emission m = { .graph = w->graph,
                   .schedule = w->evaluator->schedule,
                   .offsets = w->layout->offsets,
                   .stage = plan->arena_bytes[SPACE_STAGE] };

    if (section_emit(m, e)) return no_memory(pl->program);
    plan->sections[i] = e->section;
    plan->n_sections = i + 1;
    plan->arena_bytes[SPACE_DEVICE] = most(plan->arena_bytes[SPACE_DEVICE], w->layout->height);
    plan->arena_bytes[SPACE_HOST] = most(plan->arena_bytes[SPACE_HOST], e->host_bytes);
    plan->arena_bytes[SPACE_STAGE] = e->stage_end;
    return TIDE_OK;
}

static void write_stats(const Planner *pl, const Emitted *first, TidePlan *plan)
{
    TidePlanStats *s = &plan->stats;

    s->device_bytes = plan->arena_bytes[SPACE_DEVICE];
    s->host_bytes = plan->arena_bytes[SPACE_HOST] + 2 * plan->arena_bytes[SPACE_STAGE];
    s->static_bytes = pl->static_bytes;
    s->keep_bytes = most(pl->keep.height, pl->others);
    s->keep_seconds = pl->keep.seconds;
    s->least_bytes = most(pl->least.height, pl->others);
    if (s->least_bytes > s->device_bytes) s->least_bytes = s->device_bytes;
    s->least_bound_bytes = pl->bound.bytes;
    s->bytes_out = first->bytes_out;
    s->bytes_in = first->bytes_in;
    s->seconds = first->seconds;
    s->stall_seconds = first->stall_seconds;
}

/* What is proven for the first graph inside the budget. */
static TideStatus write_bounds(const Planner *pl, TidePlan *plan)
{
    const Facts *f = pl->work[0].facts;
    TimeBound any, fates;

    if (bound_seconds(f, ANY_SCHEDULE, pl->device_limit, pl->host_limit, &any) ||
        bound_seconds(f, ONE_FATE, pl->device_limit, pl->host_limit, &fates))
        return no_memory(pl->program);
    plan->stats.bound_seconds = any.seconds;
    plan->stats.bound_lp_seconds = any.seconds > fates.seconds ? any.seconds : fates.seconds;
    return TIDE_OK;
}

static TideStatus write_plan(Planner *pl, const Solution *s, TidePlan *plan)
{
    Emitted first = { 0 }, other;

    TRY(record_snapshot(pl->program->tide, &plan->record));
    plan->program_hash = program_hash(pl->program);
    plan->numerics_hash = numerics_hash(pl->program, plan->record);
    plan->fixed_bytes = tide_profile_fixed(pl->profile);
    plan->policy = pl->budget.policy;
    plan->arena_bytes[SPACE_DEVICE] = pl->static_bytes;
    plan->sections = calloc((size_t)pl->n_graphs, sizeof *plan->sections);
    if (!plan->sections) return no_memory(pl->program);
    TRY(write_homes(pl, plan));
    TRY(planner_apply(pl, s));
    for (int i = 0; i < pl->n_graphs; i++) {
        const Schedule *schedule = pl->work[i].evaluator->schedule;
        TRY(write_section(pl, i, plan, i ? &other : &first));
        if (i == 0) plan->stats.recompute_seconds = schedule->rerun_seconds;
        for (int at = 0; at < schedule->n_runs; at++)
            plan->stats.live_bytes = most(plan->stats.live_bytes, schedule->live[at]);
    }
    TRY(planner_write_decisions(pl, s, plan));
    write_stats(pl, &first, plan);
    return write_bounds(pl, plan);
}

static TideStatus new_plan(Planner *pl, const Solution *s, TidePlan **out)
{
    TidePlan *plan = calloc(1, sizeof *plan);
    TideStatus status = plan ? write_plan(pl, s, plan) : no_memory(pl->program);

    if (!status) status = tide_plan_check(pl->program, plan); /* it takes a fiftieth of the planning */
    if (!status) plan->stats.checked = true;
    if (status)
        tide_plan_free(plan);
    else
        *out = plan;
    return status;
}

/* ---- Make ---------------------------------------------------------------- */

/* The largest of what lies on the device when the least plan takes most. */
static void name_largest(const Schedule *s, int at, char *text, size_t size)
{
    const Problem *p = s->facts->problem;
    char bytes[BYTES_TEXT];
    int named = -1;

    *text = '\0';
    for (int k = 0; k < 3; k++) {
        int best = -1;
        for (int i = 0; i < s->n_stays; i++) {
            const Stay *x = &s->stays[i];
            bool here = !x->fixed && x->from <= at && at <= x->to;
            bool after = named < 0 || x->bytes < s->stays[named].bytes ||
                         (x->bytes == s->stays[named].bytes && i > named);
            if (here && after && (best < 0 || x->bytes > s->stays[best].bytes)) best = i;
        }
        if (best < 0) return;
        size_t n = strlen(text);
        snprintf(text + n, size - n, "%s%s %s", k ? ", " : "",
                 s->stays[best].tensor < 0 ? "scratch" : p->tensors[s->stays[best].tensor].name,
                 bytes_text(s->stays[best].bytes, bytes));
        named = best;
    }
}

static TideStatus refuse_host(const Planner *pl)
{
    return tide_fail(
        pl->program->tide, TIDE_NO_PLAN,
        "no plan fits the host budget of %zu bytes of pinned memory: inputs and outputs take %zu bytes "
        "of it, and what the policy or a forced fate offloads does not fit the rest",
        pl->budget.host_bytes, 2 * pl->stage_bytes);
}

static TideStatus refuse(Planner *pl, size_t *least)
{
    char budget[BYTES_TEXT], fixed[BYTES_TEXT], lowest[BYTES_TEXT], proven[BYTES_TEXT], names[300] = "-",
                                                                                        needed[300];
    const Facts *binding = pl->work[pl->bound_graph].facts;
    size_t first = pl->least.height, found = most(first, pl->others);
    int graph = pl->others > first ? pl->highest : 0;
    GraphWork *w = &pl->work[graph];
    const TideFate *keep = pool_new(&pl->pool, (size_t)w->problem->n_tensors, sizeof *keep);

    if (!keep) return no_memory(pl->program);
    if (!pl->least.found) return refuse_host(pl);
    if (least) *least = found;
    Score score = graph ? evaluate(w->evaluator, keep, SIZE_MAX)
                        : evaluate(w->evaluator, pl->least.fates, pl->least.live_limit);
    const Schedule *s = w->evaluator->schedule;
    if (s->n_runs) name_largest(s, score.peak_at, names, sizeof names);
    least_names(binding, pl->bound, needed, sizeof needed);
    return tide_fail(
        pl->program->tide, TIDE_NO_PLAN,
        "no plan%s%s fits %s (%zu bytes): parameters, gradients and states take %s; the least budget found "
        "is %zu bytes (%s), set by node %s of graph %s (%s); no plan can take less than %s, which node %s "
        "needs (%s)",
        pl->budget.policy ? " of policy " : "", pl->budget.policy ? policy_names[pl->budget.policy] : "",
        bytes_text(pl->budget.device_bytes, budget), pl->budget.device_bytes,
        bytes_text(pl->static_bytes, fixed), found, bytes_text(found, lowest),
        s->n_runs ? w->problem->nodes[s->runs[score.peak_at].node].name : "-", w->graph->name, names,
        bytes_text(pl->bound.bytes, proven),
        pl->bound.node == NO_NODE ? "-" : binding->problem->nodes[pl->bound.node].name, needed);
}

static bool host_is_too_small(const Planner *pl)
{
    return pl->budget.host_bytes && pl->budget.host_bytes < 2 * pl->stage_bytes;
}

TideStatus tide_plan_least(const TideProgram *p, const TideProfile *f, TideBudget b, size_t *least,
                           size_t *bound)
{
    Planner *pl;

    *least = *bound = 0;
    TRY(planner_open(p, f, b, &pl));
    TideStatus status = host_is_too_small(pl) ? refuse_host(pl) : planner_note_bound(pl, 0);
    *least = *bound = pl->bound.bytes;
    if (!status && (!b.device_bytes || *bound <= b.device_bytes)) {
        status = planner_find_extremes(pl);
        if (!status && !pl->least.found) status = refuse_host(pl);
        *least = most(pl->least.height, pl->others);
    }
    planner_close(pl);
    return status;
}

TideStatus tide_plan_make(const TideProgram *p, const TideProfile *f, TideBudget b, TidePlan **out,
                          size_t *least)
{
    double began = wall_clock();
    Planner *pl;
    Solution s = { 0 };

    *out = NULL;
    TRY(planner_open(p, f, b, &pl));
    TideStatus status = host_is_too_small(pl) ? refuse_host(pl) : planner_find_extremes(pl);
    if (!status) status = planner_solve(pl, NULL, &s);
    if (!status) status = s.found ? new_plan(pl, &s, out) : refuse(pl, least);
    if (!status) (*out)->stats.plan_seconds = wall_clock() - began;
    if (!status && least) *least = (*out)->stats.least_bytes;
    planner_close(pl);
    return status;
}

/* ---- Sweep --------------------------------------------------------------- */

static TideStatus sweep(Planner *pl, const TideBudget *budgets, int n, TidePlan **plans)
{
    Solution best = { 0 }, s;

    TRY(planner_find_extremes(pl));
    for (int i = 0; i < n; i++) {
        double began = wall_clock();
        assert(i == 0 || budgets[i].device_bytes >= budgets[i - 1].device_bytes || !budgets[i].device_bytes);
        planner_set_budget(pl, budgets[i]);
        TRY(planner_solve(pl, best.found ? &best : NULL, &s));
        if (!s.found) continue;
        TRY(new_plan(pl, &s, &plans[i]));
        plans[i]->stats.plan_seconds = wall_clock() - began;
        best = s;
    }
    return TIDE_OK;
}

TideStatus tide_plan_sweep(const TideProgram *p, const TideProfile *f, const TideBudget *budgets, int n,
                           TidePlan **plans)
{
    Planner *pl;

    for (int i = 0; i < n; i++) plans[i] = NULL;
    if (n < 1) return TIDE_OK;
    TRY(planner_open(p, f, budgets[0], &pl));
    TideStatus status = host_is_too_small(pl) ? refuse_host(pl) : sweep(pl, budgets, n, plans);
    planner_close(pl);
    for (int i = 0; status && i < n; i++) {
        tide_plan_free(plans[i]);
        plans[i] = NULL;
    }
    return status;
}
