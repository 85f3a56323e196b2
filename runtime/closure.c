/* closure.c - the cheapest way through a cut, by max-flow. */
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/closure.h"
#include "runtime/maxflow.h"

enum { SOURCE, SINK, FIRST };

struct Closure {
    const Facts *f;
    int node; /* of the cut */
    Flow *flow;
    int *buy;     /* [n_tensors]: arc that is cut if the tensor is paid for where it lies; -1      */
    int *cheap;   /* [n_tensors]: arc that is cut if its node `again` runs; -1                     */
    int *run;     /* [n_nodes]: arc that is cut if the node runs again; -1                         */
    int *tensors; /* [n_seen]: in the network                                                      */
    bool *seen;   /* [n_tensors] */
    int n_seen, n_done;
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
    if (cut_is_bound(c->f, t) && u->last >= c->node) return true;
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
}

static void build(Closure *c)
{
    const Facts *f = c->f;

    for (int t = 0; t < f->problem->n_tensors; t++) {
        c->buy[t] = c->cheap[t] = -1;
        if (!cut_is_bound(f, t) && cut_crosses(f, t, c->node)) need(c, SOURCE, t);
    }
    while (c->n_done < c->n_seen && !c->failed) add_tensor(c, c->tensors[c->n_done++]);
}

TideStatus closure_new(const Facts *f, int node, Closure **out)
{
    size_t tensors = (size_t)f->problem->n_tensors, nodes = (size_t)f->problem->n_nodes;
    Closure *c = calloc(1, sizeof *c);

    *out = NULL;
    if (!c) return TIDE_NO_MEMORY;
    c->f = f;
    c->node = node;
    c->unit = least_seconds(f) * 1e-12 + 1e-300;
    for (int i = 0; i < f->n_choices; i++) c->may_recompute |= f->uses[f->choices[i]].can_recompute;
    for (int i = 0; i < f->n_choices; i++) c->may_offload |= f->uses[f->choices[i]].can_offload;
    c->flow = flow_new(FIRST + 2 * f->problem->n_tensors + f->problem->n_nodes);
    c->buy = pool_new(&c->pool, tensors, sizeof *c->buy);
    c->cheap = pool_new(&c->pool, tensors, sizeof *c->cheap);
    c->tensors = pool_new(&c->pool, tensors, sizeof *c->tensors);
    c->seen = pool_new(&c->pool, tensors, sizeof *c->seen);
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

/* ---- Solving ------------------------------------------------------------- */

static bool may_offload(const Closure *c, int t)
{
    const Uses *u = &c->f->uses[t];

    return c->may_offload &&
           (!u->choice || (u->can_offload && c->f->problem->tensors[t].forced != TIDE_RECOMPUTE));
}

/* Seconds that the copies of t cost at these prices. */
static double host_price(const Closure *c, int t, Prices p)
{
    const Link *l = &c->f->problem->link;
    const CostTensor *x = &c->f->problem->tensors[t];
    double moved = (double)x->moved;

    return p.out * (l->latency + moved / l->out) + p.in * (l->latency + moved / l->in) +
           p.host * (double)x->bytes;
}

static bool is_cheaper_on_host(const Closure *c, int t, Prices p)
{
    return may_offload(c, t) && host_price(c, t, p) < p.byte * (double)c->f->problem->tensors[t].bytes;
}

static int64_t capacity_of(const Closure *c, double seconds)
{
    double units = seconds / c->unit; /* rounded down: the flow never promises too much */

    return units > 1e16 ? (int64_t)1e16 : (int64_t)units;
}

/* Seconds of a node `again` for one of its outputs, which share them. */
static double again_seconds(const Closure *c, int t)
{
    const CostNode *n = &c->f->problem->nodes[c->f->problem->tensors[t].again];

    return n->seconds / n->n_out;
}

static void set_capacities(Closure *c, Prices p)
{
    const Problem *problem = c->f->problem;

    for (int i = 0; i < c->n_seen; i++) {
        int t = c->tensors[i];
        double bytes = (double)problem->tensors[t].bytes;
        double price = is_cheaper_on_host(c, t, p) ? host_price(c, t, p) : p.byte * bytes;
        flow_set(c->flow, c->buy[t], capacity_of(c, price));
        if (c->cheap[t] >= 0)
            flow_set(c->flow, c->cheap[t], capacity_of(c, (1 - p.in) * again_seconds(c, t)));
    }
    for (int i = 0; i < problem->n_nodes; i++)
        if (c->run[i] >= 0)
            flow_set(c->flow, c->run[i], capacity_of(c, (1 - p.in) * problem->nodes[i].seconds));
}

static void count_tensor(const Closure *c, int t, Prices p, Way *way)
{
    const Link *l = &c->f->problem->link;
    double bytes = (double)c->f->problem->tensors[t].bytes, moved = (double)c->f->problem->tensors[t].moved;

    if (flow_is_cut(c->flow, c->buy[t]) && is_cheaper_on_host(c, t, p)) {
        way->host_bytes += bytes;
        way->out_seconds += l->latency + moved / l->out;
        way->in_seconds += l->latency + moved / l->in;
    } else if (flow_is_cut(c->flow, c->buy[t])) {
        way->bytes += bytes;
    }
    if (c->cheap[t] >= 0 && flow_is_cut(c->flow, c->cheap[t])) way->seconds += again_seconds(c, t);
}

Way closure_solve(Closure *c, Prices prices)
{
    Way way = { 0 };

    set_capacities(c, prices);
    way.price = (double)flow_solve(c->flow, SOURCE, SINK) * c->unit;
    for (int i = 0; i < c->n_seen; i++) count_tensor(c, c->tensors[i], prices, &way);
    for (int i = 0; i < c->f->problem->n_nodes; i++)
        if (c->run[i] >= 0 && flow_is_cut(c->flow, c->run[i])) way.seconds += c->f->problem->nodes[i].seconds;
    return way;
}

void closure_fates(const Closure *c, Prices prices, TideFate *fates)
{
    const Facts *f = c->f;

    for (int i = 0; i < f->n_choices; i++) {
        int t = f->choices[i];
        TideFate forced = f->problem->tensors[t].forced;
        bool is_item = c->buy[t] >= 0 && cut_crosses(f, t, c->node);
        fates[t] = TIDE_KEEP;
        if (is_item && !flow_is_cut(c->flow, c->buy[t]) && f->uses[t].can_recompute)
            fates[t] = TIDE_RECOMPUTE;
        else if (is_item && is_cheaper_on_host(c, t, prices))
            fates[t] = TIDE_OFFLOAD;
        if (forced != TIDE_AUTO) fates[t] = forced;
    }
}
