/* bound_time.c - seconds that no schedule can beat: the best prices at the best cut. */
#include <math.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/bound_time.h"

enum {
    MOST_PRICED = 6, /* cuts that are priced exactly, each alone                            */
    LITTLE = 1000,   /* 1/1000 of the bytes of the items is not worth another cut           */
};

typedef struct Survey {
    const Facts *f;
    Freedom freedom;
    size_t host_limit;
    Cut *cuts;             /* [n_order] */
    bool *priced;          /* [n_order]: exactly */
    double *kept, *hosted; /* [n_nodes + 1]: bytes at each node in a mixture of ways */
    double *paid;          /* [n_nodes + 2]: seconds at some prices, of the items at each node */
} Survey;

static double rough_price(const Facts *f, int t, Prices p)
{
    const CostTensor *x = &f->problem->tensors[t];
    const Link *l = &f->problem->link;
    double bytes = (double)x->bytes, price = p.byte[0] * bytes, in = 0;
    int remaker = facts_remaker(f, t);

    for (int d = 0; d < MOST_DEADLINES; d++) in += p.in[d];
    if (f->uses[t].can_offload)
        price = fmin(price, p.out[0] * (l->latency + bytes / l->out) + in * (l->latency + bytes / l->in));
    if (f->uses[t].can_recompute && remaker != NO_NODE)
        price = fmin(price, (1 - in) * f->problem->nodes[remaker].seconds);
    return price;
}

/* Sum over nodes what the items of each cut pay at these prices if no re-run needs another: roughly what the
 * cut will prove. */
static void sum_prices(Survey *c, Prices p)
{
    int from, to, nodes = c->f->problem->n_nodes;

    memset(c->paid, 0, ((size_t)nodes + 2) * sizeof *c->paid);
    for (int t = 0; t < c->f->problem->n_tensors; t++) {
        cut_find_gap(c->f, c->freedom, t, &from, &to);
        if (from > to) continue;
        double price = rough_price(c->f, t, p);
        c->paid[from] += price;
        c->paid[to + 1] -= price;
    }
    for (int i = 0; i < nodes; i++) c->paid[i + 1] += c->paid[i];
}

/* The cut not yet priced that promises most at these prices; -1: all are. */
static int most_promising(Survey *c, Prices p)
{
    int best = -1;
    double most = 0, in = 0;

    sum_prices(c, p);
    for (int d = 0; d < MOST_DEADLINES; d++) in += p.in[d];
    for (int i = 0; i < c->f->n_order; i++) {
        const Cut *cut = &c->cuts[i];
        if (c->priced[i] || cut->items <= cut->room) continue;
        double seconds =
            c->paid[cut->node] - p.byte[0] * cut->room - p.out[0] * cut->out_seconds - in * cut->in_seconds;
        if (best >= 0 && seconds <= most) continue;
        best = i;
        most = seconds;
    }
    return best;
}

/* The cut that lacks most bytes. */
static int tightest(const Survey *c)
{
    int best = -1;
    double most = 0;

    for (int i = 0; i < c->f->n_order; i++) {
        double lack = c->cuts[i].items - c->cuts[i].room;
        if (lack <= most) continue;
        most = lack;
        best = i;
    }
    return best;
}

/* The deadlines of a main cut: some way into what follows, and the end. */
static void set_deadlines(CutSet *set)
{
    static const double parts[MOST_DEADLINES] = { 0.1, 0.35, 1 };

    set->n_deadlines = MOST_DEADLINES;
    for (int d = 0; d < MOST_DEADLINES; d++) set->deadlines[d] = parts[d] * set->cuts[0].in_seconds;
}

/* Price a set of cuts; take what it proves if that is more than before. */
static TideStatus price_set(const Survey *c, const CutSet *set, double section, TimeBound *out, Pricing **p)
{
    TRY(pricing_new(c->f, set, c->host_limit, section, p));
    if (section + (*p)->seconds > out->seconds || out->set.n_cuts == 0)
        *out = (TimeBound){ section + (*p)->seconds, *set, (*p)->best };
    return TIDE_OK;
}

static TideStatus price_alone(Survey *c, double section, TimeBound *out)
{
    int at = tightest(c);

    for (int n = 0; n < MOST_PRICED && at >= 0; n++) {
        CutSet set = { .cuts = { c->cuts[at] }, .n_cuts = 1, .freedom = c->freedom };
        Pricing *p;
        set_deadlines(&set);
        TRY(price_set(c, &set, section, out, &p));
        pricing_free(p);
        c->priced[at] = true;
        at = most_promising(c, out->prices);
    }
    return TIDE_OK;
}

/* ---- Earlier cuts -------------------------------------------------------- */

/* Add what the mixture of ways holds of t between its production and the main cut. */
static void add_mixture(Survey *c, const Pricing *p, int t)
{
    int from = c->f->uses[t].first + 1, to = p->set.cuts[0].node;
    double bytes = (double)c->f->problem->tensors[t].bytes, kept = 0, hosted = 0;

    for (int i = 0; i < p->n_ways; i++) {
        double share = pricing_share(p, i);
        if (p->fates[i][t] == TIDE_KEEP) kept += share * bytes;
        if (p->fates[i][t] == TIDE_OFFLOAD) hosted += share * bytes;
    }
    c->kept[from] += kept;
    c->kept[to + 1] -= kept;
    c->hosted[from] += hosted;
    c->hosted[to + 1] -= hosted;
}

/* The cut before the main one that the mixture exceeds by most bytes, given what can have left by then;
 * -1: it exceeds none by much. */
static int most_exceeded(Survey *c, const Pricing *p)
{
    const Facts *f = c->f;
    size_t nodes = (size_t)f->problem->n_nodes + 2;
    double most = p->set.cuts[0].items / LITTLE, kept = 0, hosted = 0;
    int best = -1;

    memset(c->kept, 0, nodes * sizeof *c->kept);
    memset(c->hosted, 0, nodes * sizeof *c->hosted);
    for (int i = 0; i < f->n_choices; i++)
        if (cut_has_item(f, c->freedom, f->choices[i], p->set.cuts[0].node)) add_mixture(c, p, f->choices[i]);
    for (int i = 0, node = 0; i < f->n_order && f->order[i] < p->set.cuts[0].node; i++) {
        for (; node <= f->order[i]; node++) {
            kept += c->kept[node];
            hosted += c->hosted[node];
        }
        double left = c->cuts[i].out_seconds * f->problem->link.out;
        double over = kept + (hosted > left ? hosted - left : 0) - c->cuts[i].room;
        if (over <= most) continue;
        most = over;
        best = i;
    }
    return best;
}

/* Price the best cut together with earlier ones that its ways exceed. */
static TideStatus price_together(Survey *c, double section, TimeBound *out)
{
    CutSet set = out->set;

    while (set.n_cuts > 0 && set.n_cuts <= MOST_CUTS) {
        Pricing *p;
        TRY(price_set(c, &set, section, out, &p));
        int at = set.n_cuts < MOST_CUTS ? most_exceeded(c, p) : -1;
        pricing_free(p);
        if (at < 0) return TIDE_OK;
        set.cuts[set.n_cuts++] = c->cuts[at];
    }
    return TIDE_OK;
}

/* Is there a moment that nothing fits? */
static bool is_impossible(const Survey *c, TimeBound *out)
{
    for (int i = 0; i < c->f->n_order; i++) {
        if (c->cuts[i].room >= 0) continue;
        *out = (TimeBound){ .seconds = INFINITY,
                            .set = { .cuts = { c->cuts[i] }, .n_cuts = 1, .freedom = c->freedom } };
        return true;
    }
    return false;
}

TideStatus bound_seconds(const Facts *f, Freedom freedom, size_t limit, size_t host_limit, TimeBound *out)
{
    Pool pool = { 0 };
    double section = least_seconds(f);
    Survey c = { .f = f, .freedom = freedom, .host_limit = host_limit };

    *out = (TimeBound){ .seconds = section };
    c.cuts = pool_new(&pool, (size_t)f->n_order, sizeof *c.cuts);
    c.priced = pool_new(&pool, (size_t)f->n_order, sizeof *c.priced);
    c.kept = pool_new(&pool, (size_t)f->problem->n_nodes + 2, sizeof *c.kept);
    c.hosted = pool_new(&pool, (size_t)f->problem->n_nodes + 2, sizeof *c.hosted);
    c.paid = pool_new(&pool, (size_t)f->problem->n_nodes + 2, sizeof *c.paid);
    TideStatus status = pool.failed ? TIDE_NO_MEMORY : cuts_find(f, freedom, limit, c.cuts);
    bool open = !status && section > 0 && !is_impossible(&c, out);
    if (open) status = price_alone(&c, section, out);
    if (open && !status) status = price_together(&c, section, out);
    pool_free(&pool);
    return status;
}
