/* draft.c - the outline of a schedule that follows changes of fates: its re-runs. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/draft.h"

/* ---- Room ---------------------------------------------------------------- */

static bool reads_once(const CostNode *n, int t)
{
    int times = 0;

    for (int j = 0; j < n->n_in; j++) times += n->in[j] == t;
    return times == 1;
}

/* May the first output of a node lie on its input, if that dies there? */
static bool may_lie(const Problem *p, const CostNode *n)
{
    if (n->in_place < 0) return false;
    int in = n->in[n->in_place], out = n->out[0];
    const CostTensor *x = &p->tensors[in], *y = &p->tensors[out];
    return !x->output && !x->fixed && !y->fixed && x->bytes == y->bytes && in != out && reads_once(n, in);
}

/* Count the items of lists, or once counted, fill them in. */
static void list_nodes(Draft *d, Lists *l, bool over, bool fill)
{
    const Problem *p = d->facts->problem;

    for (int i = 0; i < p->n_nodes; i++) {
        const CostNode *n = &p->nodes[i];
        for (int j = 0; j < n->n_in; j++) {
            bool again = j > 0 && n->in[j] == n->in[j - 1];
            bool wanted = over ? d->may_lie[i] && j == n->in_place : d->facts->repeatable[i] && !again;
            if (!wanted) continue;
            if (fill)
                l->items[l->start[n->in[j]]++] = i;
            else
                l->start[n->in[j] + 1]++;
        }
    }
}

static bool make_lists(Draft *d, Lists *l, bool over)
{
    int n = d->facts->problem->n_tensors;

    l->start = pool_new(&d->pool, (size_t)n + 1, sizeof *l->start);
    if (!l->start) return false;
    list_nodes(d, l, over, false);
    for (int t = 0; t < n; t++) l->start[t + 1] += l->start[t];
    l->items = pool_new(&d->pool, (size_t)l->start[n], sizeof *l->items);
    if (!l->items) return false;
    list_nodes(d, l, over, true);
    for (int t = n; t > 0; t--) l->start[t] = l->start[t - 1];
    l->start[0] = 0;
    return true;
}

/* Choices in the order of their producers, and of the outputs of one. */
static void sort_choices(Draft *d)
{
    const Facts *f = d->facts;
    int n = 0;

    for (int i = 0; i < f->n_order; i++) {
        const CostNode *node = &f->problem->nodes[f->order[i]];
        for (int j = 0; j < node->n_out; j++)
            if (f->uses[node->out[j]].choice) d->by_making[n++] = node->out[j];
    }
    assert(n == f->n_choices);
}

static bool make_room(Draft *d)
{
    const Facts *f = d->facts;
    const Problem *p = f->problem;
    size_t tensors = (size_t)p->n_tensors, order = (size_t)f->n_order, reruns = 0;

    for (int i = 0; i < p->n_nodes; i++) reruns += (size_t)p->nodes[i].n_out;
    d->room = (int)(4 * reruns);
    d->fates = pool_new(&d->pool, tensors, sizeof *d->fates);
    d->chunks = pool_new(&d->pool, order, sizeof *d->chunks);
    d->store = pool_new(&d->pool, (size_t)d->room, sizeof *d->store);
    d->other = pool_new(&d->pool, (size_t)d->room, sizeof *d->other);
    d->fresh = pool_new(&d->pool, reruns, sizeof *d->fresh);
    d->made = pool_new(&d->pool, tensors, sizeof *d->made);
    d->remaker = pool_new(&d->pool, tensors, sizeof *d->remaker);
    d->stays = pool_new(&d->pool, tensors, sizeof *d->stays);
    d->index = pool_new(&d->pool, (size_t)p->n_nodes, sizeof *d->index);
    d->may_lie = pool_new(&d->pool, (size_t)p->n_nodes, sizeof *d->may_lie);
    d->by_making = pool_new(&d->pool, (size_t)f->n_choices, sizeof *d->by_making);
    d->seconds = pool_new(&d->pool, order + 1, sizeof *d->seconds);
    d->touched = pool_new(&d->pool, tensors, sizeof *d->touched);
    d->is_touched = pool_new(&d->pool, tensors, sizeof *d->is_touched);
    d->position = pool_new(&d->pool, order, sizeof *d->position);
    d->outline.live = pool_new(&d->pool, order + reruns + 1, sizeof *d->outline.live);
    d->before = pool_new(&d->pool, order + reruns + 1, sizeof *d->before);
    d->outline.transfers = pool_new(&d->pool, tensors, sizeof *d->outline.transfers);
    d->fetches = pool_new(&d->pool, tensors, sizeof *d->fetches);
    return !d->pool.failed;
}

void draft_free(Draft *d)
{
    if (!d) return;
    pool_free(&d->pool);
    free(d);
}

/* ---- Re-runs ------------------------------------------------------------- */

static uint64_t tensor_bit(const Draft *d, int t)
{
    return (uint64_t)1 << t / d->bit_width;
}

static void touch(Draft *d, int t)
{
    if (d->is_touched[t]) return;
    d->is_touched[t] = true;
    d->touched[d->n_touched++] = t;
    draft_lift(d, t);
}

/* Was t made again before the re-run that comes next in this chunk? */
static bool is_made(const Draft *d, int t)
{
    return d->made[t] < moment_of(d->chunk, FIRST_RUN);
}

/* As in schedule.c; what the answer depends on is noted. */
static bool is_gone(Draft *d, int t)
{
    const CostTensor *x = &d->facts->problem->tensors[t];
    const Uses *u = &d->facts->uses[t];

    if (x->fixed || x->input || x->output) return false;
    d->chunks[d->chunk].interest |= tensor_bit(d, t);
    if (is_made(d, t)) return false;
    if (u->choice) return d->fates[t] == TIDE_RECOMPUTE;
    return u->last < d->facts->order[d->chunk] && facts_remaker(d->facts, t) != NO_NODE;
}

static int remaker(Draft *d, int t)
{
    const Problem *p = d->facts->problem;
    int first = p->tensors[t].producer, cheap = facts_remaker(d->facts, t);

    if (first == NO_NODE || cheap == first || !d->facts->repeatable[first]) return cheap;
    for (int j = 0; j < p->nodes[cheap].n_in; j++) {
        int u = p->nodes[cheap].in[j];
        if (is_gone(d, u) && p->tensors[u].producer == first) return first;
    }
    return cheap;
}

static bool is_wanted(Draft *d, int t, int target)
{
    const Uses *u = &d->facts->uses[t];

    d->chunks[d->chunk].interest |= tensor_bit(d, t);
    if (t == target) return true;
    return u->choice && d->fates[t] == TIDE_RECOMPUTE && !is_made(d, t) &&
           u->last >= d->facts->order[d->chunk];
}

/* Add a re-run of node for this target to the fresh list. */
static void add_rerun(Draft *d, int node, int target)
{
    const CostNode *n = &d->facts->problem->nodes[node];
    size_t own = n->scratch_bytes;
    uint64_t wanted = 0;

    for (int j = 0; j < n->n_out; j++) {
        if (is_wanted(d, n->out[j], target)) {
            wanted = wanted * 1000003 + (uint64_t)j + 1;
            d->made[n->out[j]] = moment_of(d->chunk, d->n_fresh);
            d->remaker[n->out[j]] = NO_NODE;
        } else {
            own += d->facts->problem->tensors[n->out[j]].bytes;
        }
    }
    d->remaker[target] = node;
    d->fresh[d->n_fresh++] =
        (Rerun){ .node = node, .target = target, .wanted = wanted, .up = own, .down = own };
}

static void remake(Draft *d, int t)
{
    int node = remaker(d, t);
    const CostNode *n = &d->facts->problem->nodes[node];

    for (int j = 0; j < n->n_in; j++)
        if (is_gone(d, n->in[j])) remake(d, n->in[j]);
    if (is_gone(d, t)) add_rerun(d, node, t);
}

/* What the re-runs of the current chunk made is not made. */
static void forget_made(Draft *d, const Chunk *c)
{
    for (int k = 0; k < c->n; k++) {
        const Rerun *r = &d->store[c->first + k];
        const CostNode *n = &d->facts->problem->nodes[r->node];
        for (int j = 0; j < n->n_out; j++) {
            int t = n->out[j];
            if (d->made[t] == NEVER || moment_chunk(d->made[t]) != d->chunk) continue;
            d->made[t] = NEVER;
            d->remaker[t] = NO_NODE;
        }
    }
}

static bool same_reruns(const Draft *d, const Chunk *c)
{
    if (c->n != d->n_fresh) return false;
    for (int k = 0; k < c->n; k++) {
        const Rerun *a = &d->store[c->first + k], *b = &d->fresh[k];
        if (a->node != b->node || a->target != b->target || a->wanted != b->wanted) return false;
    }
    return true;
}

/* All that these re-runs read and write may stay otherwise, and be there or not in later chunks. */
static void touch_reruns(Draft *d, const Rerun *reruns, int n)
{
    for (int k = 0; k < n; k++) {
        const CostNode *node = &d->facts->problem->nodes[reruns[k].node];
        for (int j = 0; j < node->n_in; j++) touch(d, node->in[j]);
        for (int j = 0; j < node->n_out; j++) {
            touch(d, node->out[j]);
            d->dirty |= tensor_bit(d, node->out[j]);
        }
    }
}

/* Close the gaps in the store. */
static void compact(Draft *d)
{
    Rerun *full = d->store;

    d->n_store = 0;
    for (int i = d->turn; i < d->facts->n_order; i++) {
        Chunk *c = &d->chunks[i];
        memcpy(&d->other[d->n_store], &full[c->first], (size_t)c->n * sizeof *full);
        c->first = d->n_store;
        d->n_store += c->n;
    }
    d->store = d->other;
    d->other = full;
}

/* Find the re-runs of a chunk anew. */
static void replay(Draft *d, int chunk)
{
    Chunk *c = &d->chunks[chunk];
    const CostNode *n = &d->facts->problem->nodes[d->facts->order[chunk]];

    d->chunk = chunk;
    d->n_fresh = 0;
    c->interest = 0;
    forget_made(d, c);
    for (int j = 0; j < n->n_in; j++)
        if (is_gone(d, n->in[j])) remake(d, n->in[j]);
    if (same_reruns(d, c)) return;
    touch_reruns(d, &d->store[c->first], c->n);
    touch_reruns(d, d->fresh, d->n_fresh);
    c->n = 0;
    if (d->n_store + d->n_fresh > d->room) compact(d);
    memcpy(&d->store[d->n_store], d->fresh, (size_t)d->n_fresh * sizeof *d->fresh);
    c->first = d->n_store;
    c->n = d->n_fresh;
    d->n_store += d->n_fresh;
}

/* ---- Following ----------------------------------------------------------- */

static void change_fates(Draft *d, const TideFate *fates)
{
    for (int i = 0; i < d->facts->n_choices; i++) {
        int t = d->facts->choices[i];
        if (d->fates[t] == fates[t]) continue;
        if (d->fates[t] == TIDE_RECOMPUTE || fates[t] == TIDE_RECOMPUTE) d->dirty |= tensor_bit(d, t);
        touch(d, t);
        d->fates[t] = fates[t];
    }
}

static void settle(Draft *d)
{
    for (int i = d->turn; i < d->facts->n_order; i++)
        if (d->chunks[i].interest & d->dirty) replay(d, i);
    for (int i = 0; i < d->n_touched; i++) draft_drop(d, d->touched[i]);
    for (int i = 0; i < d->n_touched; i++) draft_save(d, d->touched[i]);
    for (int i = 0; i < d->n_touched; i++) d->is_touched[d->touched[i]] = false;
    d->n_touched = 0;
    d->dirty = 0;
}

/* ---- Outline ------------------------------------------------------------- */

static void write_runs(Draft *d)
{
    const CostNode *nodes = d->facts->problem->nodes;
    size_t *live = d->outline.live, now = d->facts->always;
    double again = 0;
    int at = 0;

    for (; at < d->turn; at++) { /* nothing runs again yet: positions and seconds never change */
        live[at] = now += d->chunks[at].up;
        now -= d->chunks[at].down;
    }
    for (int i = d->turn; i < d->facts->n_order; i++) {
        const Chunk *c = &d->chunks[i];
        for (int k = 0; k < c->n; k++) {
            const Rerun *r = &d->store[c->first + k];
            live[at] = now += r->up;
            now -= r->down;
            again += nodes[r->node].seconds;
            d->before[++at] = d->seconds[i] + again;
        }
        live[at] = now += c->up;
        now -= c->down;
        d->position[i] = at;
        d->before[++at] = d->seconds[i + 1] + again;
    }
    d->outline.n_runs = at;
}

static int position_of(const Draft *d, Moment m)
{
    int chunk = moment_chunk(m), at = d->position[chunk];

    return moment_rerun(m) == FIRST_RUN ? at : at - d->chunks[chunk].n + moment_rerun(m);
}

static void write_transfers(Draft *d)
{
    const Problem *p = d->facts->problem;

    d->outline.n_transfers = 0;
    d->outline.host_bytes = 0;
    for (int i = 0; i < d->facts->n_choices; i++) {
        int t = d->by_making[i];
        if (d->fates[t] != TIDE_OFFLOAD) continue;
        const Stays *s = &d->stays[t];
        int until = position_of(d, s->to[0]), need = position_of(d, s->from[1]);
        d->outline.transfers[d->outline.n_transfers++] = (Transfer){ .tensor = t,
                                                                     .out_stay = -1,
                                                                     .in_stay = -1,
                                                                     .bytes = p->tensors[t].bytes,
                                                                     .moved = (double)p->tensors[t].moved,
                                                                     .made = position_of(d, s->from[0]),
                                                                     .until = until,
                                                                     .leave = until,
                                                                     .back = need,
                                                                     .need = need };
        d->outline.host_bytes += p->tensors[t].bytes;
    }
}

/* Which input of the run that needs it is this tensor? */
static int input_of(const Draft *d, int t)
{
    Moment m = d->stays[t].from[1];
    int node = moment_rerun(m) == FIRST_RUN
                   ? d->facts->order[moment_chunk(m)]
                   : d->store[d->chunks[moment_chunk(m)].first + moment_rerun(m)].node;
    const CostNode *n = &d->facts->problem->nodes[node];
    int j = 0;

    while (j < n->n_in && n->in[j] != t) j++;
    return j;
}

static bool is_needed_later(const Draft *d, const Transfer *a, const Transfer *b)
{
    if (a->need != b->need) return a->need > b->need;
    return input_of(d, a->tensor) > input_of(d, b->tensor);
}

/* Backward needs first what was made last, so that few of them move. */
static void order_fetches(Draft *d)
{
    const Transfer *x = d->outline.transfers;

    for (int i = d->outline.n_transfers - 1, n = 0; i >= 0; i--, n++) {
        int j = n;
        for (; j > 0 && is_needed_later(d, &x[d->fetches[j - 1]], &x[i]); j--)
            d->fetches[j] = d->fetches[j - 1];
        d->fetches[j] = i;
    }
}

const Outline *draft_follow(Draft *d, const TideFate *fates)
{
    change_fates(d, fates);
    settle(d);
    write_runs(d);
    write_transfers(d);
    order_fetches(d);
    return &d->outline;
}

/* ---- New ----------------------------------------------------------------- */

/* The order as it is, all its nodes' own bytes, and nothing that runs again. */
static void begin(Draft *d)
{
    const Facts *f = d->facts;
    const Problem *p = f->problem;

    d->turn = f->n_order;
    d->bit_width = p->n_tensors / 64 + 1;
    d->outline.before = d->before;
    d->outline.fetches = d->fetches;
    for (int i = 0; i < p->n_nodes; i++) {
        d->index[i] = NO_NODE;
        d->may_lie[i] = may_lie(p, &p->nodes[i]);
    }
    for (int i = 0; i < f->n_order; i++) {
        const CostNode *n = &p->nodes[f->order[i]];
        d->index[f->order[i]] = i;
        d->chunks[i] = (Chunk){ .up = n->scratch_bytes, .down = n->scratch_bytes, .interest = UINT64_MAX };
        d->position[i] = i;
        d->before[i + 1] = d->seconds[i + 1] = d->seconds[i] + n->seconds;
        if (f->order[i] >= p->turn && d->turn > i) d->turn = i;
    }
    for (int t = 0; t < p->n_tensors; t++) {
        d->fates[t] = TIDE_KEEP;
        d->made[t] = NEVER;
        d->remaker[t] = NO_NODE;
        d->stays[t] = (Stays){ .from = { NEVER, NEVER } };
        touch(d, t);
    }
    d->dirty = UINT64_MAX;
}

TideStatus draft_new(const Facts *f, Draft **out)
{
    Draft *d = calloc(1, sizeof *d);

    *out = NULL;
    if (!d) return TIDE_NO_MEMORY;
    d->facts = f;
    if (make_room(d)) begin(d);
    if (d->pool.failed || !make_lists(d, &d->readers, false) || !make_lists(d, &d->over, true)) {
        draft_free(d);
        return TIDE_NO_MEMORY;
    }
    sort_choices(d);
    settle(d);
    *out = d;
    return TIDE_OK;
}
