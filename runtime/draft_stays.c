/* draft_stays.c - from when to when tensors take bytes, and the sums of that. */
#include "runtime/draft.h"

/* ---- Sums ---------------------------------------------------------------- */

static size_t *up_at(Draft *d, Moment m)
{
    Chunk *c = &d->chunks[moment_chunk(m)];

    return moment_rerun(m) == FIRST_RUN ? &c->up : &d->store[c->first + moment_rerun(m)].up;
}

static size_t *down_at(Draft *d, Moment m)
{
    Chunk *c = &d->chunks[moment_chunk(m)];

    return moment_rerun(m) == FIRST_RUN ? &c->down : &d->store[c->first + moment_rerun(m)].down;
}

void draft_lift(Draft *d, int t)
{
    size_t bytes = d->facts->problem->tensors[t].bytes;

    for (int i = 0; i < 2; i++) {
        if (d->stays[t].from[i] == NEVER) continue;
        *up_at(d, d->stays[t].from[i]) -= bytes;
        *down_at(d, d->stays[t].to[i]) -= bytes;
        d->stays[t].from[i] = NEVER;
    }
}

/* ---- Stays --------------------------------------------------------------- */

static Moment first_run(const Draft *d, int node)
{
    return moment_of(d->index[node], FIRST_RUN);
}

static Moment later(Moment a, Moment b)
{
    return a > b ? a : b;
}

/* Re-runs that read a tensor: the first, the last, and the last before this moment (-1: none). */
typedef struct Reads {
    Moment first, last, last_before;
} Reads;

static Reads reads_of(const Draft *d, int t, Moment before)
{
    const Problem *p = d->facts->problem;
    Reads r = { NEVER, -1, -1 };

    for (int i = d->readers.start[t]; i < d->readers.start[t + 1]; i++) {
        const CostNode *n = &p->nodes[d->readers.items[i]];
        for (int j = 0; j < n->n_out; j++) {
            Moment m = d->made[n->out[j]];
            if (d->remaker[n->out[j]] != d->readers.items[i]) continue;
            if (m < r.first) r.first = m;
            r.last = later(r.last, m);
            if (m < before) r.last_before = later(r.last_before, m);
        }
    }
    return r;
}

/* What is there from the start, or until the end, or has no fate. */
static Stays stays_without_choice(const Draft *d, int t)
{
    const CostTensor *x = &d->facts->problem->tensors[t];
    const Uses *u = &d->facts->uses[t];
    bool from_start = x->input || (x->fixed && x->live_in), to_end = x->output || (x->fixed && x->live_out);
    Stays s = { .from = { NEVER, NEVER } };
    Moment start = moment_of(0, FIRST_RUN), end = moment_of(d->facts->n_order - 1, FIRST_RUN);

    if (u->first == NO_NODE && !from_start && !(x->fixed && x->live_out)) return s;
    Reads r = reads_of(d, t, d->made[t]);
    s.from[0] = from_start || u->first == NO_NODE ? start : first_run(d, u->first);
    s.to[0] = to_end ? end : later(u->last == NO_NODE ? start : first_run(d, u->last), r.last_before);
    if (d->made[t] == NEVER) return s;
    s.from[1] = d->made[t];
    s.to[1] = later(d->made[t], r.last);
    return s;
}

static Stays stays_of(const Draft *d, int t)
{
    const Uses *u = &d->facts->uses[t];

    if (!u->choice) return stays_without_choice(d, t);
    Reads r = reads_of(d, t, NEVER);
    Moment last = later(first_run(d, u->last), r.last);
    Stays s = { .from = { first_run(d, u->first), NEVER }, .to = { last, 0 } };
    if (d->fates[t] != TIDE_RECOMPUTE && d->fates[t] != TIDE_OFFLOAD) return s;
    Moment need = first_run(d, u->first_backward);
    s.to[0] = first_run(d, u->last_forward);
    s.from[1] = d->fates[t] == TIDE_RECOMPUTE ? d->made[t] : r.first < need ? r.first : need;
    s.to[1] = last;
    return s;
}

void draft_drop(Draft *d, int t)
{
    size_t bytes = d->facts->problem->tensors[t].bytes;
    Stays s = stays_of(d, t);

    d->stays[t] = s;
    for (int i = 0; i < 2; i++) {
        if (s.from[i] == NEVER) continue;
        *up_at(d, s.from[i]) += bytes;
        *down_at(d, s.to[i]) += bytes;
    }
}

/* ---- Sharing places ------------------------------------------------------ */

/* Does the stay of t that a run reads end there, and may it be written over? */
static bool dies_at(const Draft *d, int t, Moment m)
{
    const Stays *s = &d->stays[t];
    bool leaves = d->facts->uses[t].choice && d->fates[t] == TIDE_OFFLOAD;

    if (s->from[1] != NEVER && s->to[1] == m) return true;
    return s->from[0] != NEVER && s->to[0] == m && !leaves;
}

static void save_at(Draft *d, const CostNode *n, int t, Moment m, bool *saves)
{
    size_t bytes = d->facts->problem->tensors[n->out[0]].bytes;
    bool now = dies_at(d, t, m);

    if (now == *saves) return;
    *saves = now;
    *up_at(d, m) += now ? -bytes : bytes;
    *down_at(d, m) += now ? -bytes : bytes;
}

void draft_save(Draft *d, int t)
{
    const Problem *p = d->facts->problem;

    for (int i = d->over.start[t]; i < d->over.start[t + 1]; i++) {
        int node = d->over.items[i];
        const CostNode *n = &p->nodes[node];
        if (d->index[node] >= 0) {
            Moment m = first_run(d, node);
            if (d->stays[n->out[0]].from[0] == m) save_at(d, n, t, m, &d->chunks[d->index[node]].saves);
        }
        for (int j = 0; j < n->n_out; j++) {
            if (d->remaker[n->out[j]] != node) continue;
            Moment m = d->made[n->out[j]];
            save_at(d, n, t, m, &d->store[d->chunks[moment_chunk(m)].first + moment_rerun(m)].saves);
        }
    }
}
