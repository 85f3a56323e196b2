/* evaluate.c - what a set of decisions costs. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/evaluate.h"

/* Inputs come and outputs go on the compute lane, one behind the other. */
static void time_stage_copies(Evaluator *e, const Problem *p)
{
    for (int t = 0; t < p->n_tensors; t++) {
        const CostTensor *x = &p->tensors[t];
        double bytes = (double)x->bytes;
        if (x->input && p->link.in > 0) e->prologue += p->link.latency + bytes / p->link.in;
        if (x->output && p->link.out > 0) e->epilogue += p->link.latency + bytes / p->link.out;
    }
}

TideStatus evaluator_new(const Facts *f, Evaluator **out)
{
    Evaluator *e = calloc(1, sizeof *e);
    size_t runs = 1, tensors = (size_t)f->problem->n_tensors;

    *out = NULL;
    if (!e || schedule_new(f, &e->schedule)) {
        free(e);
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
    pool_free(&e->pool);
    free(e);
}

/* The demands between runs and copies. A run waits for what it reads to return. With moments, a run also
 * waits for the copy of what has left before it, as it may overwrite it, and a copy in until the
 * position at which its bytes are taken. */
static void demand(Evaluator *e, bool moments)
{
    const Schedule *s = e->schedule;
    Task *run = e->timeline.tasks[LANE_COMPUTE], *out = e->timeline.tasks[LANE_OUT],
         *in = e->timeline.tasks[LANE_IN];
    const Problem *p = s->facts->problem;

    for (int at = 0; at < s->n_runs; at++) run[at] = (Task){ .seconds = p->nodes[s->runs[at].node].seconds };
    for (int i = 0; i < s->n_transfers; i++) {
        const Transfer *x = &s->transfers[i];
        out[i] = (Task){ .seconds = p->link.latency, .bytes = (double)s->stays[x->out_stay].bytes };
        out[i].after[LANE_COMPUTE] = x->made + 1;
        if (moments && x->leave + 1 < s->n_runs) run[x->leave + 1].after[LANE_OUT] = i + 1; /* i ascends */
    }
    for (int k = 0; k < s->n_transfers; k++) {
        const Transfer *x = &s->transfers[s->fetches[k]];
        in[k] = (Task){ .seconds = p->link.latency, .bytes = (double)s->stays[x->in_stay].bytes };
        in[k].after[LANE_COMPUTE] = moments ? x->back : 0;
        in[k].after[LANE_OUT] = s->fetches[k] + 1;
        run[x->need].after[LANE_IN] = k + 1;
    }
    e->timeline.n_tasks[LANE_COMPUTE] = s->n_runs;
    e->timeline.n_tasks[LANE_OUT] = e->timeline.n_tasks[LANE_IN] = s->n_transfers;
}

static double section_seconds(Evaluator *e, bool moments)
{
    const Schedule *s = e->schedule;

    if (!s->n_transfers) return e->prologue + s->run_seconds + e->epilogue;
    demand(e, moments);
    e->timeline.origin = e->prologue;
    return simulate(&e->timeline) + e->epilogue;
}

double evaluate_freely(Evaluator *e)
{
    return section_seconds(e, false);
}

Score evaluate_schedule(Evaluator *e, size_t limit)
{
    const Schedule *s = e->schedule;
    Score score = { .seconds = section_seconds(e, true), .host_bytes = s->host_bytes };

    for (int at = 0; at < s->n_runs; at++) {
        if (s->live[at] > limit) score.excess += (double)(s->live[at] - limit);
        if (s->live[at] <= score.peak) continue;
        score.peak = s->live[at];
        score.peak_at = at;
    }
    e->evaluations++;
    return score;
}

Score evaluate(Evaluator *e, const TideFate *fates, size_t limit)
{
    schedule_build(e->schedule, fates);
    moments_choose(e, limit);
    return evaluate_schedule(e, limit);
}
