/* bound_time.c - seconds that no schedule can beat: the best prices at the best cut. */
#include <math.h>
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/bound_time.h"
#include "runtime/simplex.h"

enum {
    ROW_BYTES,
    ROW_OUT,
    ROW_IN,
    ROW_HOST,
    ROW_ONE, /* the levels of all ways sum to 1 */
    ROW_COUNT,
    MOST_CUTS = 6,   /* that are priced exactly */
    MOST_WAYS = 40,  /* columns of one cut      */
    MOST_PIVOTS = 500,
};

static const double enough = 1e-5;      /* relative distance at which prices are good enough                 */
static const double dearest_byte = 1e3; /* sections that holding all items at the cut may cost, at most       */

/* ---- One cut ------------------------------------------------------------- */

/* The linear program over the ways through one cut. Bytes are counted in items of the cut, seconds in sections. */
typedef struct Pricing {
    const Cut *cut;
    Closure *closure;
    Simplex *lp;
    double section, bytes, host; /* the units, and the bytes that the host offers */
    Prices best;
    double most; /* seconds proven at the best prices, beyond those of the section */
} Pricing;

static int add_column(const Pricing *p, double cost, int row, double value)
{
    return simplex_add(p->lp, cost, 1, &row, &value);
}

static int add_way(const Pricing *p, const Way *w)
{
    static const int rows[] = { ROW_BYTES, ROW_OUT, ROW_IN, ROW_HOST, ROW_ONE };
    double values[] = { w->bytes / p->bytes, w->out_seconds / p->section,
                        (w->in_seconds - w->seconds) / p->section, w->host_bytes / p->bytes, 1 };

    if (values[ROW_IN] < 0 && values[ROW_IN] > -1e-15) values[ROW_IN] = 0;
    return simplex_add(p->lp, w->seconds / p->section, ROW_COUNT, rows, values);
}

/* Minimise over all ways at these prices; what that proves, and one column more. Returns it in sections. */
static double try_prices(Pricing *p, Prices prices, Way *way)
{
    *way = closure_solve(p->closure, prices);
    double seconds = way->price - prices.byte * p->cut->room - prices.out * p->cut->out_seconds -
                     prices.in * p->cut->in_seconds - prices.host * p->host;

    if (seconds > p->most) {
        p->most = seconds;
        p->best = prices;
    }
    return seconds / p->section;
}

static double between(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

/* The multipliers as prices: what one more of the right side would save. */
static Prices prices_of(const Pricing *p)
{
    double a_byte = p->section / p->bytes;
    bool ample = p->host >= p->bytes;

    return (Prices){ .byte = between(-simplex_dual(p->lp, ROW_BYTES), 0, dearest_byte) * a_byte,
                     .out = between(-simplex_dual(p->lp, ROW_OUT), 0, 1),
                     .in = between(-simplex_dual(p->lp, ROW_IN), 0, 1),
                     .host = ample ? 0 : between(-simplex_dual(p->lp, ROW_HOST), 0, dearest_byte) * a_byte };
}

/* Rows, what exceeds them and what they leave, and the way that keeps everything. */
static bool open_program(Pricing *p)
{
    double room = p->cut->room / p->bytes, host = p->host / p->bytes;
    double rhs[ROW_COUNT] = { room, p->cut->out_seconds / p->section, p->cut->in_seconds / p->section,
                              between(host, 0, 1e3), 1 };
    int start[ROW_COUNT];
    Way keep;

    p->lp = simplex_new(ROW_COUNT, rhs);
    if (!p->lp) return false;
    int excess = add_column(p, dearest_byte, ROW_BYTES, -1);
    add_column(p, 1, ROW_OUT, -1);
    add_column(p, 1, ROW_IN, -1);
    for (int row = ROW_BYTES; row < ROW_ONE; row++) start[row] = add_column(p, 0, row, 1);
    try_prices(p, (Prices){ 0 }, &keep);
    start[ROW_ONE] = add_way(p, &keep);
    if (start[ROW_ONE] < 0) return false;
    if (keep.bytes > p->cut->room) start[ROW_BYTES] = excess;
    simplex_start(p->lp, start);
    return true;
}

/* The best prices of a cut. Returns the seconds proven beyond those of the section; negative without memory. */
static double price_cut(const Facts *f, const Cut *cut, size_t host_limit, double section, Prices *best)
{
    Pricing p = { .cut = cut, .section = section, .bytes = cut->items, .host = (double)host_limit };
    bool ok = closure_new(f, cut->node, &p.closure) == TIDE_OK && open_program(&p);

    for (int i = 0; ok && i < MOST_WAYS; i++) {
        Way way;
        simplex_solve(p.lp, MOST_PIVOTS);
        try_prices(&p, prices_of(&p), &way);
        if (simplex_value(p.lp) <= p.most / section + enough) break;
        ok = add_way(&p, &way) >= 0;
    }
    closure_free(p.closure);
    simplex_free(p.lp);
    *best = p.best;
    return ok ? p.most : -1;
}

/* ---- Which cut ----------------------------------------------------------- */

typedef struct Choice {
    const Facts *f;
    size_t host_limit;
    Cut *cuts;       /* [n_order] */
    bool *priced;    /* [n_order]: exactly */
    double *cheapest; /* [n_tensors]: seconds of the best fate at the prices below, closures left out */
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
    Prices best = { 0 }, prices;

    for (int n = 0; n < MOST_CUTS && at >= 0; n++) {
        double more = price_cut(c->f, &c->cuts[at], c->host_limit, section, &prices);
        if (more < 0) return TIDE_NO_MEMORY;
        c->priced[at] = true;
        if (section + more > out->seconds || out->node == NO_NODE) {
            *out = (TimeBound){ section + more, c->cuts[at].node, prices.byte };
            best = prices;
        }
        at = most_promising(c, best);
    }
    return TIDE_OK;
}

/* Is there a moment that nothing fits? */
static bool is_impossible(const Choice *c, TimeBound *out)
{
    for (int i = 0; i < c->f->n_order; i++) {
        if (c->cuts[i].room >= 0) continue;
        *out = (TimeBound){ INFINITY, c->cuts[i].node, INFINITY };
        return true;
    }
    return false;
}

TideStatus bound_seconds(const Facts *f, size_t limit, size_t host_limit, TimeBound *out)
{
    Pool pool = { 0 };
    double section = least_seconds(f);
    Choice c = { .f = f, .host_limit = host_limit };

    *out = (TimeBound){ section, NO_NODE, 0 };
    c.cuts = pool_new(&pool, (size_t)f->n_order, sizeof *c.cuts);
    c.priced = pool_new(&pool, (size_t)f->n_order, sizeof *c.priced);
    c.cheapest = pool_new(&pool, (size_t)f->problem->n_tensors, sizeof *c.cheapest);
    TideStatus status = pool.failed ? TIDE_NO_MEMORY : cuts_find(f, limit, c.cuts);
    if (!status && section > 0 && !is_impossible(&c, out)) status = price_cuts(&c, section, out);
    pool_free(&pool);
    return status;
}
