/* pricing.h - the best prices of one cut: how many seconds it proves, and which ways prove it.
 *
 * At a cut the items need room, copies or re-runs; time that passes before the cut beyond the least is a
 * stall or a re-run, time after it likewise. With prices for the scarce things this is a Lagrangian
 * whose minimum over all choices is a minimum cut (closure.h); the best prices are found by generating
 * columns (Dantzig and Wolfe 1960). Any prices give a valid bound, so none depends on rounding. */
#ifndef TIDE_PRICING_H
#define TIDE_PRICING_H
#include "runtime/closure.h"
#include "runtime/simplex.h"

enum { MOST_WAYS = 40 }; /* of one cut */

typedef struct Pricing {
    Cut      cut;
    Prices   best;
    double   seconds; /* proven at the best prices, beyond the least of the section                */
    Closure *closure;
    Simplex *lp;
    double   section, bytes, host; /* units of the program; bytes that the host offers              */
    int      n_ways, column[MOST_WAYS + 1];
    Way      ways[MOST_WAYS + 1];
    TideFate *fates[MOST_WAYS + 1]; /* [n_tensors] of each way, where wanted: for tensors with a choice  */
    size_t   n_fates; /* 0: not wanted    */
    Prices   tried;   /* the newest ones  */
    Pool     pool;
} Pricing;

/* Find the best prices of a cut that lacks room, for a section that takes at least so many seconds;
 * with_fates: note what each way decides. TIDE_NO_MEMORY is the only failure. */
TideStatus pricing_new(const Facts *f, const Cut *cut, size_t host_limit, double section, bool with_fates,
                       Pricing **out);
void       pricing_free(Pricing *p);

/* The share of a way in the mixture of ways that uses just what there is; they sum to 1. */
double     pricing_share(const Pricing *p, int way);

#endif
