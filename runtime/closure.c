/* closure.c - the cheapest way through a cut, by max-flow. */
#include <math.h>
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/closure.h"
#include "runtime/maxflow.h"

enum { SOURCE, SINK, FIRST };

struct Closure {
    const Facts *f;
    const CutSet *set;
    int node; /* of the main cut */
    Flow *flow;
    int *buy;     /* [n_tensors]: arc that is cut if the tensor is paid for where it lies; -1       */
    int *cheap;   /* [n_tensors]: arc that is cut if its node `again` runs; -1                      */
    int *run;     /* [n_nodes]: arc that is cut if the node runs again; -1                          */
    int *tensors; /* [n_seen]: in the network                                                       */
    bool *seen;   /* [n_tensors] */
    int n_seen, n_done;
    unsigned *crosses; /* [n_tensors]: bits of the cuts at which it takes room                           */
    int *due;          /* [n_tensors]: the first deadline before which it must be back                   */
    double *remake;    /* [n_tensors]: seconds of making it again, its share; negative: it cannot be     */
    bool may_recompute, may_offload, failed;
    double unit; /* seconds of one unit of capacity */
    Pool pool;
};

/* ---- Network ------------------------------------------------------------- */

static int tensor_vertex(int t)
{
    return FIRST + t;
}

static int cheap_vertex(const Closure *c, int t)
{
    return FIRST + c->f->problem->n_tensors + t;
}

static int node_vertex(const Closure *c, int node)
{
    return FIRST + 2 * c->f->problem->n_tensors + node;
}

static int add_arc(Closure *c, int from, int to, int64_t capacity)
{
    int arc = flow_add(c->flow, from, to);

    if (arc < 0)
        c->failed = true;
    else
        flow_set(c->flow, arc, capacity);
    return arc;
}

static bool reads(const CostNode *n, int t)
{
    for (int j = 0; j < n->n_in; j++)
        if (n->in[j] == t) return true;
    return false;
}

static bool writes(const CostNode *n, int t)
{
    for (int j = 0; j < n->n_out; j++)
        if (n->out[j] == t) return true;
    return false;
}

/* Is t surely there when something after the cut needs it, at no price? */
static bool is_there(const Closure *c, int t)
{
    const CostTensor *x = &c->f->problem->tensors[t];
    const Uses *u = &c->f->uses[t];

    if (x->fixed || x->input || x->output || u->first == NO_NODE || u->first >= c->node) return true;
    if (u->last >= c->node && !cut_has_item(c->f, c->set->freedom, t, c->node)) return true;
    return reads(&c->f->problem->nodes[c->node], t);
}

static void see(Closure *c, int t)
{
    if (c->seen[t]) return;
    c->seen[t] = true;
    c->tensors[c->n_seen++] = t;
}

/* What runs here needs t. */
static void need(Closure *c, int vertex, int t)
{
    if (is_there(c, t)) return;
    see(c, t);
    add_arc(c, vertex, tensor_vertex(t), FLOW_UNLIMITED);
}

/* The vertex of a first producer, with its closure. */
static int producer_vertex(Closure *c, int node)
{
    const CostNode *n = &c->f->problem->nodes[node];
    int vertex = node_vertex(c, node);

    if (c->run[node] >= 0) return vertex;
    c->run[node] = add_arc(c, vertex, SINK, 0);
    for (int j = 0; j < n->n_in; j++) need(c, vertex, n->in[j]);
    return vertex;
}

/* What the node `again` reads is needed if it runs. Where the first producer may run instead, only what that
 * one makes or reads itself can be said to be there either way; the rest is let go, for a lower bound. */
static int again_vertex(Closure *c, int t, int again, int producer)
{
    const CostNode *n = &c->f->problem->nodes[again];
    const CostNode *first = producer == NO_NODE ? NULL : &c->f->problem->nodes[producer];
    int vertex = cheap_vertex(c, t);

    c->cheap[t] = add_arc(c, vertex, producer == NO_NODE ? SINK : producer_vertex(c, producer), 0);
    for (int j = 0; j < n->n_in; j++)
        if (!first || reads(first, n->in[j]) || writes(first, n->in[j])) need(c, vertex, n->in[j]);
    return vertex;
}

/* Seconds of a node `again` for one of its outputs, which share them. */
static double again_seconds(const Closure *c, int t)
{
    const CostNode *n = &c->f->problem->nodes[c->f->problem->tensors[t].again];

    return n->seconds / n->n_out;
}

/* The ways to a tensor. */
static void add_tensor(Closure *c, int t)
{
    const Facts *f = c->f;
    const CostTensor *x = &f->problem->tensors[t];
    const Uses *u = &f->uses[t];
    bool may = c->may_recompute && u->writers == 1 && (!u->choice || u->can_recompute) &&
               !(u->choice && x->forced == TIDE_OFFLOAD);
    int producer = may && x->producer != NO_NODE && f->repeatable[x->producer] ? x->producer : NO_NODE;
    int again = may && x->again != NO_NODE && f->repeatable[x->again] ? x->again : NO_NODE;
    int onward = SINK;

    if (again != NO_NODE)
        onward = again_vertex(c, t, again, producer);
    else if (producer != NO_NODE)
        onward = producer_vertex(c, producer);
    c->buy[t] = add_arc(c, tensor_vertex(t), onward, 0);
    c->remake[t] =
        producer == NO_NODE ? -1 : f->problem->nodes[producer].seconds / f->problem->nodes[producer].n_out;
    if (again == NO_NODE) return;
    double cheap = again_seconds(c, t);
    if (c->remake[t] < 0 || cheap < c->remake[t]) c->remake[t] = cheap;
}

/* The cuts, as bits, at which t takes room of its own if it is there: as an item, or longer than any use. */
static unsigned crossed_cuts(const Closure *c, int t)
{
    const Uses *u = &c->f->uses[t];
    unsigned bits = 0;

    for (int k = 0; k < c->set->n_cuts; k++) {
        int node = c->set->cuts[k].node;
        bool item = cut_has_item(c->f, c->set->freedom, t, node) && !reads(&c->f->problem->nodes[node], t);
        if (item || u->last < node) bits |= 1u << k;
    }
    return bits;
}

/* The first deadline before which each tensor is needed after the main cut. */
static void find_due(Closure *c)
{
    const Problem *p = c->f->problem;
    double now = 0;
    int due = 0;

    for (int t = 0; t < p->n_tensors; t++) c->due[t] = -1;
    for (int i = 0; i < c->f->n_order; i++) {
        const CostNode *n = &p->nodes[c->f->order[i]];
        if (c->f->order[i] < c->node) continue;
        while (due < c->set->n_deadlines - 1 && now > c->set->deadlines[due]) due++;
        for (int j = 0; j < n->n_in; j++)
            if (c->due[n->in[j]] < 0) c->due[n->in[j]] = due;
        for (int j = 0; j < n->n_out; j++)
            if (c->due[n->out[j]] < 0) c->due[n->out[j]] = due;
        now += n->seconds;
    }
    for (int t = 0; t < p->n_tensors; t++) /* needed by a re-run only */
        if (c->due[t] < 0) c->due[t] = c->set->n_deadlines - 1;
}

static void build(Closure *c)
{
    const Facts *f = c->f;

    for (int t = 0; t < f->problem->n_tensors; t++) {
        c->buy[t] = c->cheap[t] = -1;
        if (cut_has_item(f, c->set->freedom, t, c->node)) need(c, SOURCE, t);
    }
    while (c->n_done < c->n_seen && !c->failed) add_tensor(c, c->tensors[c->n_done++]);
    for (int i = 0; i < c->n_seen; i++) c->crosses[c->tensors[i]] = crossed_cuts(c, c->tensors[i]);
    find_due(c);
}

TideStatus closure_new(const Facts *f, const CutSet *set, Closure **out)
{
    size_t tensors = (size_t)f->problem->n_tensors, nodes = (size_t)f->problem->n_nodes;
    Closure *c = calloc(1, sizeof *c);

    *out = NULL;
    if (!c) return TIDE_NO_MEMORY;
    c->f = f;
    c->set = set;
    c->node = set->cuts[0].node;
    c->unit = least_seconds(f) * 1e-12 + 1e-300;
    for (int i = 0; i < f->n_choices; i++) c->may_recompute |= f->uses[f->choices[i]].can_recompute;
    for (int i = 0; i < f->n_choices; i++) c->may_offload |= f->uses[f->choices[i]].can_offload;
    c->flow = flow_new(FIRST + 2 * f->problem->n_tensors + f->problem->n_nodes);
    c->buy = pool_new(&c->pool, tensors, sizeof *c->buy);
    c->cheap = pool_new(&c->pool, tensors, sizeof *c->cheap);
    c->tensors = pool_new(&c->pool, tensors, sizeof *c->tensors);
    c->seen = pool_new(&c->pool, tensors, sizeof *c->seen);
    c->crosses = pool_new(&c->pool, tensors, sizeof *c->crosses);
    c->due = pool_new(&c->pool, tensors, sizeof *c->due);
    c->remake = pool_new(&c->pool, tensors, sizeof *c->remake);
    c->run = pool_new(&c->pool, nodes, sizeof *c->run);
    c->failed = c->pool.failed || !c->flow;
    for (size_t i = 0; i < nodes && !c->failed; i++) c->run[i] = -1;
    if (!c->failed) build(c);
    if (c->failed) {
        closure_free(c);
        return TIDE_NO_MEMORY;
    }
    *out = c;
    return TIDE_OK;
}

void closure_free(Closure *c)
{
    if (!c) return;
    flow_free(c->flow);
    pool_free(&c->pool);
    free(c);
}

/* ---- Prices of a tensor ---------------------------------------------------- */

/* How a tensor is there: what it pays, and where it is at each cut. */
typedef struct Hold {
    double price;
    bool remade;      /* between the last cut where it is not and the main one   */
    unsigned on_host; /* bits of cuts                                           */
    unsigned on_device;
} Hold;

static double copy_seconds(const Closure *c, int t, double bytes_per_second)
{
    return c->f->problem->link.latency + (double)c->f->problem->tensors[t].moved / bytes_per_second;
}

static bool may_offload(const Closure *c, int t)
{
    const Uses *u = &c->f->uses[t];

    return c->may_offload &&
           (!u->choice || (u->can_offload && c->f->problem->tensors[t].forced != TIDE_RECOMPUTE));
}

/* Seconds that being on the host at cut k costs t. */
static double host_price(const Closure *c, int t, const Prices *p, int k)
{
    double price = p->out[k] * copy_seconds(c, t, c->f->problem->link.out);

    if (k) return price;
    for (int d = c->due[t]; d < c->set->n_deadlines; d++)
        price += p->in[d] * copy_seconds(c, t, c->f->problem->link.in);
    return price + p->host * (double)c->f->problem->tensors[t].bytes;
}

/* Add the cheaper of the two places at cut k. */
static void hold_at(const Closure *c, int t, const Prices *p, int k, Hold *hold)
{
    double bytes = (double)c->f->problem->tensors[t].bytes, device = p->byte[k] * bytes;
    double host = may_offload(c, t) ? host_price(c, t, p, k) : INFINITY;

    if (!(c->crosses[t] & 1u << k)) return;
    if (host < device)
        hold->on_host |= 1u << k;
    else
        hold->on_device |= 1u << k;
    hold->price += host < device ? host : device;
}

/* Never made again before the main cut. */
static Hold hold_throughout(const Closure *c, int t, const Prices *p)
{
    Hold hold = { 0 };

    for (int k = 0; k < c->set->n_cuts; k++) hold_at(c, t, p, k, &hold);
    return hold;
}

/* Made again before the main cut: at an earlier one it was on the device, if that gave time to the lane out,
 * or nowhere. */
static Hold hold_remade(const Closure *c, int t, const Prices *p)
{
    Hold hold = { .remade = true, .price = (1 - p->out[0]) * c->remake[t] };

    hold_at(c, t, p, 0, &hold);
    for (int k = 1; k < c->set->n_cuts; k++) {
        double gain = p->out[k] * c->remake[t] - p->byte[k] * (double)c->f->problem->tensors[t].bytes;
        if (!(c->crosses[t] & 1u << k) || gain <= 0) continue;
        hold.on_device |= 1u << k;
        hold.price -= gain;
    }
    return hold;
}

/* With one fate each, what has no choice does not outlive its uses, nor does what is forced to run again. */
static bool dies_early(const Closure *c, int t)
{
    return c->set->freedom == ONE_FATE &&
           (!c->f->uses[t].choice || c->f->problem->tensors[t].forced == TIDE_RECOMPUTE);
}

static Hold cheapest_hold(const Closure *c, int t, const Prices *p)
{
    if (c->remake[t] >= 0 && dies_early(c, t)) return hold_remade(c, t, p);
    Hold whole = hold_throughout(c, t, p);
    if (c->remake[t] < 0 || c->set->n_cuts == 1) return whole;
    Hold remade = hold_remade(c, t, p);
    return remade.price < whole.price ? remade : whole;
}

/* ---- Solving ------------------------------------------------------------- */

static int64_t capacity_of(const Closure *c, double seconds)
{
    double units = seconds / c->unit; /* rounded down: the flow never promises too much */

    return units > 1e16 ? (int64_t)1e16 : units > 0 ? (int64_t)units : 0;
}

/* What a second of a re-run after the main cut costs: it gives time to the lane in. */
static double rerun_price(const Closure *c, const Prices *p)
{
    double price = 1;

    for (int d = 0; d < c->set->n_deadlines; d++) price -= p->in[d];
    return price > 0 ? price : 0;
}

static void set_capacities(Closure *c, const Prices *p)
{
    const Problem *problem = c->f->problem;
    double second = rerun_price(c, p);

    for (int i = 0; i < c->n_seen; i++) {
        int t = c->tensors[i];
        double price = cheapest_hold(c, t, p).price;
        flow_set(c->flow, c->buy[t], capacity_of(c, price));
        if (c->cheap[t] >= 0) flow_set(c->flow, c->cheap[t], capacity_of(c, second * again_seconds(c, t)));
    }
    for (int i = 0; i < problem->n_nodes; i++)
        if (c->run[i] >= 0) flow_set(c->flow, c->run[i], capacity_of(c, second * problem->nodes[i].seconds));
}

static void count_hold(const Closure *c, int t, const Hold *hold, Way *way)
{
    const Link *l = &c->f->problem->link;
    double bytes = (double)c->f->problem->tensors[t].bytes;

    if (hold->remade) way->seconds += c->remake[t];
    for (int k = 0; k < c->set->n_cuts; k++) {
        if (hold->on_device & 1u << k) way->bytes[k] += bytes;
        if (hold->on_host & 1u << k) way->out_seconds[k] += copy_seconds(c, t, l->out);
        if (hold->remade && (k == 0 || hold->on_device & 1u << k)) way->out_seconds[k] -= c->remake[t];
    }
    if (!(hold->on_host & 1u)) return;
    way->host_bytes += bytes;
    for (int d = c->due[t]; d < c->set->n_deadlines; d++) way->in_seconds[d] += copy_seconds(c, t, l->in);
}

Way closure_solve(Closure *c, const Prices *prices)
{
    Way way = { 0 };
    double after = 0;

    set_capacities(c, prices);
    way.price = (double)flow_solve(c->flow, SOURCE, SINK) * c->unit;
    for (int i = 0; i < c->n_seen; i++) {
        int t = c->tensors[i];
        Hold hold = cheapest_hold(c, t, prices);
        if (flow_is_cut(c->flow, c->buy[t])) count_hold(c, t, &hold, &way);
        if (c->cheap[t] >= 0 && flow_is_cut(c->flow, c->cheap[t])) after += again_seconds(c, t);
    }
    for (int i = 0; i < c->f->problem->n_nodes; i++)
        if (c->run[i] >= 0 && flow_is_cut(c->flow, c->run[i])) after += c->f->problem->nodes[i].seconds;
    for (int d = 0; d < c->set->n_deadlines; d++) way.in_seconds[d] -= after;
    way.seconds += after;
    return way;
}

void closure_fates(const Closure *c, const Prices *prices, TideFate *fates)
{
    const Facts *f = c->f;

    for (int i = 0; i < f->n_choices; i++) {
        int t = f->choices[i];
        TideFate forced = f->problem->tensors[t].forced;
        fates[t] = TIDE_KEEP;
        if (c->buy[t] >= 0 && cut_has_item(f, c->set->freedom, t, c->node)) {
            Hold hold = cheapest_hold(c, t, prices);
            bool again = hold.remade || !flow_is_cut(c->flow, c->buy[t]);
            if (again && f->uses[t].can_recompute) fates[t] = TIDE_RECOMPUTE;
            if (!again && hold.on_host & 1u) fates[t] = TIDE_OFFLOAD;
        }
        if (forced != TIDE_AUTO) fates[t] = forced;
    }
}
