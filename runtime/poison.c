/* poison.c - overwrite dead slots with NaN, to make a wrong lifetime visible.
 *
 * The fill is issued right behind the step of the last use, on the same lane, so every
 * record that proves that use over proves the fill over, too. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/exec.h"

/* Note in last[] the step of the last use of each slot; -1: unused, or used by a copy. */
static void find_last_uses(const Section *s, const TideGraph *g, int *last)
{
    for (int i = 0; i < s->n_slots; i++) last[i] = -1;
    for (int i = 0; i < s->n_steps; i++) {
        const Step *st = &s->steps[i];
        if (st->kind != STEP_RUN) continue;
        const Node *n = g->nodes[st->node];
        for (int a = 0; a < n->n_in + n->n_out + 1; a++)
            if (s->args[st->first_arg + a] >= 0) last[s->args[st->first_arg + a]] = i;
    }
    for (int i = 0; i < s->n_steps; i++)
        if (s->steps[i].kind == STEP_COPY) last[s->steps[i].src] = last[s->steps[i].dst] = -1;
}

/* True if another slot that step uses lies on the same bytes: an output in place. */
static bool shares_bytes(const Section *s, const TideGraph *g, int step, int slot)
{
    const Step *st = &s->steps[step];
    const Slot *a = &s->slots[slot];
    int n_args = g->nodes[st->node]->n_in + g->nodes[st->node]->n_out + 1;

    for (int i = 0; i < n_args; i++) {
        int other = s->args[st->first_arg + i];
        if (other < 0 || other == slot) continue;
        const Slot *b = &s->slots[other];
        if (a->space == b->space && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
            return true;
    }
    return false;
}

TideStatus poison_prepare(const TideRun *r, SectionRun *sr)
{
    const Section *s = sr->section;
    int *last = malloc(((size_t)s->n_slots + 1) * sizeof *last);

    sr->poisoned = calloc((size_t)s->n_slots + 1, sizeof *sr->poisoned);
    if (!last || !sr->poisoned) {
        free(last);
        return tide_fail(r->program->tide, TIDE_NO_MEMORY, "no memory to prepare graph %s", sr->graph->name);
    }
    find_last_uses(s, sr->graph, last);
    for (int i = 0; i < s->n_slots; i++) {
        const Tensor *t = program_tensor(r->program, s->slots[i].tensor);
        bool dies = last[i] >= 0 && s->slots[i].space == SPACE_DEVICE && (!t || t->graph >= 0);
        if (dies && !shares_bytes(s, sr->graph, last[i], i))
            sr->poisoned[sr->n_poisoned++] = (Poison){ last[i], i };
    }
    free(last);
    return TIDE_OK;
}

TideStatus poison_after(TideRun *r, const SectionRun *sr, int step)
{
    for (int i = 0; i < sr->n_poisoned; i++) {
        if (sr->poisoned[i].step != step) continue;
        const Slot *slot = &sr->section->slots[sr->poisoned[i].slot];
        char *at = (char *)r->arena[SPACE_DEVICE] + slot->offset;
        TRY(r->be->fill(r->lane[sr->section->steps[step].lane], at, 0xFF, slot->bytes));
    }
    return TIDE_OK;
}
