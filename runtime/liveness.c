/* liveness.c - order, uses, and who has a choice. */
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/liveness.h"

static void note_use(Facts *f, int t, int node)
{
    Uses *u = &f->uses[t];

    if (u->first == NO_NODE) u->first = node;
    u->last = node;
    if (node < f->problem->turn) u->last_forward = node;
    if (node >= f->problem->turn && u->first_backward == NO_NODE) u->first_backward = node;
}

static void find_uses(Facts *f)
{
    const Problem *p = f->problem;

    for (int t = 0; t < p->n_tensors; t++)
        f->uses[t] =
            (Uses){ .first = NO_NODE, .last = NO_NODE, .last_forward = NO_NODE, .first_backward = NO_NODE };
    for (int i = 0; i < p->n_nodes; i++) {
        const CostNode *n = &p->nodes[i];
        if (n->again) continue;
        f->order[f->n_order++] = i;
        for (int j = 0; j < n->n_in; j++) note_use(f, n->in[j], i);
        for (int j = 0; j < n->n_out; j++) note_use(f, n->out[j], i);
        for (int j = 0; j < n->n_out; j++) f->uses[n->out[j]].writers++;
    }
}

/* A re-run sees what the first run saw if each input has one value for the whole graph, and does
 * no harm if each output has. */
static bool is_repeatable(const Facts *f, int node)
{
    const CostNode *n = &f->problem->nodes[node];

    if (n->once) return false;
    for (int j = 0; j < n->n_in; j++) {
        const CostTensor *t = &f->problem->tensors[n->in[j]];
        int writers = f->uses[n->in[j]].writers;
        if (writers > (t->fixed || t->input ? 0 : 1)) return false;
    }
    for (int j = 0; j < n->n_out; j++)
        if (f->problem->tensors[n->out[j]].fixed || f->uses[n->out[j]].writers > 1) return false;
    return true;
}

int facts_remaker(const Facts *f, int t)
{
    const CostTensor *x = &f->problem->tensors[t];
    bool producer = x->producer != NO_NODE && f->repeatable[x->producer];

    if (x->again != NO_NODE && f->repeatable[x->again]) return x->again;
    return producer ? x->producer : NO_NODE;
}

static void find_choices(Facts *f, Limits limits)
{
    const Problem *p = f->problem;

    for (int t = 0; t < p->n_tensors; t++) {
        const CostTensor *x = &p->tensors[t];
        Uses *u = &f->uses[t];
        bool crosses = u->first != NO_NODE && u->first < p->turn && u->first_backward != NO_NODE;

        if (x->kind != TIDE_ACTIVATION || x->fixed || x->input || x->output) continue;
        if (!crosses || u->writers != 1) continue;
        u->choice = true;
        u->can_recompute = !limits.no_recompute && facts_remaker(f, t) != NO_NODE;
        u->can_offload = !limits.no_offload && p->link.out > 0 && p->link.in > 0;
        f->choices[f->n_choices++] = t;
    }
}

/* Insertion is enough: views come nearly in order. */
static void sort_fixed(Facts *f)
{
    const CostTensor *x = f->problem->tensors;

    for (int t = 0; t < f->problem->n_tensors; t++) {
        if (!x[t].fixed) continue;
        int i = f->n_fixed++;
        for (; i > 0 && x[f->fixed[i - 1]].offset > x[t].offset; i--) f->fixed[i] = f->fixed[i - 1];
        f->fixed[i] = t;
    }
}

static void count_bytes(Facts *f)
{
    const Problem *p = f->problem;

    f->always = p->static_bytes;
    for (int t = 0; t < p->n_tensors; t++) {
        const CostTensor *x = &p->tensors[t];
        if (x->fixed) f->always -= x->bytes;
        if (x->input || x->output)
            f->stage_bytes += align_up(x->bytes, p->alignment) * (size_t)(x->input + x->output);
    }
}

TideStatus facts_new(const Problem *p, Limits limits, Facts **out)
{
    Facts *f = calloc(1, sizeof *f);

    *out = NULL;
    if (!f) return TIDE_NO_MEMORY;
    f->problem = p;
    f->uses = pool_new(&f->pool, (size_t)p->n_tensors, sizeof *f->uses);
    f->order = pool_new(&f->pool, (size_t)p->n_nodes, sizeof *f->order);
    f->repeatable = pool_new(&f->pool, (size_t)p->n_nodes, sizeof *f->repeatable);
    f->choices = pool_new(&f->pool, (size_t)p->n_tensors, sizeof *f->choices);
    f->fixed = pool_new(&f->pool, (size_t)p->n_tensors, sizeof *f->fixed);
    if (f->pool.failed) {
        facts_free(f);
        return TIDE_NO_MEMORY;
    }
    find_uses(f);
    for (int i = 0; i < p->n_nodes; i++) f->repeatable[i] = is_repeatable(f, i);
    find_choices(f, limits);
    sort_fixed(f);
    count_bytes(f);
    *out = f;
    return TIDE_OK;
}

void facts_free(Facts *f)
{
    if (!f) return;
    pool_free(&f->pool);
    free(f);
}
