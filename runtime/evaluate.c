/* evaluate.c - what a set of decisions costs. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/draft.h"

/* Inputs come and outputs go on the compute lane, one behind the other. */
static void time_stage_copies(Evaluator *e, const Problem *p)
{
    for (int t = 0; t < p->n_tensors; t++) {
        const CostTensor *x = &p->tensors[t];
        double bytes = (double)x->moved;
        if (x->input && p->link.in > 0) e->prologue += p->link.latency + bytes / p->link.in;
        if (x->output && p->link.out > 0) e->epilogue += p->link.latency + bytes / p->link.out;
    }
}

TideStatus evaluator_new(const Facts *f, Evaluator **out)
{
    Evaluator *e = calloc(1, sizeof *e);
    size_t runs = 2, tensors = (size_t)f->problem->n_tensors;

    *out = NULL;
    if (!e) return TIDE_NO_MEMORY;
    if (schedule_new(f, &e->schedule) || draft_new(f, &e->draft)) {
        evaluator_free(e);
        return TIDE_NO_MEMORY;
    }
    for (int i = 0; i < f->problem->n_nodes; i++) runs += 1 + (size_t)f->problem->nodes[i].n_out;
    e->timeline.link = f->problem->link;
    e->timeline.tasks[LANE_COMPUTE] = pool_new(&e->pool, runs, sizeof(Task));
    e->timeline.tasks[LANE_OUT] = pool_new(&e->pool, tensors, sizeof(Task));
    e->timeline.tasks[LANE_IN] = pool_new(&e->pool, tensors, sizeof(Task));
    e->starts = pool_new(&e->pool, runs, sizeof *e->starts);
    e->stays_until = pool_new(&e->pool, runs, sizeof *e->stays_until);
    e->done = pool_new(&e->pool, tensors, sizeof *e->done);
    e->next = pool_new(&e->pool, tensors, sizeof *e->next);
    e->marks = pool_new(&e->pool, runs / 64 + 1, sizeof *e->marks);
    e->rank = pool_new(&e->pool, runs / 64 + 1, sizeof *e->rank);
    if (e->pool.failed) {
        evaluator_free(e);
        return TIDE_NO_MEMORY;
    }
    time_stage_copies(e, f->problem);
    *out = e;
    return TIDE_OK;
}

void evaluator_free(Evaluator *e)
{
    if (!e) return;
    schedule_free(e->schedule);
    draft_free(e->draft);
    pool_free(&e->pool);
    free(e);
}

/* ---- Times --------------------------------------------------------------- */

/* How many tasks of the compute lane are over before the run at a marked position. */
static int tasks_before(const Evaluator *e, int position)
{
    uint64_t below = ((uint64_t)1 << position % 64) - 1;

    return e->rank[position / 64] + count_bits(e->marks[position / 64] & below);
}

static void mark_moments(Evaluator *e, const Outline *o, bool moments)
{
    clear_marks(e->marks, o->n_runs);
    mark(e->marks, 0);
    for (int i = 0; i < o->n_transfers; i++) {
        const Transfer *x = &o->transfers[i];
        mark(e->marks, x->made + 1);
        mark(e->marks, x->need);
        if (moments) mark(e->marks, x->back);
        if (moments && x->leave + 1 < o->n_runs) mark(e->marks, x->leave + 1);
    }
}

/* Runs that nothing waits for, and that wait for nothing, are one task with the run before them. */
static void join_runs(Evaluator *e, const Outline *o)
{
    Task *run = e->timeline.tasks[LANE_COMPUTE];
    int n = 0, from = 0;

    for (int word = 0; word <= o->n_runs / 64; word++) {
        e->rank[word] = n;
        for (uint64_t bits = e->marks[word]; bits; bits &= bits - 1) {
            int at = word * 64 + count_bits((bits & -bits) - 1);
            if (n) run[n - 1].seconds = o->before[at] - o->before[from];
            run[n++] = (Task){ 0 };
            from = at;
        }
    }
    run[n - 1].seconds = o->before[o->n_runs] - o->before[from];
    e->timeline.n_tasks[LANE_COMPUTE] = n;
}

/* The demands between runs and copies. A run waits for what it reads to return. With moments, a run also
 * waits for the copy of what has left before it, as it may overwrite it, and a copy in until the
 * position at which its bytes are taken. */
static void demand(Evaluator *e, const Outline *o, bool moments)
{
    Task *run = e->timeline.tasks[LANE_COMPUTE], *out = e->timeline.tasks[LANE_OUT],
         *in = e->timeline.tasks[LANE_IN];
    double latency = e->timeline.link.latency;

    mark_moments(e, o, moments);
    join_runs(e, o);
    for (int i = 0; i < o->n_transfers; i++) {
        const Transfer *x = &o->transfers[i];
        out[i] = (Task){ .seconds = latency, .bytes = x->moved };
        out[i].after[LANE_COMPUTE] = tasks_before(e, x->made + 1);
        if (moments && x->leave + 1 < o->n_runs)
            run[tasks_before(e, x->leave + 1)].after[LANE_OUT] = i + 1; /* i ascends */
    }
    for (int k = 0; k < o->n_transfers; k++) {
        const Transfer *x = &o->transfers[o->fetches[k]];
        in[k] = (Task){ .seconds = latency, .bytes = x->moved };
        in[k].after[LANE_COMPUTE] = moments ? tasks_before(e, x->back) : 0;
        in[k].after[LANE_OUT] = o->fetches[k] + 1;
        run[tasks_before(e, x->need)].after[LANE_IN] = k + 1;
    }
    e->timeline.n_tasks[LANE_OUT] = e->timeline.n_tasks[LANE_IN] = o->n_transfers;
}

static double section_seconds(Evaluator *e, const Outline *o, bool moments)
{
    if (!o->n_transfers) return e->prologue + o->before[o->n_runs] + e->epilogue;
    demand(e, o, moments);
    e->timeline.origin = e->prologue;
    return simulate(&e->timeline) + e->epilogue;
}

/* ---- Scores -------------------------------------------------------------- */

static Outline outline_of(const Schedule *s)
{
    return (Outline){ .n_runs = s->n_runs,
                      .live = s->live,
                      .before = s->before,
                      .transfers = s->transfers,
                      .n_transfers = s->n_transfers,
                      .fetches = s->fetches,
                      .host_bytes = s->host_bytes };
}

double evaluate_freely(Evaluator *e)
{
    Outline o = outline_of(e->schedule);

    return section_seconds(e, &o, false);
}

static void count_bytes(const Outline *o, size_t limit, Score *score)
{
    for (int at = 0; at < o->n_runs; at++)
        if (o->live[at] > score->peak) score->peak = o->live[at];
    while (score->peak_at < o->n_runs && o->live[score->peak_at] != score->peak) score->peak_at++;
    for (int at = 0; score->peak > limit && at < o->n_runs; at++)
        if (o->live[at] > limit) score->excess += (double)(o->live[at] - limit);
}

Score evaluate_outline(Evaluator *e, const Outline *o, size_t limit)
{
    Score score = { .host_bytes = o->host_bytes };

    moments_choose(e, o, limit);
    score.seconds = section_seconds(e, o, true);
    count_bytes(o, limit, &score);
    e->evaluations++;
    return score;
}

Score evaluate(Evaluator *e, const TideFate *fates, size_t limit)
{
    Schedule *s = e->schedule;

    schedule_build(s, fates);
    Outline o = outline_of(s);
    Score score = evaluate_outline(e, &o, limit);
    for (int i = 0; i < s->n_transfers; i++) {
        s->stays[s->transfers[i].out_stay].to = s->transfers[i].leave;
        s->stays[s->transfers[i].in_stay].from = s->transfers[i].back;
    }
    return score;
}

/* With every transfer gone as early and back as late as can be, and nothing waiting for any. */
static bool may_be_better(const Evaluator *e, const Outline *o, size_t limit, double than_seconds)
{
    size_t most = 0;

    if (e->prologue + o->before[o->n_runs] + e->epilogue >= than_seconds) return false;
    for (int at = 0; at < o->n_runs; at++)
        if (o->live[at] > most) most = o->live[at];
    return most <= limit;
}

bool evaluate_if_better(Evaluator *e, const TideFate *fates, size_t limit, double than_seconds, Score *score)
{
    const Outline *o = draft_follow(e->draft, fates);

    if (!may_be_better(e, o, limit, than_seconds)) {
        e->evaluations++;
        return false;
    }
    *score = evaluate_outline(e, o, limit);
    return true;
}

Score evaluate_again(Evaluator *e, const TideFate *fates, size_t limit)
{
    return evaluate_outline(e, draft_follow(e->draft, fates), limit);
}
