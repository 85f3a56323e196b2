/* hand_plan.c - plans put together step by step. Without memory a test has no use: assert. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "tests/support/hand_plan.h"

static void *grown(void *list, int n, size_t item)
{
    void *larger = realloc(list, ((size_t)n + 1) * item);

    assert(larger);
    return larger;
}

static size_t alignment_of(const TideProgram *p)
{
    return p->tide->backend->alignment;
}

TidePlan *hand_plan_new(const TideProgram *p)
{
    TidePlan *plan = calloc(1, sizeof *plan);

    assert(plan);
    plan->program_hash = program_hash(p);
    plan->numerics_hash = numerics_hash(p, NULL);
    plan->sections = calloc((size_t)p->n_graphs + 1, sizeof *plan->sections);
    assert(plan->sections);
    plan->n_sections = p->n_graphs;
    for (int i = 0; i < p->n_graphs; i++) plan->sections[i].graph = i;
    for (int id = 1; id < p->n_tensors; id++) {
        const Tensor *t = p->tensors[id];
        if (t->graph >= 0 || t->flat) continue;
        Home h = { id, SPACE_DEVICE, plan->arena_bytes[SPACE_DEVICE], align_up(t->bytes, alignment_of(p)) };
        plan->homes = grown(plan->homes, plan->n_homes, sizeof h);
        plan->homes[plan->n_homes++] = h;
        plan->arena_bytes[SPACE_DEVICE] += h.bytes;
    }
    return plan;
}

int hand_slot(TidePlan *plan, int section, Slot slot)
{
    Section *s = &plan->sections[section];
    size_t end = slot.offset + slot.bytes;

    s->slots = grown(s->slots, s->n_slots, sizeof slot);
    s->slots[s->n_slots] = slot;
    if (plan->arena_bytes[slot.space] < end) plan->arena_bytes[slot.space] = end;
    return s->n_slots++;
}

static int add_step(Section *s, Step step)
{
    s->steps = grown(s->steps, s->n_steps, sizeof step);
    s->steps[s->n_steps] = step;
    return s->n_steps++;
}

int hand_run(TidePlan *plan, int section, int node, const int *slots, int n)
{
    Section *s = &plan->sections[section];
    int first = s->n_args;

    for (int i = 0; i < n; i++) {
        s->args = grown(s->args, s->n_args, sizeof *s->args);
        s->args[s->n_args++] = slots[i];
    }
    return add_step(s, (Step){ STEP_RUN, LANE_COMPUTE, node, first, -1, -1, -1 });
}

int hand_copy(TidePlan *plan, int section, Lane lane, int src, int dst)
{
    return add_step(&plan->sections[section], (Step){ STEP_COPY, lane, -1, -1, src, dst, -1 });
}

int hand_record(TidePlan *plan, int section, Lane lane)
{
    Section *s = &plan->sections[section];

    add_step(s, (Step){ STEP_RECORD, lane, -1, -1, -1, -1, s->n_events });
    return s->n_events++;
}

int hand_wait(TidePlan *plan, int section, Lane lane, int event)
{
    return add_step(&plan->sections[section], (Step){ STEP_WAIT, lane, -1, -1, -1, -1, event });
}

bool hand_decorate(TidePlan *plan)
{
    plan->policy = TIDE_POLICY_OFFLOAD_INPUTS;
    plan->fixed_bytes = 12345;
    plan->decisions = calloc(2, sizeof *plan->decisions);
    if (!plan->decisions) return false;
    plan->decisions[plan->n_decisions++] = (Decision){
        .tensor = 1, .fate = TIDE_OFFLOAD, .price = 0.1, .flip_bytes = 77, .seconds = { -1, 0.5, -1, 0.25 }
    };
    plan->decisions[plan->n_decisions++] = (Decision){
        .tensor = 2, .fate = TIDE_KEEP, .price = -1e-12 / 3, .node = -1, .seconds = { -1, 0.25, -1, -1 }
    };
    plan->stats = (TidePlanStats){ .device_bytes = plan->arena_bytes[SPACE_DEVICE],
                                   .keep_bytes = 1u << 30,
                                   .seconds = 1.0 / 3,
                                   .stall_seconds = 2e-5,
                                   .recompute_seconds = 0.004,
                                   .fate[TIDE_OFFLOAD] = { 1, 4096 } };
    for (int i = 0; i < plan->n_sections; i++) {
        Section *s = &plan->sections[i];
        s->spans = calloc((size_t)s->n_steps + 1, sizeof *s->spans);
        if (!s->spans) return false;
        for (int j = 0; j < s->n_steps; j++) s->spans[j] = (Period){ j / 7.0, (j + 1) / 7.0 };
    }
    return true;
}

/* ---- Everything apart ------------------------------------------------------ */

typedef struct Apart {
    const TideProgram *program;
    TidePlan *plan;
    int section;
    int *slot, *stage; /* [n_tensors] */
    size_t *end;       /* of the space used so far */
} Apart;

static int apart_slot(Apart *a, int id, Space space, size_t bytes)
{
    size_t offset = a->end[space];

    bytes = align_up(bytes, alignment_of(a->program));
    a->end[space] += bytes;
    return hand_slot(a->plan, a->section, (Slot){ id, space, offset, bytes });
}

/* The one device slot of a tensor. */
static int slot_of(Apart *a, int id)
{
    const Tensor *t = a->program->tensors[id];

    if (a->slot[id] >= 0) return a->slot[id];
    if (t->graph >= 0) return a->slot[id] = apart_slot(a, id, SPACE_DEVICE, t->bytes);
    for (int i = 0; i < a->plan->n_homes; i++)
        if (a->plan->homes[i].tensor == (t->flat ? t->flat : id))
            a->slot[id] =
                hand_slot(a->plan, a->section,
                          (Slot){ id, SPACE_DEVICE, a->plan->homes[i].offset + t->flat_offset, t->bytes });
    return a->slot[id];
}

static bool is_read(const TideGraph *g, int id)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->nodes[i]->n_in; j++)
            if (g->nodes[i]->in[j].id == id) return true;
    return false;
}

/* Copy all inputs that are read (or outputs) between staging memory and the device, on their lane. */
static void stage(Apart *a, Lane lane)
{
    bool any = false;

    for (int id = 1; id < a->program->n_tensors; id++) {
        const Tensor *t = a->program->tensors[id];
        if (t->graph != a->section) continue;
        const TideGraph *g = a->program->graphs[a->section];
        bool mine = lane == LANE_IN ? t->kind == TIDE_INPUT && is_read(g, id) : t->output;
        if (!mine) continue;
        if (!any) hand_wait(a->plan, a->section, lane, hand_record(a->plan, a->section, LANE_COMPUTE));
        any = true;
        if (a->stage[id] < 0) a->stage[id] = apart_slot(a, id, SPACE_STAGE, t->bytes);
        int device = slot_of(a, id);
        if (lane == LANE_IN)
            hand_copy(a->plan, a->section, lane, a->stage[id], device);
        else
            hand_copy(a->plan, a->section, lane, device, a->stage[id]);
    }
    if (any) hand_wait(a->plan, a->section, LANE_COMPUTE, hand_record(a->plan, a->section, lane));
}

static void run_nodes(Apart *a)
{
    const TideGraph *g = a->program->graphs[a->section];

    for (int i = 0; i < g->n_nodes; i++) {
        const Node *n = g->nodes[i];
        int args[n->n_in + OP_MAX_OUT + 1], k = 0;
        size_t scratch = node_scratch(a->program, n);
        if (n->again) continue;
        for (int j = 0; j < n->n_in; j++) args[k++] = n->in[j].id ? slot_of(a, n->in[j].id) : -1;
        for (int j = 0; j < n->n_out; j++) args[k++] = n->out[j].id ? slot_of(a, n->out[j].id) : -1;
        args[k++] = scratch ? apart_slot(a, 0, SPACE_DEVICE, scratch) : -1;
        hand_run(a->plan, a->section, i, args, k);
    }
}

TidePlan *hand_plan_everything(const TideProgram *p)
{
    TidePlan *plan = hand_plan_new(p);
    size_t end[SPACE_COUNT] = { 0 }, room = (size_t)p->n_tensors * sizeof(int);
    Apart a = { .program = p, .plan = plan, .slot = malloc(room), .stage = malloc(room), .end = end };
    size_t homes = plan->arena_bytes[SPACE_DEVICE];

    assert(a.slot && a.stage);
    for (a.section = 0; a.section < p->n_graphs; a.section++) {
        memset(a.slot, 0xff, room);
        memset(a.stage, 0xff, room);
        end[SPACE_DEVICE] = homes; /* staging memory alone is not shared by sections */
        stage(&a, LANE_IN);
        run_nodes(&a);
        stage(&a, LANE_OUT);
    }
    free(a.slot);
    free(a.stage);
    return plan;
}

/* ---- Copies ---------------------------------------------------------------- */

static void *same(const void *list, int n, size_t item)
{
    void *copy = list ? calloc((size_t)n + 1, item) : NULL;

    assert(copy || !list);
    if (copy) memcpy(copy, list, (size_t)n * item);
    return copy;
}

TidePlan *hand_plan_copy(const TidePlan *plan)
{
    TidePlan *copy = same(plan, 1, sizeof *plan);

    copy->record = same(plan->record, plan->record ? (int)strlen(plan->record) : 0, 1); /* and its zero */
    copy->homes = same(plan->homes, plan->n_homes, sizeof *plan->homes);
    copy->decisions = same(plan->decisions, plan->n_decisions, sizeof *plan->decisions);
    copy->sections = same(plan->sections, plan->n_sections, sizeof *plan->sections);
    for (int i = 0; i < plan->n_sections; i++) {
        const Section *from = &plan->sections[i];
        Section *to = &copy->sections[i];
        to->slots = same(from->slots, from->n_slots, sizeof *from->slots);
        to->steps = same(from->steps, from->n_steps, sizeof *from->steps);
        to->spans = same(from->spans, from->n_steps, sizeof *from->spans);
        to->args = same(from->args, from->n_args, sizeof *from->args);
    }
    return copy;
}

void hand_delete_step(Section *s, int step)
{
    size_t rest = (size_t)(s->n_steps - step - 1);

    memmove(s->steps + step, s->steps + step + 1, rest * sizeof *s->steps);
    if (s->spans) memmove(s->spans + step, s->spans + step + 1, rest * sizeof *s->spans);
    s->n_steps--;
}
