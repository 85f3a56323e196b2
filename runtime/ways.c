/* ways.c - the best mixture of ways through a cut. */
#include <math.h>
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/simplex.h"
#include "runtime/ways.h"

enum {
    ROW_BYTES,
    ROW_OUT,
    ROW_IN,
    ROW_HOST,
    ROW_ONE, /* the levels of all ways sum to 1 */
    ROW_COUNT,
    MOST_PIVOTS = 500,
};

static const double enough = 1e-5;       /* relative distance at which prices are good enough           */
static const double dearest_byte = 1e3;  /* sections that holding all items at the cut may cost, at most */
static const double least_level = 1e-6;  /* of a way that is worth following                            */

/* Bytes are counted in items of the cut, seconds in sections. */
struct Ways {
    const Facts *f;
    Cut cut;
    Closure *closure;
    Simplex *lp;
    double section, bytes, host; /* the units, and the bytes that the host offers */
    Prices best;
    double most; /* seconds proven at the best prices, beyond those of the section */
    Way ways[MOST_WAYS];
    TideFate *fates[MOST_WAYS]; /* each [n_choices] */
    int column[MOST_WAYS];      /* in lp            */
    int n;
    TideFate *all; /* [n_tensors] */
    Pool pool;
};

TideStatus ways_new(const Facts *f, const Cut *cut, size_t host_limit, Ways **out)
{
    Ways *w = calloc(1, sizeof *w);
    size_t choices = (size_t)f->n_choices;

    *out = NULL;
    if (!w) return TIDE_NO_MEMORY;
    w->f = f;
    w->cut = *cut;
    w->section = least_seconds(f);
    w->bytes = cut->items > 0 ? cut->items : 1;
    w->host = (double)host_limit;
    w->all = pool_new(&w->pool, (size_t)f->problem->n_tensors, sizeof *w->all);
    for (int i = 0; i < MOST_WAYS; i++) w->fates[i] = pool_new(&w->pool, choices, sizeof *w->fates[i]);
    if (w->pool.failed || closure_new(f, cut->node, &w->closure)) {
        ways_free(w);
        return TIDE_NO_MEMORY;
    }
    *out = w;
    return TIDE_OK;
}

void ways_free(Ways *w)
{
    if (!w) return;
    closure_free(w->closure);
    simplex_free(w->lp);
    pool_free(&w->pool);
    free(w);
}

/* ---- Columns ------------------------------------------------------------- */

static int add_slack(const Ways *w, double cost, int row, double value)
{
    return simplex_add(w->lp, cost, 1, &row, &value);
}

/* Way i becomes a column; false without memory. */
static bool add_way(Ways *w, int i)
{
    static const int rows[] = { ROW_BYTES, ROW_OUT, ROW_IN, ROW_HOST, ROW_ONE };
    const Way *x = &w->ways[i];
    double values[] = { x->bytes / w->bytes, x->out_seconds / w->section,
                        (x->in_seconds - x->seconds) / w->section, x->host_bytes / w->bytes, 1 };

    if (values[ROW_IN] < 0 && values[ROW_IN] > -1e-15) values[ROW_IN] = 0;
    w->column[i] = simplex_add(w->lp, x->seconds / w->section, ROW_COUNT, rows, values);
    return w->column[i] >= 0;
}

/* Minimise over all ways at these prices: what that proves, and one way more. */
static bool find_way(Ways *w, Prices p)
{
    Way *x = &w->ways[w->n];

    *x = closure_solve(w->closure, p);
    double seconds = x->price - p.byte * w->cut.room - p.out * w->cut.out_seconds - p.in * w->cut.in_seconds -
                     p.host * w->host;
    if (seconds > w->most) {
        w->most = seconds;
        w->best = p;
    }
    for (int t = 0; t < w->f->problem->n_tensors; t++) w->all[t] = TIDE_KEEP;
    closure_fates(w->closure, p, w->all);
    for (int i = 0; i < w->f->n_choices; i++) w->fates[w->n][i] = w->all[w->f->choices[i]];
    return add_way(w, w->n++);
}

static double between(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

/* The multipliers as prices: what one more of the right side would save. */
static Prices prices_of(const Ways *w)
{
    double a_byte = w->section / w->bytes;
    bool ample = w->host >= w->bytes;

    return (Prices){ .byte = between(-simplex_dual(w->lp, ROW_BYTES), 0, dearest_byte) * a_byte,
                     .out = between(-simplex_dual(w->lp, ROW_OUT), 0, 1),
                     .in = between(-simplex_dual(w->lp, ROW_IN), 0, 1),
                     .host = ample ? 0 : between(-simplex_dual(w->lp, ROW_HOST), 0, dearest_byte) * a_byte };
}

/* ---- Program ------------------------------------------------------------- */

/* Rows, what exceeds them and what they leave, and the ways known so far, of which the first keeps all. */
static bool open_program(Ways *w)
{
    double rhs[ROW_COUNT] = { w->cut.room / w->bytes, w->cut.out_seconds / w->section,
                              w->cut.in_seconds / w->section, between(w->host / w->bytes, 0, 1e3), 1 };
    int start[ROW_COUNT], known = w->n;

    simplex_free(w->lp);
    w->lp = simplex_new(ROW_COUNT, rhs);
    if (!w->lp) return false;
    int excess = add_slack(w, dearest_byte, ROW_BYTES, -1);
    add_slack(w, 1, ROW_OUT, -1);
    add_slack(w, 1, ROW_IN, -1);
    for (int row = ROW_BYTES; row < ROW_ONE; row++) start[row] = add_slack(w, 0, row, 1);
    if (!known && !find_way(w, (Prices){ 0 })) return false;
    for (int i = 0; i < known; i++)
        if (!add_way(w, i)) return false;
    start[ROW_ONE] = w->column[0];
    if (w->ways[0].bytes > w->cut.room) start[ROW_BYTES] = excess;
    simplex_start(w->lp, start);
    return true;
}

static void read_mixture(const Ways *w, Mixture *m)
{
    *m = (Mixture){ .seconds = w->section + w->most, .prices = w->best };
    for (int i = 0; i < w->n && m->n < MOST_MIXED; i++) {
        double level = simplex_level(w->lp, w->column[i]);
        if (level < least_level) continue;
        m->level[m->n] = level;
        m->way[m->n] = &w->ways[i];
        m->fates[m->n++] = w->fates[i];
    }
}

TideStatus ways_mix(Ways *w, const Cut *limits, Mixture *out)
{
    w->cut = *limits;
    w->most = 0;
    w->best = (Prices){ 0 };
    if (w->n == MOST_WAYS) w->n = 1; /* forget all but the first */
    if (!open_program(w)) return TIDE_NO_MEMORY;
    while (w->n < MOST_WAYS) {
        simplex_solve(w->lp, MOST_PIVOTS);
        if (!find_way(w, prices_of(w))) return TIDE_NO_MEMORY;
        if (simplex_value(w->lp) <= w->most / w->section + enough) break;
    }
    read_mixture(w, out);
    return TIDE_OK;
}
