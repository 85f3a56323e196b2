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

static bool add_column(Pricing *p, int i)
{
    const Way *w = &p->ways[i];
    int rows[ROW_COUNT];
    double values[ROW_COUNT] = { 0 };

    for (int row = 0; row < ROW_COUNT; row++) rows[row] = row;
    for (int k = 0; k < p->set.n_cuts; k++) {
        values[ROW_BYTES + k] = w->bytes[k] / p->bytes;
        values[ROW_OUT + k] = w->out_seconds[k] / p->section;
    }
    for (int d = 0; d < p->set.n_deadlines; d++) values[ROW_IN + d] = w->in_seconds[d] / p->section;
    values[ROW_HOST] = w->host_bytes / p->bytes;
    values[ROW_ONE] = 1;
    p->column[i] = simplex_add(p->lp, w->seconds / p->section, ROW_COUNT, rows, values);
    return p->column[i] >= 0;
}

/* Remember the newest way and what it decides. */
static bool add_way(Pricing *p, const Way *w)
{
    TideFate *fates = pool_new(&p->pool, (size_t)p->facts->problem->n_tensors, sizeof *fates);

    if (!fates) return false;
    closure_fates(p->closure, &p->tried, fates);
    p->fates[p->n_ways] = fates;
    p->ways[p->n_ways++] = *w;
    return add_column(p, p->n_ways - 1);
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

/* Rows, what relieves them, and what they leave: the start is the first way, which keeps everything. */
static bool open_program(Pricing *p, int *start)
{
    double rhs[ROW_COUNT] = { 0 };

    for (int k = 0; k < p->set.n_cuts; k++) {
        rhs[ROW_BYTES + k] = between(p->set.cuts[k].room / p->bytes, 0, 1e3);
        rhs[ROW_OUT + k] = p->set.cuts[k].out_seconds / p->section;
    }
    for (int d = 0; d < p->set.n_deadlines; d++) rhs[ROW_IN + d] = p->set.deadlines[d] / p->section;
    rhs[ROW_HOST] = between(p->host / p->bytes, 0, 1e3);
    rhs[ROW_ONE] = 1;
    p->lp = simplex_new(ROW_COUNT, rhs);
    if (!p->lp) return false;
    add_relief(p, 1, ROW_OUT, p->set.n_cuts);     /* stalls before the first cut  */
    add_relief(p, 1, ROW_IN, p->set.n_deadlines); /* stalls behind the main cut   */
    for (int row = 0; row < ROW_ONE; row++) start[row] = add_slack(p, row);
    for (int k = 0; k < p->set.n_cuts; k++) {
        int excess = add_relief(p, dearest_byte, ROW_BYTES + k, 1);
        if (p->ways[0].bytes[k] > p->set.cuts[k].room) start[ROW_BYTES + k] = excess;
    }
    return true;
}

/* The program over the ways that are known, and then over more. */
static bool find_prices(Pricing *p)
{
    int start[ROW_COUNT];

    if (!open_program(p, start)) return false;
    for (int i = 0; i < p->n_ways; i++)
        if (!add_column(p, i)) return false;
    start[ROW_ONE] = p->column[0];
    simplex_start(p->lp, start);
    for (;;) {
        simplex_solve(p->lp, MOST_PIVOTS);
        Way way = try_prices(p, prices_of(p));
        if (simplex_value(p->lp) <= p->seconds / p->section + enough || p->n_ways == MOST_WAYS) return true;
        if (!add_way(p, &way)) return false;
    }
}

/* The way that keeps everything, found where nothing costs. */
static bool add_first_way(Pricing *p)
{
    p->ways[0] = closure_solve(p->closure, &p->tried);
    p->fates[0] = pool_new(&p->pool, (size_t)p->facts->problem->n_tensors, sizeof **p->fates);
    if (!p->fates[0]) return false;
    closure_fates(p->closure, &p->tried, p->fates[0]);
    p->n_ways = 1;
    return true;
}

TideStatus pricing_new(const Facts *f, const CutSet *set, size_t host_limit, double section, Pricing **out)
{
    Pricing *p = calloc(1, sizeof *p);

    *out = NULL;
    if (!p) return TIDE_NO_MEMORY;
    *p = (Pricing){
        .facts = f, .set = *set, .section = section, .bytes = set->cuts[0].items, .host = (double)host_limit
    };
    if (closure_new(f, &p->set, &p->closure) || !add_first_way(p) || !find_prices(p)) {
        pricing_free(p);
        return TIDE_NO_MEMORY;
    }
    *out = p;
    return TIDE_OK;
}

TideStatus pricing_move(Pricing *p, const CutSet *set)
{
    for (int k = 0; k < p->set.n_cuts; k++) p->set.cuts[k] = set->cuts[k];
    for (int d = 0; d < p->set.n_deadlines; d++) p->set.deadlines[d] = set->deadlines[d];
    simplex_free(p->lp);
    p->seconds = 0;
    p->best = (Prices){ 0 };
    return find_prices(p) ? TIDE_OK : TIDE_NO_MEMORY;
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
