/* ways.h - how the items of a cut are best divided among the device, the host and making them again.
 *
 * A way says for each item where it is (closure.h). What the device holds at the cut and what the lanes move
 * around it is limited; the cheapest mixture of ways within the limits is a linear program whose columns
 * are generated at its own prices (Dantzig and Wolfe 1960). Its value bounds what any schedule costs; its
 * few ways, each followed for a part of the items, are where a search may start from. */
#ifndef TIDE_WAYS_H
#define TIDE_WAYS_H
#include "runtime/closure.h"

enum { MOST_WAYS = 60, MOST_MIXED = 5 };

typedef struct Ways Ways;

typedef struct Mixture {
    double        seconds;             /* of the section, proven: no schedule with this room takes less */
    Prices        prices;              /* that prove it                                              */
    int           n;
    double        level[MOST_MIXED];   /* part of each way; they sum to about 1                       */
    const Way    *way[MOST_MIXED];
    const TideFate *fates[MOST_MIXED]; /* [n_choices of the facts]                                   */
} Mixture;

/* Ways through a cut. The facts must outlive them. TIDE_NO_MEMORY is the only failure. */
TideStatus ways_new(const Facts *f, const Cut *cut, size_t host_limit, Ways **out);
void       ways_free(Ways *w);

/* The best mixture where the cut has this room and these seconds of the lanes, none negative: those of the
 * cut, or less. Points into w, until the next call. Ways that are known from other calls are used again.
 * TIDE_NO_MEMORY is the only failure. */
TideStatus ways_mix(Ways *w, const Cut *limits, Mixture *out);

#endif
