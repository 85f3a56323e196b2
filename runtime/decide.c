/* decide.c - why a tensor has its fate: what others would cost, what a byte is worth, when it would change.
 *
 * A decision is judged alone: the others stay as they are, and the exact evaluation says what the step
 * would take. The moment that binds is the fullest one at which keeping the tensor takes
 * bytes that nothing reads. */
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/planner.h"

static TideStatus no_memory(const Planner *pl)
{
    return tide_fail(pl->program->tide, TIDE_NO_MEMORY, "no memory to explain a plan of %d tensors",
                     pl->program->n_tensors);
}

/* ---- The moment that binds -------------------------------------------------- */

/* Position of the first run of each node in a schedule; -1 for nodes that only run as recompute. */
static void find_positions(const Schedule *s, int *position)
{
    for (int i = 0; i < s->facts->problem->n_nodes; i++) position[i] = -1;
    for (int at = s->n_runs - 1; at >= 0; at--)
        if (!s->runs[at].rerun) position[s->runs[at].node] = at;
}

/* The fullest position between the last forward use of tensor t and the first use after the turn, both aside
 * unless nothing runs between. */
static int binding_position(const Schedule *s, const int *position, int t)
{
    const Uses *u = &s->facts->uses[t];
    int from = position[u->last_forward] + 1, to = position[u->first_backward] - 1, fullest;

    if (from > to) from = to = position[u->first_backward];
    fullest = from;
    for (int at = from; at <= to; at++)
        if (s->live[at] > s->live[fullest]) fullest = at;
    return fullest;
}

/* ---- What other fates would cost ---------------------------------------------- */

static bool may_have(const Facts *f, int t, TideFate fate)
{
    return fate == TIDE_KEEP || (fate == TIDE_RECOMPUTE && f->uses[t].can_recompute) ||
           (fate == TIDE_OFFLOAD && f->uses[t].can_offload);
}

static void try_fates(GraphWork *w, const Solution *s, int t, double seconds, Decision *d)
{
    TideFate chosen = s->fates[t];

    d->seconds[TIDE_AUTO] = -1;
    for (int fate = TIDE_KEEP; fate < TIDE_FATE_COUNT; fate++) {
        d->seconds[fate] = fate == (int)chosen ? seconds : -1;
        if (fate == (int)chosen || !may_have(w->facts, t, (TideFate)fate)) continue;
        s->fates[t] = (TideFate)fate;
        d->seconds[fate] = evaluate_again(w->evaluator, s->fates, s->live_limit).seconds;
    }
    s->fates[t] = chosen;
}

/* What keeping it would save, or what giving it up would cost, by its bytes. */
static double price_of(const Decision *d, size_t bytes)
{
    double best = -1;

    for (int fate = TIDE_KEEP; fate < TIDE_FATE_COUNT; fate++) {
        double change = d->fate == TIDE_KEEP ? d->seconds[fate] - d->seconds[d->fate]
                                             : d->seconds[d->fate] - d->seconds[fate];
        bool other = d->fate == TIDE_KEEP ? fate != TIDE_KEEP : fate == TIDE_KEEP;
        if (other && d->seconds[fate] >= 0 && (best < 0 || change < best)) best = change > 0 ? change : 0;
    }
    return best > 0 && bytes ? best / (double)bytes : 0;
}

TideStatus planner_write_decisions(Planner *pl, const Solution *s, TidePlan *plan)
{
    GraphWork *w = &pl->work[0];
    const Schedule *schedule = w->evaluator->schedule;
    int *position = pool_new(&pl->pool, (size_t)w->problem->n_nodes, sizeof *position);
    double seconds = evaluate_again(w->evaluator, s->fates, s->live_limit).seconds;

    plan->decisions = calloc((size_t)w->facts->n_choices + 1, sizeof *plan->decisions);
    if (!plan->decisions || !position) return no_memory(pl);
    find_positions(schedule, position);
    for (int i = 0; i < w->facts->n_choices; i++) { /* before other fates change the schedule */
        int t = w->facts->choices[i], id = w->problem->tensors[t].id;
        int at = binding_position(schedule, position, t);
        plan->decisions[plan->n_decisions++] = (Decision){ .tensor = id,
                                                           .fate = s->fates[t],
                                                           .node = schedule->runs[at].node,
                                                           .live_bytes = schedule->live[at] };
        plan->stats.fate[s->fates[t]].tensors++;
        plan->stats.fate[s->fates[t]].bytes += pl->program->tensors[id]->bytes;
    }
    for (int i = 0; i < w->facts->n_choices; i++) {
        Decision *d = &plan->decisions[i];
        try_fates(w, s, w->facts->choices[i], seconds, d);
        d->price = price_of(d, pl->program->tensors[d->tensor]->bytes);
    }
    return TIDE_OK;
}

/* ---- When it would change ------------------------------------------------------- */

/* Take the solution for a budget into account: above the plan's own the least at which a tensor that was
 * given up is kept, below it the most at which a kept one is given up. choice: by tensor of the program. */
static void note_flips(const Solution *s, size_t budget, const int *choice, TidePlan *plan)
{
    for (int i = 0; i < plan->n_decisions; i++) {
        Decision *d = &plan->decisions[i];
        int t = choice[d->tensor];
        bool above = budget > plan->stats.device_bytes, kept = t >= 0 && s->fates[t] == TIDE_KEEP;

        if (t < 0 || above == (d->fate == TIDE_KEEP) || kept == (d->fate == TIDE_KEEP)) continue;
        if (!d->flip_bytes || (above ? budget < d->flip_bytes : budget > d->flip_bytes))
            d->flip_bytes = budget;
    }
}

enum { FLIP_STEPS = 2 };

/* Budgets around the plan's own, ascending, close to it where the answer matters most. Returns how many. */
static int flip_budgets(const Planner *pl, size_t here, size_t *budgets)
{
    static const int parts[FLIP_STEPS] = { 10, 3 };
    size_t least = pl->least.height > pl->others ? pl->least.height : pl->others;
    size_t most = pl->keep.height > pl->others ? pl->keep.height : pl->others;
    int n = 0;

    if (least < here) {
        budgets[n++] = least;
        for (int i = FLIP_STEPS - 1; i >= 0; i--) budgets[n++] = here - (here - least) / (size_t)parts[i];
    }
    if (most > here) {
        for (int i = 0; i < FLIP_STEPS; i++) budgets[n++] = here + (most - here) / (size_t)parts[i];
        budgets[n++] = most;
    }
    return n;
}

static TideStatus find_flips(Planner *pl, TidePlan *plan)
{
    size_t budgets[2 * FLIP_STEPS + 2];
    int *choice = pool_new(&pl->pool, (size_t)pl->program->n_tensors, sizeof *choice);
    TideBudget b = pl->budget;
    Solution best = { 0 }, s;

    if (!choice) return no_memory(pl);
    for (int id = 0; id < pl->program->n_tensors; id++) choice[id] = -1;
    for (int i = 0; i < pl->work[0].facts->n_choices; i++) {
        int t = pl->work[0].facts->choices[i];
        choice[pl->work[0].problem->tensors[t].id] = t;
    }
    TRY(planner_find_extremes(pl));
    int n = flip_budgets(pl, plan->stats.device_bytes, budgets);
    for (int i = 0; i < n; i++) {
        b.device_bytes = budgets[i];
        planner_set_budget(pl, b);
        TRY(planner_solve(pl, best.found ? &best : NULL, &s));
        if (!s.found) continue;
        note_flips(&s, budgets[i], choice, plan);
        best = s;
    }
    return TIDE_OK;
}

TideStatus tide_plan_find_flips(const TideProgram *p, const TideProfile *f, TideBudget b, TidePlan *plan)
{
    Planner *pl;

    for (int i = 0; i < plan->n_decisions; i++) plan->decisions[i].flip_bytes = 0;
    TRY(planner_open(p, f, b, &pl));
    TideStatus status = find_flips(pl, plan);
    planner_close(pl);
    return status;
}
