/* schedule.c - decisions turned into an order of runs, stays and copies.
 *
 * The order of the problem never changes. A re-run is inserted just before the first use that
 * needs it, behind the re-runs that its own inputs need; one re-run provides all outputs of its
 * node that are wanted. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/schedule.h"

/* ---- Room ---------------------------------------------------------------- */

TideStatus schedule_new(const Facts *f, Schedule **out)
{
    const Problem *p = f->problem;
    size_t runs = 1, args = 0, stays = 2 * (size_t)p->n_tensors, tensors = (size_t)p->n_tensors;
    Schedule *s = calloc(1, sizeof *s);

    *out = NULL;
    if (!s) return TIDE_NO_MEMORY;
    for (int i = 0; i < p->n_nodes; i++) { /* at worst, a re-run for each output */
        size_t times = 1 + (size_t)p->nodes[i].n_out;
        runs += times;
        args += times * (size_t)(p->nodes[i].n_in + p->nodes[i].n_out + 1);
        stays += times * ((size_t)p->nodes[i].n_out + 1);
    }
    s->facts = f;
    s->runs = pool_new(&s->pool, runs, sizeof *s->runs);
    s->stays = pool_new(&s->pool, stays, sizeof *s->stays);
    s->transfers = pool_new(&s->pool, tensors, sizeof *s->transfers);
    s->fetches = pool_new(&s->pool, tensors, sizeof *s->fetches);
    s->args = pool_new(&s->pool, args, sizeof *s->args);
    s->live = pool_new(&s->pool, runs + 1, sizeof *s->live);
    s->before = pool_new(&s->pool, runs + 1, sizeof *s->before);
    s->stay_of = pool_new(&s->pool, tensors, sizeof *s->stay_of);
    s->made = pool_new(&s->pool, tensors, sizeof *s->made);
    if (s->pool.failed) {
        schedule_free(s);
        return TIDE_NO_MEMORY;
    }
    *out = s;
    return TIDE_OK;
}

void schedule_free(Schedule *s)
{
    if (!s) return;
    pool_free(&s->pool);
    free(s);
}

/* ---- Stays --------------------------------------------------------------- */

static int add_stay(Schedule *s, Stay stay)
{
    stay.group = s->n_stays;
    s->stays[s->n_stays] = stay;
    if (stay.tensor >= 0) s->stay_of[stay.tensor] = s->n_stays;
    return s->n_stays++;
}

static int begin_stay(Schedule *s, int t, int at)
{
    const CostTensor *x = &s->facts->problem->tensors[t];

    return add_stay(
        s, (Stay){ .tensor = t, .bytes = x->bytes, .from = at, .to = at, .transfer = -1, .fixed = x->fixed });
}

/* Inputs, and persistent tensors that hold something, are there from the start. */
static void begin_all(Schedule *s)
{
    const Problem *p = s->facts->problem;

    for (int t = 0; t < p->n_tensors; t++) {
        const CostTensor *x = &p->tensors[t];
        s->stay_of[t] = -1;
        s->made[t] = false;
        if (x->input || (x->fixed && x->live_in)) begin_stay(s, t, 0);
    }
}

static void end_all(Schedule *s)
{
    const Problem *p = s->facts->problem;
    int end = s->n_runs ? s->n_runs - 1 : 0;

    for (int t = 0; t < p->n_tensors; t++) {
        const CostTensor *x = &p->tensors[t];
        if (s->stay_of[t] < 0 && x->fixed && x->live_out) begin_stay(s, t, 0);
        if (s->stay_of[t] >= 0 && (x->output || (x->fixed && x->live_out))) s->stays[s->stay_of[t]].to = end;
    }
}

/* ---- Transfers ----------------------------------------------------------- */

static bool has_fate(const Schedule *s, int t, TideFate fate)
{
    return s->facts->uses[t].choice && s->fates[t] == fate;
}

static void begin_transfer(Schedule *s, int t, int at)
{
    s->stays[s->stay_of[t]].transfer = s->n_transfers;
    s->transfers[s->n_transfers++] = (Transfer){ .tensor = t,
                                                 .out_stay = s->stay_of[t],
                                                 .in_stay = -1,
                                                 .bytes = s->facts->problem->tensors[t].bytes,
                                                 .moved = (double)s->facts->problem->tensors[t].moved,
                                                 .made = at };
    s->host_bytes += s->facts->problem->tensors[t].bytes;
}

/* The stay that left becomes one that returns just in time for a use at this position. */
static void fetch(Schedule *s, int t, int at)
{
    Transfer *x = &s->transfers[s->stays[s->stay_of[t]].transfer];

    x->until = x->leave = s->stays[x->out_stay].to;
    x->in_stay = begin_stay(s, t, at);
    x->back = x->need = at;
}

/* Transfers are in the order of production; their needs come in the order in which fetch() met
 * them, which the number of the stay tells. Backward needs first what was made last. */
static void order_fetches(Schedule *s)
{
    for (int i = s->n_transfers - 1, n = 0; i >= 0; i--, n++) {
        int j = n;
        for (; j > 0 && s->transfers[s->fetches[j - 1]].in_stay > s->transfers[i].in_stay; j--)
            s->fetches[j] = s->fetches[j - 1];
        s->fetches[j] = i;
    }
}

/* ---- Runs ---------------------------------------------------------------- */

/* Is t no longer on the device, nor on the host, when the current node of the backward phase runs? */
static bool is_gone(const Schedule *s, int t)
{
    const CostTensor *x = &s->facts->problem->tensors[t];
    const Uses *u = &s->facts->uses[t];

    if (x->fixed || x->input || x->output || s->made[t]) return false;
    if (u->choice) return s->fates[t] == TIDE_RECOMPUTE;
    return u->last < s->node && facts_remaker(s->facts, t) != NO_NODE;
}

/* The cheaper producer, unless it reads something gone that only the first one makes. */
static int remaker(const Schedule *s, int t)
{
    const Problem *p = s->facts->problem;
    int first = p->tensors[t].producer, cheap = facts_remaker(s->facts, t);

    if (first == NO_NODE || cheap == first || !s->facts->repeatable[first]) return cheap;
    for (int j = 0; j < p->nodes[cheap].n_in; j++) {
        int u = p->nodes[cheap].in[j];
        if (is_gone(s, u) && p->tensors[u].producer == first) return first;
    }
    return cheap;
}

static int input_stay(Schedule *s, int t, int at)
{
    bool late = s->node >= s->facts->problem->turn;

    if (late && has_fate(s, t, TIDE_OFFLOAD) && s->stays[s->stay_of[t]].transfer >= 0) fetch(s, t, at);
    s->stays[s->stay_of[t]].to = at;
    return s->stay_of[t];
}

/* Does this output of a re-run stay, or is it thrown away? */
static bool is_wanted(const Schedule *s, int t, int target)
{
    if (t == target) return true;
    return has_fate(s, t, TIDE_RECOMPUTE) && !s->made[t] && s->facts->uses[t].last >= s->node;
}

/* The stay that a run writes: a new one, or the one that is there for tensors that several nodes write. */
static int output_stay(Schedule *s, int t, int at)
{
    int stay = s->stay_of[t] >= 0 ? s->stay_of[t] : begin_stay(s, t, at);

    s->stays[stay].to = at;
    if (has_fate(s, t, TIDE_OFFLOAD)) begin_transfer(s, t, at);
    return stay;
}

static int rerun_output_stay(Schedule *s, int t, int at, int target)
{
    if (!is_wanted(s, t, target)) {
        int now = s->stay_of[t], thrown_away = begin_stay(s, t, at);
        s->stay_of[t] = now;
        return thrown_away;
    }
    s->made[t] = true;
    return begin_stay(s, t, at);
}

/* Append a run of node; target >= 0: a re-run that is to make that tensor again. */
static void append_run(Schedule *s, int node, int target)
{
    const CostNode *n = &s->facts->problem->nodes[node];
    int at = s->n_runs++;
    int *args = &s->args[s->n_args];

    s->runs[at] = (Run){ .node = node, .rerun = target >= 0, .first_arg = s->n_args };
    s->n_args += n->n_in + n->n_out + 1;
    for (int j = 0; j < n->n_in; j++) args[j] = input_stay(s, n->in[j], at);
    args += n->n_in;
    for (int j = 0; j < n->n_out; j++)
        args[j] = target < 0 ? output_stay(s, n->out[j], at) : rerun_output_stay(s, n->out[j], at, target);
    args[n->n_out] = -1;
    if (n->scratch_bytes)
        args[n->n_out] = add_stay(
            s, (Stay){ .tensor = -1, .bytes = n->scratch_bytes, .from = at, .to = at, .transfer = -1 });
    if (target >= 0)
        s->rerun_seconds += n->seconds;
    else
        s->order_seconds += n->seconds;
    s->before[at + 1] = s->order_seconds + s->rerun_seconds;
}

/* Make t again, and first all that this needs. */
static void remake(Schedule *s, int t)
{
    int node = remaker(s, t);
    const CostNode *n = &s->facts->problem->nodes[node];

    for (int j = 0; j < n->n_in; j++)
        if (is_gone(s, n->in[j])) remake(s, n->in[j]);
    if (is_gone(s, t)) append_run(s, node, t);
}

static void schedule_node(Schedule *s, int node)
{
    const CostNode *n = &s->facts->problem->nodes[node];

    s->node = node;
    for (int j = 0; j < n->n_in && node >= s->facts->problem->turn; j++)
        if (is_gone(s, n->in[j])) remake(s, n->in[j]);
    append_run(s, node, -1);
}

/* ---- Sharing places ------------------------------------------------------ */

static int times_read(const CostNode *n, int t)
{
    int times = 0;

    for (int j = 0; j < n->n_in; j++) times += n->in[j] == t;
    return times;
}

/* May the first output of the run at this position lie on its input, which dies here? */
static bool can_overwrite(const Schedule *s, int at, const Stay *in, const Stay *out)
{
    const CostNode *n = &s->facts->problem->nodes[s->runs[at].node];

    if (s->facts->problem->tensors[in->tensor].output) return false; /* the host reads it after the end */
    if (in->fixed || out->fixed || in->transfer >= 0 || in->bytes != out->bytes) return false;
    if (in->to != at || out->from != at || in == out) return false;
    return times_read(n, in->tensor) == 1;
}

static void share_places(Schedule *s)
{
    for (int at = 0; at < s->n_runs; at++) {
        const CostNode *n = &s->facts->problem->nodes[s->runs[at].node];
        if (n->in_place < 0) continue;
        const int *args = &s->args[s->runs[at].first_arg];
        Stay *in = &s->stays[args[n->in_place]], *out = &s->stays[args[n->n_in]];
        if (can_overwrite(s, at, in, out)) out->group = in->group;
    }
}

/* A stay that was written in place over another takes no further bytes where both are. */
void schedule_count_live(Schedule *s)
{
    size_t sum = s->facts->always;

    /* Unsigned sums wrap, so that live[] may hold differences until they are added up. */
    memset(s->live, 0, ((size_t)s->n_runs + 1) * sizeof *s->live);
    for (int i = 0; i < s->n_stays; i++) {
        const Stay *x = &s->stays[i];
        s->live[x->from + (x->group != i)] += x->bytes;
        s->live[x->to + 1] -= x->bytes;
    }
    for (int at = 0; at < s->n_runs; at++) {
        sum += s->live[at];
        s->live[at] = sum;
    }
}

void schedule_build(Schedule *s, const TideFate *fates)
{
    s->fates = fates;
    s->n_runs = s->n_stays = s->n_transfers = s->n_args = 0;
    s->rerun_seconds = s->order_seconds = 0;
    s->host_bytes = 0;
    begin_all(s);
    for (int i = 0; i < s->facts->n_order; i++) schedule_node(s, s->facts->order[i]);
    end_all(s);
    order_fetches(s);
    share_places(s);
    schedule_count_live(s);
}
