/* pricing.c - the best prices of a set of cuts, by generating columns. */
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/pricing.h"

/* Rows: bytes at each cut, the lane out before each, the lane in before each deadline, and these. Bytes are
 * counted in all items of the main cut, seconds in sections. */
enum {
    ROW_BYTES,
    ROW_OUT = ROW_BYTES + MOST_CUTS,
    ROW_IN = ROW_OUT + MOST_CUTS,
    ROW_HOST = ROW_IN + MOST_DEADLINES,
    ROW_ONE, /* the shares of all ways sum to 1 */
    ROW_COUNT,
    MOST_PIVOTS = 500,
};

static const double enough = 1e-5;      /* sections: how exact prices must be               */
static const double dearest_byte = 1e3; /* sections that holding all items may cost at most */

/* ---- Columns ------------------------------------------------------------- */

/* A variable that lowers the use of n rows from row on by one unit, at this cost. */
static int add_relief(const Pricing *p, double cost, int row, int n)
{
    int rows[ROW_COUNT];
    double values[ROW_COUNT];

    for (int i = 0; i < n; i++) {
        rows[i] = row + i;
        values[i] = -1;
    }
    return simplex_add(p->lp, cost, n, rows, values);
}

static int add_slack(const Pricing *p, int row)
{
    double one = 1;

    return simplex_add(p->lp, 0, 1, &row, &one);
}

/* A column for the newest way, and what it decides. */
static bool add_way(Pricing *p, const Way *w)
{
    int rows[ROW_COUNT];
    double values[ROW_COUNT] = { 0 };
    TideFate *fates = pool_new(&p->pool, (size_t)p->facts->problem->n_tensors, sizeof *fates);

    if (!fates) return false;
    for (int i = 0; i < ROW_COUNT; i++) rows[i] = i;
    for (int k = 0; k < p->set.n_cuts; k++) {
        values[ROW_BYTES + k] = w->bytes[k] / p->bytes;
        values[ROW_OUT + k] = w->out_seconds[k] / p->section;
    }
    for (int d = 0; d < p->set.n_deadlines; d++) values[ROW_IN + d] = w->in_seconds[d] / p->section;
    values[ROW_HOST] = w->host_bytes / p->bytes;
    values[ROW_ONE] = 1;
    int column = simplex_add(p->lp, w->seconds / p->section, ROW_COUNT, rows, values);
    if (column < 0) return false;
    closure_fates(p->closure, &p->tried, fates);
    p->fates[p->n_ways] = fates;
    p->ways[p->n_ways] = *w;
    p->column[p->n_ways++] = column;
    return true;
}

/* ---- Prices -------------------------------------------------------------- */

static double between(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

/* The multiplier of a row as a price: what one more of its right side would save. */
static double price_of(const Pricing *p, int row, double most)
{
    return between(-simplex_dual(p->lp, row), 0, most);
}

/* Prices of a lane must not sum to more than 1, and rounding may. */
static void normalise(double *prices, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++) sum += prices[i];
    for (int i = 0; i < n && sum > 1; i++) prices[i] /= sum;
}

static Prices prices_of(const Pricing *p)
{
    double a_byte = p->section / p->bytes;
    Prices prices = { 0 };

    for (int k = 0; k < p->set.n_cuts; k++) {
        prices.byte[k] = price_of(p, ROW_BYTES + k, dearest_byte) * a_byte;
        prices.out[k] = price_of(p, ROW_OUT + k, 1);
    }
    for (int d = 0; d < p->set.n_deadlines; d++) prices.in[d] = price_of(p, ROW_IN + d, 1);
    if (p->host < p->bytes) prices.host = price_of(p, ROW_HOST, dearest_byte) * a_byte;
    normalise(prices.out, p->set.n_cuts);
    normalise(prices.in, p->set.n_deadlines);
    return prices;
}

/* Minimise over all ways at these prices, and note what that proves. */
static Way try_prices(Pricing *p, Prices prices)
{
    Way way = closure_solve(p->closure, &prices);
    double seconds = way.price;

    for (int k = 0; k < p->set.n_cuts; k++)
        seconds -= prices.byte[k] * p->set.cuts[k].room + prices.out[k] * p->set.cuts[k].out_seconds;
    for (int d = 0; d < p->set.n_deadlines; d++) seconds -= prices.in[d] * p->set.deadlines[d];
    if (prices.host > 0) seconds -= prices.host * p->host;
    p->tried = prices;
    if (seconds > p->seconds) {
        p->seconds = seconds;
        p->best = prices;
    }
    return way;
}

/* ---- The program --------------------------------------------------------- */

/* Rows, what relieves them and what they leave, and the way that keeps everything. */
static bool open_program(Pricing *p)
{
    double rhs[ROW_COUNT] = { 0 };
    int start[ROW_COUNT], excess[MOST_CUTS];

    for (int k = 0; k < p->set.n_cuts; k++) {
        rhs[ROW_BYTES + k] = between(p->set.cuts[k].room / p->bytes, 0, 1e3);
        rhs[ROW_OUT + k] = p->set.cuts[k].out_seconds / p->section;
    }
    for (int d = 0; d < p->set.n_deadlines; d++) rhs[ROW_IN + d] = p->set.deadlines[d] / p->section;
    rhs[ROW_HOST] = between(p->host / p->bytes, 0, 1e3);
    rhs[ROW_ONE] = 1;
    p->lp = simplex_new(ROW_COUNT, rhs);
    if (!p->lp) return false;
    for (int k = 0; k < p->set.n_cuts; k++) excess[k] = add_relief(p, dearest_byte, ROW_BYTES + k, 1);
    add_relief(p, 1, ROW_OUT, p->set.n_cuts);     /* stalls before the first cut  */
    add_relief(p, 1, ROW_IN, p->set.n_deadlines); /* stalls behind the main cut   */
    for (int row = 0; row < ROW_ONE; row++) start[row] = add_slack(p, row);
    Way keep = try_prices(p, (Prices){ 0 });
    if (!add_way(p, &keep)) return false;
    start[ROW_ONE] = p->column[0];
    for (int k = 0; k < p->set.n_cuts; k++)
        if (keep.bytes[k] > p->set.cuts[k].room) start[ROW_BYTES + k] = excess[k];
    simplex_start(p->lp, start);
    return true;
}

static bool find_prices(Pricing *p)
{
    if (!open_program(p)) return false;
    for (;;) {
        simplex_solve(p->lp, MOST_PIVOTS);
        Way way = try_prices(p, prices_of(p));
        if (simplex_value(p->lp) <= p->seconds / p->section + enough || p->n_ways == MOST_WAYS) return true;
        if (!add_way(p, &way)) return false;
    }
}

TideStatus pricing_new(const Facts *f, const CutSet *set, size_t host_limit, double section, Pricing **out)
{
    Pricing *p = calloc(1, sizeof *p);

    *out = NULL;
    if (!p) return TIDE_NO_MEMORY;
    *p = (Pricing){
        .facts = f, .set = *set, .section = section, .bytes = set->cuts[0].items, .host = (double)host_limit
    };
    if (closure_new(f, &p->set, &p->closure) || !find_prices(p)) {
        pricing_free(p);
        return TIDE_NO_MEMORY;
    }
    *out = p;
    return TIDE_OK;
}

void pricing_free(Pricing *p)
{
    if (!p) return;
    closure_free(p->closure);
    simplex_free(p->lp);
    pool_free(&p->pool);
    free(p);
}

double pricing_share(const Pricing *p, int way)
{
    return simplex_level(p->lp, p->column[way]);
}
