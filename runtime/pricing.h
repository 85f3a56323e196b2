/* pricing.h - the best prices of a set of cuts: how many seconds they prove, and which ways prove it.
 *
 * At a cut the items need room, copies or re-runs; time that passes before the cut beyond the least is a
 * stall or a re-run, time after it likewise. With prices for the scarce things this is a Lagrangian
 * whose minimum over all choices is a minimum cut (closure.h); the best prices are found by generating
 * columns (Dantzig and Wolfe 1960). Any prices give a valid bound, so none depends on rounding. */
#ifndef TIDE_PRICING_H
#define TIDE_PRICING_H
#include "runtime/closure.h"
#include "runtime/simplex.h"

enum { MOST_WAYS = 100 };

typedef struct Pricing {
    const Facts *facts;
    CutSet   set;
    Prices   best, tried; /* tried: the newest ones                                               */
    double   seconds;     /* proven at the best prices, beyond the least of the section           */
    Closure *closure;
    Simplex *lp;
    double   section, bytes, host; /* units of the program; bytes that the host offers            */
    int      n_ways, column[MOST_WAYS];
    Way      ways[MOST_WAYS];
    TideFate *fates[MOST_WAYS]; /* [n_tensors] of each way, for tensors with a choice              */
    Pool     pool;
} Pricing;

/* Find the best prices of a set of cuts, the main one of which lacks room, for a section that takes at
 * least so many seconds. TIDE_NO_MEMORY is the only failure. */
TideStatus pricing_new(const Facts *f, const CutSet *set, size_t host_limit, double section, Pricing **out);
/* The same for other rooms and times of the same cuts; starts from the ways that are known. What it proves is
 * about these only while each deadline stands for the same needs. */
TideStatus pricing_move(Pricing *p, const CutSet *set);
void       pricing_free(Pricing *p);

/* The share of a way in the mixture of ways that uses just what there is; they sum to 1. */
double     pricing_share(const Pricing *p, int way);

#endif
