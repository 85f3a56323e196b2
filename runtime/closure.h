/* closure.h - the cheapest way through a cut at given prices: an exact minimum by max-flow.
 *
 * Each item of the cut is paid for where it lies, by the byte on the device or by its copies, or its
 * producer runs again after the cut, which needs that node's own inputs in turn. At fixed prices the
 * cheapest choice for all items together, with runs and inputs shared, is a minimum cut: tensors and nodes
 * are nodes of a network,
 *
 *     source -> each item;   item -> its producer, capacity its price;
 *     producer -> sink, capacity its seconds;   producer -> each of its inputs, unlimited.
 *
 * A node `again` stands between its output and the first producer: if that one runs anyway, it costs
 * nothing.
 *
 * Earlier cuts may be priced too. What is there at the main cut was at each of them on the device, or on the
 * host, or was not there and has been made again in between. */
#ifndef TIDE_CLOSURE_H
#define TIDE_CLOSURE_H
#include "runtime/cut.h"

enum { MOST_CUTS = 4, MOST_DEADLINES = 3 };

/* The main cut, earlier ones, and times after the main cut, ascending, the last of them behind all needs. */
typedef struct CutSet {
    Cut    cuts[MOST_CUTS];             /* [0]: the main one                           */
    int    n_cuts;
    double deadlines[MOST_DEADLINES];   /* seconds after the start of the main cut     */
    int    n_deadlines;
    Freedom freedom;
} CutSet;

/* Seconds that it costs to use one byte of the device at each cut, one second of the lane out before each
 * cut, one second of the lane in between the main cut and each deadline, one byte of the host. The prices of
 * one lane sum to 1 at most: a stall costs its length. */
typedef struct Prices { double byte[MOST_CUTS], out[MOST_CUTS], in[MOST_DEADLINES], host; } Prices;

/* What the cheapest way uses; what runs again gives its time to the lanes, which counts as less use. */
typedef struct Way {
    double price;                       /* the sum of what it pays, rounded down              */
    double bytes[MOST_CUTS], host_bytes; /* of items kept at each cut, and of items on the host */
    double out_seconds[MOST_CUTS], in_seconds[MOST_DEADLINES];
    double seconds;                     /* of re-runs                                          */
} Way;

typedef struct Closure Closure;

/* The network of a set of cuts, which must stay. TIDE_NO_MEMORY is the only failure. */
TideStatus closure_new(const Facts *f, const CutSet *set, Closure **out);
void       closure_free(Closure *c);

Way        closure_solve(Closure *c, const Prices *prices);

/* The fates that the newest way, found at these prices, gives to tensors with a choice: KEEP for those
 * that the main cut says nothing about. */
void       closure_fates(const Closure *c, const Prices *prices, TideFate *fates);

#endif
