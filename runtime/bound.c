/* bound.c - device bytes that no plan of a graph can do without.
 *
 * When a node of the order runs, its inputs, outputs and scratch are on the device, and so is
 * everything that has no choice and is alive. Whatever else a plan does only adds to that. */
#include "runtime/evaluate.h"

/* Bytes of the stays that run `at` reads and writes and that have a choice; an output counts nothing
 * where some plan might write it over an input. */
static size_t own_bytes(const Schedule *s, int at)
{
    const CostNode *n = &s->facts->problem->nodes[s->runs[at].node];
    const int *args = &s->args[s->runs[at].first_arg];
    size_t bytes = 0;

    for (int j = 0; j < n->n_in + n->n_out; j++) {
        const Stay *x = &s->stays[args[j]];
        bool seen = false;
        for (int k = 0; k < j; k++) seen = seen || args[k] == args[j];
        if (!seen && s->facts->uses[x->tensor].choice) bytes += x->bytes;
    }
    return bytes;
}

/* What own_bytes() or the stays without choice count for an output that may lie on an input. */
static size_t shared_bytes(const Schedule *s, int at)
{
    const CostNode *n = &s->facts->problem->nodes[s->runs[at].node];
    const int *args = &s->args[s->runs[at].first_arg];

    if (n->in_place < 0) return 0;
    const Stay *in = &s->stays[args[n->in_place]], *out = &s->stays[args[n->n_in]];
    if (in->fixed || out->fixed || in == out || in->bytes != out->bytes) return 0;
    bool counted = s->facts->uses[out->tensor].choice || out->group == args[n->n_in];
    return counted ? out->bytes : 0;
}

size_t least_bound(Evaluator *e, const TideFate *keep)
{
    Schedule *s = e->schedule;
    size_t most = 0;

    schedule_build(s, keep);
    for (int i = 0; i < s->n_stays; i++) /* those with a choice count only where they are used */
        if (s->stays[i].tensor >= 0 && s->facts->uses[s->stays[i].tensor].choice) s->stays[i].bytes = 0;
    schedule_count_live(s);
    for (int i = 0; i < s->n_stays; i++)
        if (s->stays[i].tensor >= 0) s->stays[i].bytes = s->facts->problem->tensors[s->stays[i].tensor].bytes;
    for (int at = 0; at < s->n_runs; at++) {
        size_t bytes = s->live[at] + own_bytes(s, at) - shared_bytes(s, at);
        if (bytes > most) most = bytes;
    }
    return most;
}
