/* bound_time.c - seconds that no schedule can beat: the best prices at the best cut. */
#include <math.h>
#include "runtime/base.h"
#include "runtime/bound_time.h"

enum { MOST_CUTS = 6 }; /* that are priced exactly */

typedef struct Choice {
    const Facts *f;
    size_t host_limit;
    Cut *cuts;        /* [n_order] */
    bool *priced;     /* [n_order]: exactly */
    double *cheapest; /* [n_tensors]: seconds of the best fate at some prices, closures left out */
} Choice;

/* What the items of a cut pay at least if nothing needed inputs: roughly what the cut will prove. */
static double rough_seconds(const Choice *c, const Cut *cut, Prices p)
{
    double seconds = -p.byte * cut->room - p.out * cut->out_seconds - p.in * cut->in_seconds;

    for (int t = 0; t < c->f->problem->n_tensors; t++)
        if (c->cheapest[t] > 0 && cut_crosses(c->f, t, cut->node)) seconds += c->cheapest[t];
    return seconds;
}

static double rough_price(const Facts *f, int t, Prices p)
{
    const CostTensor *x = &f->problem->tensors[t];
    const Link *l = &f->problem->link;
    double bytes = (double)x->bytes, price = p.byte * bytes;
    int remaker = facts_remaker(f, t);

    if (f->uses[t].can_offload)
        price = fmin(price, p.out * (l->latency + bytes / l->out) + p.in * (l->latency + bytes / l->in));
    if (f->uses[t].can_recompute && remaker != NO_NODE)
        price = fmin(price, (1 - p.in) * f->problem->nodes[remaker].seconds);
    return price;
}

/* The cut not yet priced that promises most at these prices; -1: all are. */
static int most_promising(Choice *c, Prices p)
{
    int best = -1;
    double most = 0;

    for (int t = 0; t < c->f->problem->n_tensors; t++)
        c->cheapest[t] = cut_is_bound(c->f, t) ? 0 : rough_price(c->f, t, p);
    for (int i = 0; i < c->f->n_order; i++) {
        if (c->priced[i] || c->cuts[i].items <= c->cuts[i].room) continue;
        double seconds = rough_seconds(c, &c->cuts[i], p);
        if (best >= 0 && seconds <= most) continue;
        best = i;
        most = seconds;
    }
    return best;
}

/* The cut that lacks most bytes. */
static int tightest(const Choice *c)
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

static TideStatus price_cuts(Choice *c, double section, TimeBound *out)
{
    int at = tightest(c);
    Prices best = { 0 };

    for (int n = 0; n < MOST_CUTS && at >= 0; n++) {
        Pricing *p;
        TRY(pricing_new(c->f, &c->cuts[at], c->host_limit, section, false, &p));
        c->priced[at] = true;
        if (section + p->seconds > out->seconds || out->cut.node == NO_NODE) {
            *out = (TimeBound){ section + p->seconds, p->cut, p->best.byte };
            best = p->best;
        }
        pricing_free(p);
        at = most_promising(c, best);
    }
    return TIDE_OK;
}

/* Is there a moment that nothing fits? */
static bool is_impossible(const Choice *c, TimeBound *out)
{
    for (int i = 0; i < c->f->n_order; i++) {
        if (c->cuts[i].room >= 0) continue;
        *out = (TimeBound){ INFINITY, c->cuts[i], INFINITY };
        return true;
    }
    return false;
}

TideStatus bound_seconds(const Facts *f, size_t limit, size_t host_limit, TimeBound *out)
{
    Pool pool = { 0 };
    double section = least_seconds(f);
    Choice c = { .f = f, .host_limit = host_limit };

    *out = (TimeBound){ section, { .node = NO_NODE }, 0 };
    c.cuts = pool_new(&pool, (size_t)f->n_order, sizeof *c.cuts);
    c.priced = pool_new(&pool, (size_t)f->n_order, sizeof *c.priced);
    c.cheapest = pool_new(&pool, (size_t)f->problem->n_tensors, sizeof *c.cheapest);
    TideStatus status = pool.failed ? TIDE_NO_MEMORY : cuts_find(f, limit, c.cuts);
    if (!status && section > 0 && !is_impossible(&c, out)) status = price_cuts(&c, section, out);
    pool_free(&pool);
    return status;
}
