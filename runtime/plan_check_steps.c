/* plan_check_steps.c - what happens before what, and what every slot then holds.
 *
 * Lanes run concurrently, so "before" is not "earlier in steps[]": a step is before
 * another only if one lane issues both in order, or a chain of events leads from one
 * to the other. That order is kept as one small vector clock per step. */
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/plan_check.h"

bool proof_before(const Proof *pr, int a, int b)
{
    return a != b && pr->clock[b].done[pr->section->steps[a].lane] >= pr->rank[a];
}

/* ---- Order ---------------------------------------------------------------- */

/* A captured graph forks copy lanes from the compute lane and joins them again, so a copy lane
 * begins with a wait that leads back to this section's compute lane. */
static TideStatus lane_opens(const Proof *pr, int step)
{
    const Step *s = &pr->section->steps[step];

    if (s->lane == LANE_COMPUTE || pr->rank[step] > 1) return TIDE_OK;
    if (s->kind == STEP_WAIT && pr->clock[step].done[LANE_COMPUTE] > 0) return TIDE_OK;
    return proof_refuse(pr,
                        "%s is the first of its lane and must be a wait for an event that follows a step of "
                        "the compute lane of this section",
                        step_text(pr, step).s);
}

static TideStatus events_recorded(const Proof *pr, const int *recorded)
{
    for (int e = 0; e < pr->section->n_events; e++)
        if (recorded[e] == NONE)
            return proof_refuse(pr, "event %d of %d is never recorded", e, pr->section->n_events);
    return TIDE_OK;
}

/* Walk the steps once, in the order they are issued. recorded: [n_events] all NONE. */
static TideStatus order_steps(Proof *pr, int *recorded)
{
    const Section *sec = pr->section;
    Clock now[LANE_COUNT] = { { { 0 } } };

    for (int i = 0; i < sec->n_steps; i++) {
        const Step *s = &sec->steps[i];
        Clock *c = &now[s->lane];

        if (s->kind == STEP_WAIT) {
            int from = recorded[s->event];
            if (from == NONE)
                return proof_refuse(pr, "%s comes before the event is recorded", step_text(pr, i).s);
            for (int l = 0; l < LANE_COUNT; l++)
                if (c->done[l] < pr->clock[from].done[l]) c->done[l] = pr->clock[from].done[l];
        }
        pr->rank[i] = ++c->done[s->lane];
        pr->clock[i] = *c;
        TRY(lane_opens(pr, i));
        if (s->kind != STEP_RECORD) continue;
        if (recorded[s->event] != NONE)
            return proof_refuse(pr, "%s records an event that step %d recorded already", step_text(pr, i).s,
                                recorded[s->event]);
        recorded[s->event] = i;
    }
    pr->end = now[LANE_COMPUTE];
    return events_recorded(pr, recorded);
}

TideStatus proof_order(Proof *pr)
{
    int n = pr->section->n_events;
    int *recorded = malloc(((size_t)n + 1) * sizeof *recorded);

    if (!recorded) return tide_fail(pr->program->tide, TIDE_NO_MEMORY, "no memory to check %d events", n);
    for (int e = 0; e < n; e++) recorded[e] = NONE;
    TideStatus status = order_steps(pr, recorded);
    free(recorded);
    return status;
}

/* ---- Meaning -------------------------------------------------------------- */

static void touch(Use *u, Lane lane, int step)
{
    if (u->first[lane] == NONE) u->first[lane] = step;
    u->last[lane] = step;
}

/* Step reads slot: whatever the lanes' speeds, it must find what the newest write left. */
static TideStatus read_slot(Proof *pr, int step, int slot)
{
    Use *u = &pr->use[slot];
    Lane lane = pr->section->steps[step].lane;

    if (u->version == NONE)
        return proof_refuse(pr, "%s reads %s before anything was written to it", step_text(pr, step).s,
                            slot_text(pr, slot).s);
    if (u->write != NONE && !proof_before(pr, u->write, step))
        return proof_refuse(pr, "%s reads %s without waiting for %s, which writes it", step_text(pr, step).s,
                            slot_text(pr, slot).s, step_text(pr, u->write).s);
    touch(u, lane, step);
    u->read[lane] = step;
    return TIDE_OK;
}

static TideStatus write_slot(Proof *pr, int step, int slot, int version)
{
    Use *u = &pr->use[slot];

    if (u->write != NONE && !proof_before(pr, u->write, step))
        return proof_refuse(pr, "%s writes %s without waiting for %s, which writes it too",
                            step_text(pr, step).s, slot_text(pr, slot).s, step_text(pr, u->write).s);
    for (int l = 0; l < LANE_COUNT; l++) {
        if (u->read[l] != NONE && u->read[l] != step && !proof_before(pr, u->read[l], step))
            return proof_refuse(pr, "%s writes %s without waiting for %s, which still reads it",
                                step_text(pr, step).s, slot_text(pr, slot).s, step_text(pr, u->read[l]).s);
        u->read[l] = NONE;
    }
    touch(u, pr->section->steps[step].lane, step);
    u->write = step;
    u->version = version;
    return TIDE_OK;
}

/* A node reads what it read in the graph's own order, and makes the versions it made there. */
static TideStatus run_node(Proof *pr, int step)
{
    const Step *s = &pr->section->steps[step];
    const Node *n = pr->graph->nodes[s->node];
    const int *arg = pr->section->args + s->first_arg;
    const int *wanted = pr->wanted + pr->wanted_at[s->node];

    if (pr->runs[s->node]++ > 0 && proof_runs_once(pr, n))
        return proof_refuse(pr, "%s runs a node again that must run exactly once", step_text(pr, step).s);
    for (int i = 0; i < n->n_in; i++) {
        if (arg[i] == NONE) continue;
        TRY(read_slot(pr, step, arg[i]));
        if (pr->use[arg[i]].version != wanted[i])
            return proof_refuse(pr, "%s needs version %d of its input %d, but %s holds version %d",
                                step_text(pr, step).s, wanted[i], i, slot_text(pr, arg[i]).s,
                                pr->use[arg[i]].version);
    }
    for (int i = n->n_in; i < n->n_in + n->n_out; i++)
        if (arg[i] != NONE) TRY(write_slot(pr, step, arg[i], wanted[i]));
    int scratch = arg[n->n_in + n->n_out];
    return scratch == NONE ? TIDE_OK : write_slot(pr, step, scratch, NONE);
}

static TideStatus copy_slot(Proof *pr, int step)
{
    const Step *s = &pr->section->steps[step];

    TRY(read_slot(pr, step, s->src));
    return write_slot(pr, step, s->dst, pr->use[s->src].version);
}

static TideStatus every_node_ran(const Proof *pr)
{
    for (int i = 0; i < pr->graph->n_nodes; i++)
        if (!pr->graph->nodes[i]->again && pr->runs[i] == 0)
            return proof_refuse(pr, "node %d (%s) never runs", i, pr->graph->nodes[i]->name);
    return TIDE_OK;
}

/* The slot where tensor id is looked for after the section must hold what the graph made of it. */
static TideStatus ends_with(const Proof *pr, int id, int slot, const char *what)
{
    const char *name = program_tensor(pr->program, id)->name;
    int writes = pr->fact[id].writes;

    if (slot == NONE)
        return proof_refuse(pr, "%s %s (tensor %d) must end with version %d but has no slot there", what,
                            name, id, writes);
    int version = pr->use[slot].version;
    if (version == writes) return TIDE_OK;
    if (version == NONE)
        return proof_refuse(pr,
                            "%s %s (tensor %d) must end with version %d, but nothing is ever written to %s",
                            what, name, id, writes, slot_text(pr, slot).s);
    return proof_refuse(pr, "%s %s (tensor %d) must end with version %d, but %s holds version %d", what, name,
                        id, writes, slot_text(pr, slot).s, version);
}

static TideStatus results_are_there(const Proof *pr)
{
    for (int id = 1; id < pr->program->n_tensors; id++) {
        const Tensor *t = pr->program->tensors[id];
        bool persistent = t->graph<0, written = pr->fact[id].writes> 0;

        if (persistent && (written || pr->home[id] != NONE) && pr->fact[id].live_out)
            TRY(ends_with(pr, id, pr->home[id], "at home,"));
        if (t->output && (t->graph == pr->graph->index || (persistent && pr->stage[id] != NONE)))
            TRY(ends_with(pr, id, pr->stage[id], "output"));
    }
    return TIDE_OK;
}

TideStatus proof_meaning(Proof *pr)
{
    for (int i = 0; i < pr->section->n_steps; i++) {
        StepKind kind = pr->section->steps[i].kind;
        if (kind == STEP_RUN) TRY(run_node(pr, i));
        if (kind == STEP_COPY) TRY(copy_slot(pr, i));
    }
    TRY(every_node_ran(pr));
    return results_are_there(pr);
}

/* ---- The end -------------------------------------------------------------- */

TideStatus proof_end(const Proof *pr)
{
    for (int i = pr->section->n_steps - 1; i >= 0; i--) {
        Lane lane = pr->section->steps[i].lane;
        if (pr->rank[i] > pr->end.done[lane])
            return proof_refuse(pr,
                                "at the end the compute lane does not wait for %s: it knows of %d of that "
                                "lane's steps, this is step %d of the lane",
                                step_text(pr, i).s, pr->end.done[lane], pr->rank[i]);
    }
    return TIDE_OK;
}
