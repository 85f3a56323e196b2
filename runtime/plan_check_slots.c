/* plan_check_slots.c - every index, size and arity of a section, before anything is followed.
 *
 * Sizes come from files: no two of them are added before both are known to be small. */
#include <string.h>
#include "runtime/base.h"
#include "runtime/plan_check.h"

static bool in_range(int i, int n)
{
    return i >= 0 && i < n;
}

/* ---- Slots ---------------------------------------------------------------- */

/* A slot in the space where its persistent tensor is at home must lie there and nowhere else. */
static TideStatus slot_at_home(Proof *pr, int slot)
{
    const Slot *s = &pr->section->slots[slot];
    const Tensor *t = pr->program->tensors[s->tensor];
    const Home *h = &pr->plan->homes[pr->home_of[t->flat ? t->flat : s->tensor]];

    if (s->space != h->space) return TIDE_OK;
    if (s->offset != h->offset + t->flat_offset)
        return proof_refuse(pr, "%s must lie at %zu, where this persistent tensor is at home",
                            slot_text(pr, slot).s, h->offset + t->flat_offset);
    if (pr->home[s->tensor] != NONE)
        return proof_refuse(pr, "%s and slot %d both are the home of this tensor", slot_text(pr, slot).s,
                            pr->home[s->tensor]);
    pr->home[s->tensor] = slot;
    return TIDE_OK;
}

/* Staging memory holds one slot of each input and output. */
static TideStatus slot_in_stage(Proof *pr, int slot)
{
    const Slot *s = &pr->section->slots[slot];
    const Tensor *t = pr->program->tensors[s->tensor];

    if (t->kind != TIDE_INPUT && !t->output)
        return proof_refuse(pr, "%s is in staging memory, but the tensor is neither an input nor an output",
                            slot_text(pr, slot).s);
    if (pr->stage[s->tensor] != NONE)
        return proof_refuse(pr, "%s and slot %d are both in staging memory for this tensor",
                            slot_text(pr, slot).s, pr->stage[s->tensor]);
    pr->stage[s->tensor] = slot;
    return TIDE_OK;
}

/* What the slot may hold, and how large it must be for that. */
static TideStatus slot_tensor(Proof *pr, int slot)
{
    const Slot *s = &pr->section->slots[slot];

    if (s->tensor == 0) {
        if (s->space != SPACE_DEVICE || s->bytes == 0)
            return proof_refuse(pr, "%s: scratch must lie on the device and have bytes",
                                slot_text(pr, slot).s);
        return TIDE_OK;
    }
    const Tensor *t = pr->program->tensors[s->tensor];
    if (t->graph >= 0 && t->graph != pr->graph->index)
        return proof_refuse(pr, "%s holds a tensor of graph \"%s\"", slot_text(pr, slot).s,
                            pr->program->graphs[t->graph]->name);
    if (s->bytes < t->bytes)
        return proof_refuse(pr, "%s is too small: the tensor takes %zu bytes", slot_text(pr, slot).s,
                            t->bytes);
    if (t->graph < 0) {
        if (pr->home_of[t->flat ? t->flat : s->tensor] == NONE)
            return proof_refuse(pr, "%s holds a persistent tensor that has no home", slot_text(pr, slot).s);
        TRY(slot_at_home(pr, slot));
    }
    return s->space == SPACE_STAGE ? slot_in_stage(pr, slot) : TIDE_OK;
}

static TideStatus check_slot(Proof *pr, int slot)
{
    const Slot *s = &pr->section->slots[slot];
    size_t alignment = pr->program->tide->backend->alignment;

    if (!in_range(s->tensor, pr->program->n_tensors))
        return proof_refuse(pr, "slot %d holds tensor %d; the program has tensors 1 to %d (0: scratch)", slot,
                            s->tensor, pr->program->n_tensors - 1);
    if (!in_range((int)s->space, SPACE_COUNT))
        return proof_refuse(pr, "slot %d lies in space %d of %d", slot, (int)s->space, SPACE_COUNT);
    size_t arena = pr->plan->arena_bytes[s->space];
    if (s->offset > arena || s->bytes > arena - s->offset)
        return proof_refuse(pr, "%s leaves its arena of %zu bytes", slot_text(pr, slot).s, arena);
    if (s->offset % alignment)
        return proof_refuse(pr, "%s does not start at a multiple of %zu bytes", slot_text(pr, slot).s,
                            alignment);
    return slot_tensor(pr, slot);
}

/* What slots hold when the section starts: inputs in staging memory, persistent tensors at home. */
static void fill_slots(Proof *pr)
{
    for (int i = 0; i < pr->section->n_slots; i++) {
        int id = pr->section->slots[i].tensor;
        bool full = (pr->home[id] == i && pr->fact[id].live_in) ||
                    (pr->stage[id] == i && pr->program->tensors[id]->kind == TIDE_INPUT);

        memset(&pr->use[i], 0xff, sizeof pr->use[i]); /* all NONE */
        pr->use[i].version = full ? 0 : NONE;
    }
}

/* ---- Steps ---------------------------------------------------------------- */

/* Argument a of a run, which its node wants to hold tensor id (0: left out). */
static TideStatus check_arg(const Proof *pr, int step, int a, int id)
{
    const Step *s = &pr->section->steps[step];
    int slot = pr->section->args[s->first_arg + a];

    if (id == 0 && slot == NONE) return TIDE_OK;
    if (id == 0)
        return proof_refuse(pr, "%s: argument %d is slot %d, but the node leaves it out",
                            step_text(pr, step).s, a, slot);
    if (!in_range(slot, pr->section->n_slots))
        return proof_refuse(pr, "%s: argument %d is slot %d of %d", step_text(pr, step).s, a, slot,
                            pr->section->n_slots);
    const Slot *at = &pr->section->slots[slot];
    if (at->tensor != id)
        return proof_refuse(pr, "%s: argument %d must be tensor %d (%s), but is %s", step_text(pr, step).s, a,
                            id, program_tensor(pr->program, id)->name, slot_text(pr, slot).s);
    if (at->space != SPACE_DEVICE)
        return proof_refuse(pr, "%s: argument %d, %s, is not on the device", step_text(pr, step).s, a,
                            slot_text(pr, slot).s);
    return TIDE_OK;
}

static TideStatus check_scratch(const Proof *pr, int step, int slot)
{
    const Node *n = pr->graph->nodes[pr->section->steps[step].node];
    size_t wanted = node_scratch(pr->program, n);

    if (slot == NONE && wanted == 0) return TIDE_OK;
    if (slot == NONE)
        return proof_refuse(pr, "%s needs %zu bytes of scratch and gets none", step_text(pr, step).s, wanted);
    if (!in_range(slot, pr->section->n_slots))
        return proof_refuse(pr, "%s: scratch is slot %d of %d", step_text(pr, step).s, slot,
                            pr->section->n_slots);
    const Slot *s = &pr->section->slots[slot];
    if (s->tensor != 0)
        return proof_refuse(pr, "%s: scratch is %s, which holds a tensor", step_text(pr, step).s,
                            slot_text(pr, slot).s);
    if (s->bytes < wanted)
        return proof_refuse(pr, "%s needs %zu bytes of scratch, but %s is smaller", step_text(pr, step).s,
                            wanted, slot_text(pr, slot).s);
    return TIDE_OK;
}

/* A tensor that is read and written in place is one slot. */
static TideStatus check_in_place(const Proof *pr, int step, const Node *n)
{
    const int *arg = pr->section->args + pr->section->steps[step].first_arg;

    for (int i = 0; i < n->n_out; i++)
        for (int j = 0; n->out[i].id && j < n->n_in; j++)
            if (n->in[j].id == n->out[i].id && arg[j] != arg[n->n_in + i])
                return proof_refuse(pr, "%s reads %s and writes %s, which must be one slot",
                                    step_text(pr, step).s, slot_text(pr, arg[j]).s,
                                    slot_text(pr, arg[n->n_in + i]).s);
    return TIDE_OK;
}

static TideStatus check_run(const Proof *pr, int step)
{
    const Section *sec = pr->section;
    const Step *s = &sec->steps[step];

    if (!in_range(s->node, pr->graph->n_nodes))
        return proof_refuse(pr, "step %d runs node %d of %d", step, s->node, pr->graph->n_nodes);
    if (s->lane != LANE_COMPUTE)
        return proof_refuse(pr, "%s: nodes run on the compute lane only", step_text(pr, step).s);
    const Node *n = pr->graph->nodes[s->node];
    int n_args = n->n_in + n->n_out + 1;
    if (s->first_arg < 0 || n_args > sec->n_args || s->first_arg > sec->n_args - n_args)
        return proof_refuse(pr, "%s takes %d arguments from %d on, but there are %d", step_text(pr, step).s,
                            n_args, s->first_arg, sec->n_args);
    for (int i = 0; i < n->n_in; i++) TRY(check_arg(pr, step, i, n->in[i].id));
    for (int i = 0; i < n->n_out; i++) TRY(check_arg(pr, step, n->n_in + i, n->out[i].id));
    TRY(check_scratch(pr, step, sec->args[s->first_arg + n_args - 1]));
    return check_in_place(pr, step, n);
}

/* A copy moves as many bytes as the smaller slot has: into the home of a view these must be no more
 * than the view's, since its neighbour may follow. */
static TideStatus check_copy(const Proof *pr, int step)
{
    const Section *sec = pr->section;
    const Step *s = &sec->steps[step];

    if (!in_range(s->src, sec->n_slots) || !in_range(s->dst, sec->n_slots))
        return proof_refuse(pr, "step %d copies slot %d to slot %d of %d", step, s->src, s->dst,
                            sec->n_slots);
    const Slot *src = &sec->slots[s->src], *dst = &sec->slots[s->dst];
    if (src->tensor == 0 || src->tensor != dst->tensor)
        return proof_refuse(pr, "%s: %s and %s do not hold one tensor", step_text(pr, step).s,
                            slot_text(pr, s->src).s, slot_text(pr, s->dst).s);
    if ((src->space == SPACE_DEVICE) == (dst->space == SPACE_DEVICE))
        return proof_refuse(pr, "%s goes from %s to %s; copies go between the device and the host",
                            step_text(pr, step).s, slot_text(pr, s->src).s, slot_text(pr, s->dst).s);
    size_t moved = src->bytes < dst->bytes ? src->bytes : dst->bytes;
    if (pr->home[dst->tensor] == s->dst && moved > pr->program->tensors[dst->tensor]->bytes)
        return proof_refuse(pr, "%s writes %zu bytes to %s, more than the tensor's %zu",
                            step_text(pr, step).s, moved, slot_text(pr, s->dst).s,
                            pr->program->tensors[dst->tensor]->bytes);
    return TIDE_OK;
}

static TideStatus check_step(const Proof *pr, int step)
{
    const Step *s = &pr->section->steps[step];

    if (!in_range((int)s->kind, STEP_KIND_COUNT))
        return proof_refuse(pr, "step %d is of kind %d of %d", step, (int)s->kind, STEP_KIND_COUNT);
    if (!in_range((int)s->lane, LANE_COUNT))
        return proof_refuse(pr, "step %d (%s) is on lane %d of %d", step, step_names[s->kind], (int)s->lane,
                            LANE_COUNT);
    if (s->kind == STEP_RUN) return check_run(pr, step);
    if (s->kind == STEP_COPY) return check_copy(pr, step);
    if (!in_range(s->event, pr->section->n_events))
        return proof_refuse(pr, "step %d (%s) names event %d of %d", step, step_names[s->kind], s->event,
                            pr->section->n_events);
    return TIDE_OK;
}

TideStatus proof_structure(Proof *pr)
{
    for (int i = 0; i < pr->section->n_slots; i++) TRY(check_slot(pr, i));
    fill_slots(pr);
    for (int i = 0; i < pr->section->n_steps; i++) TRY(check_step(pr, i));
    return TIDE_OK;
}
