/* cut.c - what any schedule must hold at one moment. */
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/cut.h"

/* Must t stay on the device from its first use to its last, whatever is decided? */
static bool is_bound(const Facts *f, int t)
{
    const CostTensor *x = &f->problem->tensors[t];

    if (x->fixed || x->input || x->output || x->kind != TIDE_ACTIVATION) return true;
    if (!f->uses[t].choice) return false;
    return x->forced == TIDE_KEEP || (!f->uses[t].can_recompute && !f->uses[t].can_offload);
}

void cut_find_gap(const Facts *f, Freedom freedom, int t, int *from, int *to)
{
    const Uses *u = &f->uses[t];
    bool none = is_bound(f, t) || u->first == NO_NODE || (freedom == ONE_FATE && !u->choice);

    *from = none ? 1 : freedom == ONE_FATE ? u->last_forward + 1 : u->first + 1;
    *to = none ? 0 : freedom == ONE_FATE ? u->first_backward - 1 : u->last;
}

bool cut_has_item(const Facts *f, Freedom freedom, int t, int node)
{
    int from, to;

    cut_find_gap(f, freedom, t, &from, &to);
    return from <= node && node <= to;
}

/* Inputs come before the first node and outputs go after the last, on the compute lane. */
static double stage_seconds(const Problem *p, bool before)
{
    double seconds = 0;

    for (int t = 0; t < p->n_tensors; t++) {
        const CostTensor *x = &p->tensors[t];
        double speed = before ? p->link.in : p->link.out;
        if ((before ? x->input : x->output) && speed > 0)
            seconds += p->link.latency + (double)x->moved / speed;
    }
    return seconds;
}

double least_seconds(const Facts *f)
{
    double seconds = stage_seconds(f->problem, true) + stage_seconds(f->problem, false);

    for (int i = 0; i < f->n_order; i++) seconds += f->problem->nodes[f->order[i]].seconds;
    return seconds;
}

/* ---- Bytes --------------------------------------------------------------- */

/* Sums over nodes of what must be there, and of items; differences until they are added up. */
typedef struct Sums {
    double *bound, *items;
} Sums;

static void add_interval(double *sum, int from, int to, double bytes)
{
    if (from > to) return;
    sum[from] += bytes;
    sum[to + 1] -= bytes;
}

/* Persistent tensors live beyond the graph; inputs are there from its start, outputs until its end. */
static void add_bound(const Facts *f, int t, double *sum)
{
    const CostTensor *x = &f->problem->tensors[t];
    const Uses *u = &f->uses[t];
    bool from_start = x->input || (x->fixed && x->live_in);
    bool to_end = x->output || (x->fixed && x->live_out);
    int end = f->problem->n_nodes - 1, first = u->first == NO_NODE ? 0 : u->first;

    if (u->first == NO_NODE && !from_start && !to_end) return;
    add_interval(sum, from_start ? 0 : first,
                 to_end               ? end
                 : u->last == NO_NODE ? 0
                                      : u->last,
                 (double)x->bytes);
}

/* With one fate for each, tensors are there from their first use to their last, but for the gap. */
static void add_all(const Facts *f, Freedom freedom, Sums s)
{
    for (int t = 0; t < f->problem->n_tensors; t++) {
        const Uses *u = &f->uses[t];
        double bytes = (double)f->problem->tensors[t].bytes;
        int from, to;

        cut_find_gap(f, freedom, t, &from, &to);
        add_interval(s.items, from, to, bytes);
        if (is_bound(f, t)) {
            add_bound(f, t, s.bound);
        } else if (freedom == ONE_FATE && u->first != NO_NODE) {
            add_interval(s.bound, u->first, u->last, bytes);
            add_interval(s.bound, from, to, -bytes);
        }
    }
    for (int i = 0; i < f->problem->n_nodes; i++) {
        s.bound[i + 1] += s.bound[i];
        s.items[i + 1] += s.items[i];
    }
}

static bool read_before(const CostNode *n, int j)
{
    for (int k = 0; k < j; k++)
        if (n->in[k] == n->in[j]) return true;
    return false;
}

/* Bytes of the items that a node reads. */
static double input_bytes(const Facts *f, Freedom freedom, int node)
{
    const CostNode *n = &f->problem->nodes[node];
    double bytes = 0;

    for (int j = 0; j < n->n_in; j++)
        if (cut_has_item(f, freedom, n->in[j], node) && !read_before(n, j))
            bytes += (double)f->problem->tensors[n->in[j]].bytes;
    return bytes;
}

/* Bytes that a node writes for the first time, if they are not among what must be there, and its scratch. The
 * first output counts nothing where it might lie on an input. */
static double output_bytes(const Facts *f, Freedom freedom, int node)
{
    const Problem *p = f->problem;
    const CostNode *n = &p->nodes[node];
    double bytes = (double)n->scratch_bytes;

    for (int j = 0; j < n->n_out; j++)
        if (freedom == ANY_SCHEDULE && !is_bound(f, n->out[j]) && f->uses[n->out[j]].first == node)
            bytes += (double)p->tensors[n->out[j]].bytes;
    if (n->in_place < 0) return bytes;
    const CostTensor *in = &p->tensors[n->in[n->in_place]], *out = &p->tensors[n->out[0]];
    bool shared = !in->fixed && !out->fixed && in != out && in->bytes == out->bytes;
    return shared ? bytes - (double)out->bytes : bytes;
}

/* ---- Cuts ---------------------------------------------------------------- */

/* The end of the first node that makes an item, from the start of the section. */
static double first_item_seconds(const Facts *f, double before)
{
    for (int i = 0; i < f->n_order; i++) {
        const CostNode *n = &f->problem->nodes[f->order[i]];
        before += n->seconds;
        for (int j = 0; j < n->n_out; j++)
            if (!is_bound(f, n->out[j])) return before;
    }
    return before;
}

/* starts[n_nodes]: when each node of the order runs if nothing stalls or runs again. */
static void find_starts(const Facts *f, double *starts)
{
    double now = stage_seconds(f->problem, true);

    for (int i = 0; i < f->n_order; i++) {
        starts[f->order[i]] = now;
        now += f->problem->nodes[f->order[i]].seconds;
    }
}

static void fill_cuts(const Facts *f, Freedom freedom, size_t limit, Sums s, const double *starts, Cut *cuts)
{
    double first = first_item_seconds(f, stage_seconds(f->problem, true)), last = 0;

    for (int i = 0; i < f->n_order; i++) {
        int c = f->order[i];
        const CostNode *n = &f->problem->nodes[c];
        double read = input_bytes(f, freedom, c),
               taken = (double)f->always + s.bound[c] + read + output_bytes(f, freedom, c);
        double before = starts[c] - first, after = last - starts[c];
        cuts[i] = (Cut){ .node = c,
                         .start = starts[c],
                         .items = s.items[c] - read,
                         .room = (double)limit - taken,
                         .out_seconds = before > 0 ? before : 0,
                         .in_seconds = after > 0 ? after : 0 };
        for (int j = 0; j < n->n_out; j++) /* the last moment at which an item made so far is read */
            if (!is_bound(f, n->out[j]) && starts[f->uses[n->out[j]].last] > last)
                last = starts[f->uses[n->out[j]].last];
    }
}

TideStatus cuts_find(const Facts *f, Freedom freedom, size_t limit, Cut *cuts)
{
    Pool pool = { 0 };
    size_t nodes = (size_t)f->problem->n_nodes + 2;
    Sums s = { pool_new(&pool, nodes, sizeof(double)), pool_new(&pool, nodes, sizeof(double)) };
    double *starts = pool_new(&pool, nodes, sizeof *starts);

    if (!pool.failed) {
        add_all(f, freedom, s);
        find_starts(f, starts);
        fill_cuts(f, freedom, limit, s, starts, cuts);
    }
    TideStatus status = pool.failed ? TIDE_NO_MEMORY : TIDE_OK;
    pool_free(&pool);
    return status;
}
