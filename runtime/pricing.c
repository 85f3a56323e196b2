/* pricing.c - the best prices of one cut, by generating columns. */
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/pricing.h"

/* Bytes are counted in all items of the cut, seconds in sections. */
enum {
    ROW_BYTES,
    ROW_OUT,
    ROW_IN,
    ROW_HOST,
    ROW_ONE, /* the shares of all ways sum to 1 */
    ROW_COUNT,
    MOST_PIVOTS = 500,
};

static const double enough = 1e-5;      /* sections: how exact prices must be               */
static const double dearest_byte = 1e3; /* sections that holding all items may cost at most */

static int add_column(const Pricing *p, double cost, int row, double value)
{
    return simplex_add(p->lp, cost, 1, &row, &value);
}

/* A column for the newest way, and what it decides. */
static bool add_way(Pricing *p, const Way *w)
{
    static const int rows[] = { ROW_BYTES, ROW_OUT, ROW_IN, ROW_HOST, ROW_ONE };
    double values[] = { w->bytes / p->bytes, w->out_seconds / p->section,
                        (w->in_seconds - w->seconds) / p->section, w->host_bytes / p->bytes, 1 };

    if (values[ROW_IN] < 0 && values[ROW_IN] > -1e-15) values[ROW_IN] = 0;
    int column = simplex_add(p->lp, w->seconds / p->section, ROW_COUNT, rows, values);
    if (column < 0) return false;
    if (p->n_fates) {
        TideFate *fates = pool_new(&p->pool, p->n_fates, sizeof *fates);
        if (!fates) return false;
        closure_fates(p->closure, p->tried, fates);
        p->fates[p->n_ways] = fates;
    }
    p->ways[p->n_ways] = *w;
    p->column[p->n_ways++] = column;
    return true;
}

/* Minimise over all ways at these prices; what that proves, and one column more. Returns it in sections. */
static double try_prices(Pricing *p, Prices prices, Way *way)
{
    *way = closure_solve(p->closure, prices);
    p->tried = prices;
    double seconds = way->price - prices.byte * p->cut.room - prices.out * p->cut.out_seconds -
                     prices.in * p->cut.in_seconds - prices.host * p->host;

    if (seconds > p->seconds) {
        p->seconds = seconds;
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
    double room = p->cut.room / p->bytes, host = p->host / p->bytes;
    double rhs[ROW_COUNT] = { room, p->cut.out_seconds / p->section, p->cut.in_seconds / p->section,
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
    if (!add_way(p, &keep)) return false;
    start[ROW_ONE] = p->column[0];
    if (keep.bytes > p->cut.room) start[ROW_BYTES] = excess;
    simplex_start(p->lp, start);
    return true;
}

static bool find_prices(Pricing *p)
{
    if (!open_program(p)) return false;
    while (p->n_ways <= MOST_WAYS) {
        Way way;
        simplex_solve(p->lp, MOST_PIVOTS);
        try_prices(p, prices_of(p), &way);
        if (simplex_value(p->lp) <= p->seconds / p->section + enough || p->n_ways == MOST_WAYS) return true;
        if (!add_way(p, &way)) return false;
    }
    return true;
}

TideStatus pricing_new(const Facts *f, const Cut *cut, size_t host_limit, double section, bool with_fates,
                       Pricing **out)
{
    Pricing *p = calloc(1, sizeof *p);

    *out = NULL;
    if (!p) return TIDE_NO_MEMORY;
    *p = (Pricing){ .cut = *cut, .section = section, .bytes = cut->items, .host = (double)host_limit };
    if (with_fates) p->n_fates = (size_t)f->problem->n_tensors;
    if (closure_new(f, cut->node, &p->closure) || !find_prices(p)) {
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
