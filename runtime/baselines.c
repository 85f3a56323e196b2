/* baselines.c - fates by fixed rules, as other systems have them.
 *
 * A segment is one or several top-level layers ("block7" of "block7/mlp"). Recomputing keeps
 * only what crosses from one segment into another, and what is tiny. */
#include <math.h>
#include <string.h>
#include "runtime/search.h"

enum { TINY = 32 }; /* a tensor of less than 1/32 of the largest is always kept: statistics of rows */

bool fate_is_allowed(const Facts *f, int t, TideFate fate)
{
    TideFate forced = f->problem->tensors[t].forced;

    if (forced != TIDE_AUTO && forced != fate) return false;
    if (fate == TIDE_RECOMPUTE) return f->uses[t].can_recompute;
    if (fate == TIDE_OFFLOAD) return f->uses[t].can_offload;
    return true;
}

TideFate fate_by_default(const Facts *f, int t)
{
    TideFate forced = f->problem->tensors[t].forced;

    return forced != TIDE_AUTO ? forced : TIDE_KEEP;
}

static size_t outer_length(const char *layer)
{
    return strcspn(layer, "/");
}

/* Is the outermost layer of node b another one than that of node a? */
static bool other_layer(const Problem *p, int a, int b)
{
    const char *x = p->layers[p->nodes[a].layer], *y = p->layers[p->nodes[b].layer];
    size_t n = outer_length(x);

    return n != outer_length(y) || strncmp(x, y, n) != 0;
}

int layers_of_choices(const Facts *f, int *layer)
{
    int n = 0;

    for (int i = 0; i < f->n_choices; i++) {
        int producer = f->problem->tensors[f->choices[i]].producer;
        int before = i ? f->problem->tensors[f->choices[i - 1]].producer : producer;
        n += i == 0 || (before != producer && other_layer(f->problem, before, producer));
        layer[i] = n - 1;
    }
    return n;
}

/* Number the forward nodes' layers in order of appearance; returns how many there are. */
static int number_layers(const Facts *f, int *layer_of)
{
    const Problem *p = f->problem;
    int n = 0, before = -1;

    for (int i = 0; i < f->n_order && f->order[i] < p->turn; i++) {
        int node = f->order[i];
        if (before < 0 || other_layer(p, before, node)) n++;
        layer_of[node] = n - 1;
        before = node;
    }
    return n;
}

/* Mark tensors that a forward node of another segment than its producer's reads. */
static void find_crossing(const Facts *f, const int *layer_of, int layers_each, bool *crosses)
{
    const Problem *p = f->problem;

    for (int i = 0; i < f->n_order && f->order[i] < p->turn; i++) {
        const CostNode *n = &p->nodes[f->order[i]];
        for (int j = 0; j < n->n_in; j++) {
            int producer = p->tensors[n->in[j]].producer;
            if (producer == NO_NODE || producer >= p->turn) continue;
            if (layer_of[producer] / layers_each != layer_of[f->order[i]] / layers_each)
                crosses[n->in[j]] = true;
        }
    }
}

static size_t largest_choice(const Facts *f)
{
    size_t most = 0;

    for (int i = 0; i < f->n_choices; i++)
        if (f->problem->tensors[f->choices[i]].bytes > most) most = f->problem->tensors[f->choices[i]].bytes;
    return most;
}

/* Everything again from what crosses; crossing tensors have the fate `border`. */
static void recompute_segments(const Facts *f, TidePolicy policy, TideFate border, TideFate *fates)
{
    const Problem *p = f->problem;
    Pool pool = { 0 };
    int *layer_of = pool_new(&pool, (size_t)p->n_nodes, sizeof *layer_of);
    bool *crosses = pool_new(&pool, (size_t)p->n_tensors, sizeof *crosses);
    size_t most = largest_choice(f);

    if (!pool.failed) {
        int n = number_layers(f, layer_of);
        int each = policy == TIDE_POLICY_SQRT ? (int)lround(sqrt(n)) : 1;
        find_crossing(f, layer_of, each > 1 ? each : 1, crosses);
        for (int i = 0; i < f->n_choices; i++) {
            int t = f->choices[i];
            if (crosses[t] && p->tensors[t].again == NO_NODE)
                fates[t] = border;
            else
                fates[t] = p->tensors[t].bytes * TINY < most ? TIDE_KEEP : TIDE_RECOMPUTE;
        }
    }
    pool_free(&pool);
}

void baseline_fates(const Facts *f, TidePolicy policy, TideFate *fates)
{
    const Problem *p = f->problem;

    for (int t = 0; t < p->n_tensors; t++) fates[t] = TIDE_KEEP;
    switch (policy) {
    case TIDE_POLICY_RECOMPUTE:
    case TIDE_POLICY_SQRT: recompute_segments(f, policy, TIDE_KEEP, fates); break;
    case TIDE_POLICY_OFFLOAD_INPUTS: recompute_segments(f, policy, TIDE_OFFLOAD, fates); break;
    case TIDE_POLICY_OFFLOAD:
        for (int i = 0; i < f->n_choices; i++) fates[f->choices[i]] = TIDE_OFFLOAD;
        break;
    case TIDE_POLICY_AUTO:
    case TIDE_POLICY_KEEP:
    case TIDE_POLICY_COUNT: break;
    }
    for (int i = 0; i < f->n_choices; i++) {
        int t = f->choices[i];
        if (!fate_is_allowed(f, t, fates[t])) fates[t] = fate_by_default(f, t);
    }
}
