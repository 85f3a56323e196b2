/* emit.c - a placed schedule becomes a section of a plan.
 *
 * First the runs and copies are listed in the order of issue; then a walk with vector clocks finds the
 * few waits that make the list safe; then steps and their predicted times are written. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/emit.h"
#include "runtime/simulate.h"

enum { NO_SLOT = -1, NO_OP = -1 };

/* A run or a copy. */
typedef struct Op {
    StepKind kind;
    Lane lane;
    int node, first_arg, src, dst;
    double seconds, bytes; /* predicted; bytes only of copies between the lanes' ends      */
    int rank;              /* how many ops of its lane are over when it is, itself included */
    int known[LANE_COUNT]; /* how many ops of each lane are surely over when it is          */
    int waits[LANE_COUNT]; /* op of that lane to wait for before this one; NO_OP            */
    int event;             /* recorded behind it; -1: nobody waits for it                   */
} Op;

typedef struct Touch {
    int last[LANE_COUNT];
    int writer;
    bool born;
} Touch;

typedef struct Emitter {
    Emission m;
    const Problem *problem;
    Emitted *out;
    Section *section;
    int *slot_of_stay; /* [n_stays], NO_SLOT */
    Op *ops;
    int n_ops;
    Touch *touch; /* [n_slots]          */
    int *born;
    int n_born; /* device slots that were written or live from the start, in turn */
    int *op_at[LANE_COUNT], n_lane[LANE_COUNT]; /* ops of each lane, by rank - 1 */
    Pool pool;
} Emitter;

/* ---- Slots --------------------------------------------------------------- */

static int add_slot(Emitter *e, Slot slot)
{
    Section *s = e->section;

    s->slots[s->n_slots] = slot;
    e->touch[s->n_slots] = (Touch){ .writer = NO_OP };
    return s->n_slots++;
}

static const Tensor *program_tensor_of(const Emitter *e, int t)
{
    return e->m.graph->program->tensors[e->problem->tensors[t].id];
}

static int slot_of(Emitter *e, int stay)
{
    const Stay *x = &e->m.schedule->stays[stay];

    if (e->slot_of_stay[stay] != NO_SLOT) return e->slot_of_stay[stay];
    const Tensor *t = x->tensor >= 0 ? program_tensor_of(e, x->tensor) : NULL;
    e->slot_of_stay[stay] = add_slot(e, (Slot){ .tensor = t ? e->problem->tensors[x->tensor].id : 0,
                                                .space = SPACE_DEVICE,
                                                .offset = e->m.offsets[stay],
                                                .bytes = t ? t->bytes : x->bytes });
    return e->slot_of_stay[stay];
}

/* A slot outside the device for a tensor, behind the last one of its space. */
static int outside_slot(Emitter *e, int t, Space space, size_t *end)
{
    int slot = add_slot(e, (Slot){ .tensor = e->problem->tensors[t].id,
                                   .space = space,
                                   .offset = *end,
                                   .bytes = program_tensor_of(e, t)->bytes });

    *end = align_up(*end + e->problem->tensors[t].bytes, e->problem->alignment);
    return slot;
}

/* ---- The list ------------------------------------------------------------ */

static void add_op(Emitter *e, Op op)
{
    op.event = -1;
    for (int l = 0; l < LANE_COUNT; l++) op.waits[l] = NO_OP;
    e->ops[e->n_ops++] = op;
}

static void add_copy(Emitter *e, Lane lane, int src, int dst)
{
    const Link *link = &e->problem->link;
    Op op = { .kind = STEP_COPY, .lane = lane, .node = -1, .first_arg = -1, .src = src, .dst = dst };
    bool out = e->section->slots[src].space == SPACE_DEVICE;
    double bytes = (double)e->section->slots[src].bytes, speed = out ? link->out : link->in;

    op.seconds = link->latency;
    if (lane == LANE_COMPUTE)
        op.seconds += speed > 0 ? bytes / speed : 0;
    else
        op.bytes = bytes;
    add_op(e, op);
}

/* The stay of tensor t that holds it at a moment when it has only one. */
static int only_stay(const Schedule *s, int t)
{
    for (int i = 0; i < s->n_stays; i++)
        if (s->stays[i].tensor == t) return i;
    return -1;
}

static void copy_stage(Emitter *e, bool inputs)
{
    for (int t = 0; t < e->problem->n_tensors; t++) {
        const CostTensor *x = &e->problem->tensors[t];
        if (!(inputs ? x->input : x->output)) continue;
        int stage = outside_slot(e, t, SPACE_STAGE, &e->out->stage_end);
        int device = slot_of(e, only_stay(e->m.schedule, t));
        if (inputs)
            add_copy(e, LANE_COMPUTE, stage, device);
        else
            add_copy(e, LANE_COMPUTE, device, stage);
    }
}

/* A run's slots: the node's own inputs have holes that the problem's do not have. */
static void add_run(Emitter *e, const Run *run)
{
    const Node *n = e->m.graph->nodes[run->node];
    const int *stay = &e->m.schedule->args[run->first_arg];
    Section *s = e->section;
    Op op = { .kind = STEP_RUN, .node = run->node, .first_arg = s->n_args, .src = -1, .dst = -1 };

    op.seconds = e->problem->nodes[run->node].seconds;
    for (int i = 0; i < n->n_in; i++) s->args[s->n_args++] = n->in[i].id ? slot_of(e, *stay++) : NO_SLOT;
    for (int i = 0; i < n->n_out; i++) s->args[s->n_args++] = n->out[i].id ? slot_of(e, *stay++) : NO_SLOT;
    s->args[s->n_args++] = *stay >= 0 ? slot_of(e, *stay) : NO_SLOT;
    add_op(e, op);
}

static void list_ops(Emitter *e)
{
    const Schedule *s = e->m.schedule;
    int *host = pool_new(&e->pool, (size_t)s->n_transfers, sizeof *host);
    int fetched = 0, left = 0;

    if (!host) return;
    copy_stage(e, true);
    for (int at = 0; at < s->n_runs; at++) {
        for (; fetched < s->n_transfers && s->transfers[s->fetches[fetched]].back <= at; fetched++) {
            int i = s->fetches[fetched];
            add_copy(e, LANE_IN, host[i], slot_of(e, s->transfers[i].in_stay));
        }
        add_run(e, &s->runs[at]);
        for (; left < s->n_transfers && s->transfers[left].made <= at; left++) {
            host[left] = outside_slot(e, s->transfers[left].tensor, SPACE_HOST, &e->out->host_bytes);
            add_copy(e, LANE_OUT, slot_of(e, s->transfers[left].out_stay), host[left]);
        }
    }
    copy_stage(e, false);
}

/* ---- Waits --------------------------------------------------------------- */

static void need(int *needs, const int *uses)
{
    for (int l = 0; l < LANE_COUNT; l++)
        if (needs[l] < uses[l]) needs[l] = uses[l];
}

static bool share_bytes(const Slot *a, const Slot *b)
{
    return a->space == b->space && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* What must be over before anything is written to this slot. */
static void needs_of_write(Emitter *e, int slot, int *needs)
{
    Touch *t = &e->touch[slot];
    const Slot *s = &e->section->slots[slot];

    need(needs, t->last);
    if (t->born || s->space != SPACE_DEVICE) return;
    for (int i = 0; i < e->n_born; i++)
        if (e->born[i] != slot && share_bytes(s, &e->section->slots[e->born[i]]))
            need(needs, e->touch[e->born[i]].last);
}

static void needs_of_read(const Emitter *e, int slot, int *needs)
{
    int writer = e->touch[slot].writer;

    if (writer == NO_OP) return; /* persistent: written before the section */
    const Op *w = &e->ops[writer];
    if (needs[w->lane] < w->rank) needs[w->lane] = w->rank;
}

static void note_touch(Emitter *e, int slot, int op, bool writes)
{
    Touch *t = &e->touch[slot];

    t->last[e->ops[op].lane] = e->ops[op].rank;
    if (writes) t->writer = op;
    if (t->born || e->section->slots[slot].space != SPACE_DEVICE) return;
    t->born = true;
    e->born[e->n_born++] = slot;
}

/* Call visit-like functions for each slot of an op: reads first. */
static int op_slots(const Emitter *e, const Op *op, int *slots, int *n_reads)
{
    int n = 0;

    if (op->kind == STEP_COPY) {
        slots[0] = op->src;
        slots[1] = op->dst;
        *n_reads = 1;
        return 2;
    }
    const Node *node = e->m.graph->nodes[op->node];
    const int *args = &e->section->args[op->first_arg];
    for (int i = 0; i < node->n_in; i++)
        if (args[i] != NO_SLOT) slots[n++] = args[i];
    *n_reads = n;
    for (int i = node->n_in; i < node->n_in + node->n_out + 1; i++)
        if (args[i] != NO_SLOT) slots[n++] = args[i];
    return n;
}

/* Turn needs into waits, none of them implied by what the lane knows already or by another wait. */
static void choose_waits(Emitter *e, Op *op, int *known, const int *needs)
{
    int wanted[LANE_COUNT];

    for (int l = 0; l < LANE_COUNT; l++)
        wanted[l] = l != (int)op->lane && needs[l] > known[l] ? e->op_at[l][needs[l] - 1] : NO_OP;
    for (int l = 0; l < LANE_COUNT; l++)
        for (int m = 0; m < LANE_COUNT; m++)
            if (l != m && wanted[l] != NO_OP && wanted[m] != NO_OP && e->ops[wanted[m]].known[l] >= needs[l])
                wanted[l] = NO_OP;
    for (int l = 0; l < LANE_COUNT; l++) {
        op->waits[l] = wanted[l];
        if (wanted[l] == NO_OP) continue;
        e->ops[wanted[l]].event = 0; /* numbered later, in the order of steps */
        need(known, e->ops[wanted[l]].known);
    }
}

static void find_waits(Emitter *e, int *slots)
{
    int known[LANE_COUNT][LANE_COUNT] = { { 0 } };

    for (int i = 0; i < e->n_ops; i++) {
        Op *op = &e->ops[i];
        int needs[LANE_COUNT] = { 0 }, n_reads, n = op_slots(e, op, slots, &n_reads);

        for (int j = 0; j < n_reads; j++) needs_of_read(e, slots[j], needs);
        for (int j = n_reads; j < n; j++) needs_of_write(e, slots[j], needs);
        choose_waits(e, op, known[op->lane], needs);
        op->rank = ++known[op->lane][op->lane];
        memcpy(op->known, known[op->lane], sizeof op->known);
        e->op_at[op->lane][e->n_lane[op->lane]++] = i;
        for (int j = 0; j < n; j++) note_touch(e, slots[j], i, j >= n_reads);
    }
}

/* ---- Times --------------------------------------------------------------- */

static bool predict(Emitter *e, Task **task_of)
{
    Timeline t = { .link = e->problem->link };
    double busy = 0;

    for (int l = 0; l < LANE_COUNT; l++) {
        t.n_tasks[l] = e->n_lane[l];
        t.tasks[l] = pool_new(&e->pool, (size_t)e->n_lane[l], sizeof(Task));
        if (!t.tasks[l]) return false;
    }
    for (int i = 0; i < e->n_ops; i++) {
        const Op *op = &e->ops[i];
        task_of[i] = &t.tasks[op->lane][op->rank - 1];
        *task_of[i] = (Task){ .seconds = op->seconds, .bytes = op->bytes };
        for (int l = 0; l < LANE_COUNT; l++)
            if (op->waits[l] != NO_OP) task_of[i]->after[l] = e->ops[op->waits[l]].rank;
        if (op->lane == LANE_COMPUTE) busy += op->seconds;
        if (op->lane == LANE_OUT) e->out->bytes_out += e->section->slots[op->src].bytes;
        if (op->lane == LANE_IN) e->out->bytes_in += e->section->slots[op->src].bytes;
    }
    e->out->seconds = simulate(&t);
    e->out->stall_seconds = e->out->seconds > busy ? e->out->seconds - busy : 0;
    return true;
}

/* ---- Steps --------------------------------------------------------------- */

static void add_step(Section *s, Step step, Span when)
{
    s->spans[s->n_steps] = when;
    s->steps[s->n_steps++] = step;
}

static void write_op(Emitter *e, Op *op, Task *const *task_of, double *lane_time)
{
    Section *s = e->section;
    const Task *task = task_of[op - e->ops];

    for (int l = 0; l < LANE_COUNT; l++) {
        if (op->waits[l] == NO_OP) continue;
        double end = task_of[op->waits[l]]->end, from = lane_time[op->lane];
        lane_time[op->lane] = end > from ? end : from;
        add_step(s, (Step){ STEP_WAIT, op->lane, -1, -1, -1, -1, e->ops[op->waits[l]].event },
                 (Span){ from, lane_time[op->lane] });
    }
    add_step(s, (Step){ op->kind, op->lane, op->node, op->first_arg, op->src, op->dst, -1 },
             (Span){ task->start, task->end });
    lane_time[op->lane] = task->end;
    if (op->event < 0) return;
    op->event = s->n_events++;
    add_step(s, (Step){ STEP_RECORD, op->lane, -1, -1, -1, -1, op->event }, (Span){ task->end, task->end });
}

static void write_steps(Emitter *e, Task *const *task_of)
{
    double lane_time[LANE_COUNT] = { 0 };

    for (int i = 0; i < e->n_ops; i++) write_op(e, &e->ops[i], task_of, lane_time);
}

/* ---- All ----------------------------------------------------------------- */

/* Room for everything; an op has at most two waits and one record. */
static bool make_room(Emitter *e)
{
    const Schedule *s = e->m.schedule;
    size_t stage = 0, slots, ops, args = 0;
    Section *section = e->section;

    for (int t = 0; t < e->problem->n_tensors; t++)
        stage += (size_t)(e->problem->tensors[t].input + e->problem->tensors[t].output);
    slots = (size_t)s->n_stays + (size_t)s->n_transfers + stage;
    ops = (size_t)s->n_runs + 2 * (size_t)s->n_transfers + stage;
    for (int at = 0; at < s->n_runs; at++) {
        const Node *n = e->m.graph->nodes[s->runs[at].node];
        args += (size_t)(n->n_in + n->n_out + 1);
    }
    section->slots = calloc(slots + 1, sizeof *section->slots);
    section->steps = calloc(4 * ops + 1, sizeof *section->steps);
    section->spans = calloc(4 * ops + 1, sizeof *section->spans);
    section->args = calloc(args + 1, sizeof *section->args);
    e->slot_of_stay = pool_new(&e->pool, (size_t)s->n_stays, sizeof(int));
    e->ops = pool_new(&e->pool, ops, sizeof *e->ops);
    e->touch = pool_new(&e->pool, slots, sizeof *e->touch);
    e->born = pool_new(&e->pool, slots, sizeof *e->born);
    for (int l = 0; l < LANE_COUNT; l++) e->op_at[l] = pool_new(&e->pool, ops, sizeof(int));
    if (e->pool.failed || !section->slots || !section->steps || !section->spans || !section->args)
        return false;
    for (int i = 0; i < s->n_stays; i++) e->slot_of_stay[i] = NO_SLOT;
    return true;
}

/* Most slots that one op touches. */
static size_t widest(const TideGraph *g)
{
    size_t most = 2;

    for (int i = 0; i < g->n_nodes; i++) {
        size_t n = (size_t)(g->nodes[i]->n_in + g->nodes[i]->n_out + 1);
        if (n > most) most = n;
    }
    return most;
}

TideStatus section_emit(Emission m, Emitted *out)
{
    Emitter e = { .m = m, .problem = m.schedule->facts->problem, .out = out, .section = &out->section };
    bool ok;

    *out = (Emitted){ .section.graph = m.graph->index, .stage_end = m.stage };
    ok = make_room(&e);
    if (ok) list_ops(&e);
    int *slots = pool_new(&e.pool, widest(m.graph), sizeof *slots);
    Task **task_of = pool_new(&e.pool, (size_t)e.n_ops, sizeof *task_of);
    ok = ok && !e.pool.failed;
    if (ok) find_waits(&e, slots);
    ok = ok && predict(&e, task_of);
    if (ok) write_steps(&e, task_of);
    pool_free(&e.pool);
    if (ok) return TIDE_OK;
    free(out->section.slots);
    free(out->section.steps);
    free(out->section.spans);
    free(out->section.args);
    out->section = (Section){ 0 };
    return TIDE_NO_MEMORY;
}
