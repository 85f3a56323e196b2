/* account.c - walk the steps of a plan and add up who is alive. */
#include "runtime/report/account.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/holding.h"

static const char *const part_names[PART_COUNT] = {
    [PART_PARAMETERS] = "parameters", [PART_GRADIENTS] = "gradients",     [PART_OPTIMIZER] = "optimizer",
    [PART_INPUTS] = "inputs",         [PART_ACTIVATIONS] = "activations", [PART_OTHERS] = "others",
    [PART_SCRATCH] = "scratch",
};

static const AccountPart part_of_kind[TIDE_KIND_COUNT] = {
    [TIDE_INPUT] = PART_INPUTS,    [TIDE_PARAMETER] = PART_PARAMETERS,   [TIDE_GRADIENT] = PART_GRADIENTS,
    [TIDE_STATE] = PART_OPTIMIZER, [TIDE_ACTIVATION] = PART_ACTIVATIONS, [TIDE_OTHER] = PART_OTHERS,
};

/* A range of the device arena that something holds from step first to step last. */
typedef struct Stay {
    int tensor, first, last;
    size_t begin, end;
} Stay;

typedef struct Walk {
    const TideProgram *p;
    const TidePlan *plan;
    const Section *section;
    const TideGraph *graph;
    Stay *stays; /* [n_stays], by begin */
    int n_stays;
    const Holding *holding; /* by tensor */
    Pool pool;
} Walk;

static int by_begin(const void *a, const void *b)
{
    const Stay *x = a, *y = b;

    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->tensor - y->tensor;
}

static void touch(Stay *s, int step)
{
    if (s->first < 0) s->first = step;
    s->last = step;
}

/* Give every slot of the section its lifetime in steps. */
static void find_lifetimes(const Walk *w, Stay *by_slot)
{
    const Section *s = w->section;

    for (int i = 0; i < s->n_steps; i++) {
        const Step *step = &s->steps[i];
        if (step->kind == STEP_COPY) {
            touch(&by_slot[step->src], i);
            touch(&by_slot[step->dst], i);
        }
        if (step->kind != STEP_RUN) continue;
        const Node *n = w->graph->nodes[step->node];
        for (int a = 0; a < n->n_in + n->n_out + 1; a++)
            if (s->args[step->first_arg + a] >= 0) touch(&by_slot[s->args[step->first_arg + a]], i);
    }
}

/* Is the flat tensor, or a view of it, a slot of the section? */
static bool section_has(const Walk *w, int flat)
{
    for (int i = 0; i < w->section->n_slots; i++) {
        const Tensor *t = program_tensor(w->p, w->section->slots[i].tensor);
        if (t && (t->flat == flat || w->section->slots[i].tensor == flat)) return true;
    }
    return false;
}

/* Persistent tensors hold their homes throughout, except gradients before their first write. */
static void add_homes(Walk *w, int always)
{
    for (int i = 0; i < w->plan->n_homes; i++) {
        const Home *h = &w->plan->homes[i];
        bool gradient = program_tensor(w->p, h->tensor)->kind == TIDE_GRADIENT;
        if (h->space != SPACE_DEVICE) continue;
        if (gradient && (section_has(w, h->tensor) || !w->holding[h->tensor].live_in)) continue;
        w->stays[w->n_stays++] = (Stay){ h->tensor, 0, always, h->offset, h->offset + h->bytes };
    }
}

static void find_stays(Walk *w)
{
    const Section *s = w->section;
    int n = s->n_slots, end = s->n_steps - 1;

    for (int i = 0; i < n; i++)
        w->stays[i] =
            (Stay){ s->slots[i].tensor, -1, -1, s->slots[i].offset, s->slots[i].offset + s->slots[i].bytes };
    find_lifetimes(w, w->stays);
    for (int i = 0; i < n; i++) {
        const Tensor *t = program_tensor(w->p, s->slots[i].tensor);
        if (s->slots[i].space != SPACE_DEVICE || w->stays[i].first < 0) continue;
        if (t && t->graph < 0 && w->holding[s->slots[i].tensor].live_in) w->stays[i].first = 0;
        if (t && t->graph < 0 && w->holding[s->slots[i].tensor].live_out) w->stays[i].last = end;
        w->stays[w->n_stays++] = w->stays[i];
    }
    add_homes(w, end);
    qsort(w->stays, (size_t)w->n_stays, sizeof *w->stays, by_begin);
}

static bool walk_begin(Walk *w, const TideProgram *p, const TidePlan *plan, const Section *s)
{
    *w = (Walk){ .p = p, .plan = plan, .section = s, .graph = p->graphs[s->graph] };
    w->holding = graph_holding(w->graph, &w->pool);
    w->stays = pool_new(&w->pool, (size_t)(s->n_slots + plan->n_homes), sizeof *w->stays);
    if (w->pool.failed) return false;
    find_stays(w);
    return true;
}

static AccountPart part_of(const Walk *w, int tensor)
{
    return tensor ? part_of_kind[program_tensor(w->p, tensor)->kind] : PART_SCRATCH;
}

/* Bytes held at a step, each byte counted once: an output may lie where its input dies.
 * part[] (if not NULL) gets the share of each. */
static size_t bytes_at(const Walk *w, int step, size_t *part)
{
    size_t covered = 0, live = 0;

    for (int i = 0; i < w->n_stays; i++) {
        const Stay *s = &w->stays[i];
        if (step < s->first || step > s->last || s->end <= covered) continue;
        size_t bytes = s->end - (s->begin > covered ? s->begin : covered);
        live += bytes;
        covered = s->end;
        if (part) part[part_of(w, s->tensor)] += bytes;
    }
    return live;
}

static const char *step_subject(const Walk *w, int step)
{
    for (int i = step; i >= 0; i--) {
        const Step *s = &w->section->steps[i];
        if (s->kind == STEP_RUN) return w->graph->nodes[s->node]->name;
        if (s->kind == STEP_COPY) return program_tensor(w->p, w->section->slots[s->src].tensor)->name;
    }
    return "the start";
}

static void insert_holder(Account *a, Holder h)
{
    int at = a->n_holders < MAX_HOLDERS ? a->n_holders++ : MAX_HOLDERS;

    if (at == MAX_HOLDERS && h.bytes <= a->holders[MAX_HOLDERS - 1].bytes) return;
    if (at == MAX_HOLDERS) at--;
    while (at > 0 && a->holders[at - 1].bytes < h.bytes) a->holders[at] = a->holders[at - 1], at--;
    a->holders[at] = h;
}

static void describe_moment(const Walk *w, int step, Account *a)
{
    a->n_holders = 0;
    memset(a->part, 0, sizeof a->part);
    a->live = bytes_at(w, step, a->part);
    a->step = step;
    a->n_steps = w->section->n_steps;
    a->graph = w->graph->name;
    a->node = step_subject(w, step);
    for (int i = 0; i < w->n_stays; i++) {
        const Stay *s = &w->stays[i];
        const Tensor *t = program_tensor(w->p, s->tensor);
        if (step < s->first || step > s->last || (t && t->graph < 0)) continue;
        insert_holder(a, (Holder){ t ? t->name : "scratch", s->end - s->begin });
    }
}

TideStatus account_make(const TideProgram *p, const TidePlan *plan, Account *out)
{
    *out = (Account){ .graph = "", .node = "", .arena = plan->arena_bytes[SPACE_DEVICE] };
    for (int i = 0; i < plan->n_sections; i++) {
        Walk w;
        int fullest = -1;
        if (!walk_begin(&w, p, plan, &plan->sections[i])) {
            pool_free(&w.pool);
            return tide_fail(p->tide, TIDE_NO_MEMORY, "no memory to account for the plan");
        }
        size_t most = out->live;
        for (int s = 0; s < w.section->n_steps; s++) {
            size_t bytes = bytes_at(&w, s, NULL);
            if (bytes > most) most = bytes, fullest = s;
        }
        if (fullest >= 0) describe_moment(&w, fullest, out);
        pool_free(&w.pool);
    }
    return TIDE_OK;
}

void account_print(const Account *a, size_t fixed_bytes, FILE *to)
{
    char text[BYTES_TEXT];

    fprintf(to, "memory at the fullest moment: step %d of %d of graph %s, at %s\n", a->step, a->n_steps,
            a->graph, a->node);
    fprintf(to, "  %-12s %14s\n", "fixed", bytes_text(fixed_bytes, text));
    for (int i = 0; i < PART_COUNT; i++)
        fprintf(to, "  %-12s %14s\n", part_names[i], bytes_text(a->part[i], text));
    fprintf(to, "  %-12s %14s\n", "unused", bytes_text(a->arena > a->live ? a->arena - a->live : 0, text));
    fprintf(to, "  %-12s %14s\n", "together", bytes_text(a->arena + fixed_bytes, text));
    fprintf(to, "  held then:");
    for (int i = 0; i < a->n_holders; i++)
        fprintf(to, "%s %s %s", i ? "," : "", a->holders[i].tensor, bytes_text(a->holders[i].bytes, text));
    fprintf(to, "\n");
}
