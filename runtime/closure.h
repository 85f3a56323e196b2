/* closure.h - the cheapest way through a cut at given prices: an exact minimum by max-flow.
 *
 * Each item is paid for where it lies, by the byte on the device or by its copies, or its producer
 * runs again, which needs that node's own inputs in turn. At fixed prices the cheapest choice for all items
 * together, with runs and inputs shared, is a minimum cut: tensors and nodes are nodes of a network,
 *
 *     source -> each item;   item -> its producer, capacity its price;
 *     producer -> sink, capacity its seconds;   producer -> each of its inputs, unlimited.
 *
 * A node `again` stands between its output and the first producer: if that one runs anyway, it costs
 * nothing. */
#ifndef TIDE_CLOSURE_H
#define TIDE_CLOSURE_H
#include "runtime/cut.h"

/* Seconds that it costs to use one byte of the device at the cut, one second of a copy lane before it
 * (out) or after it (in), one byte of the host. out and in are at most 1: a stall costs its length. */
typedef struct Prices { double byte, out, in, host; } Prices;

/* What the cheapest way uses. */
typedef struct Way {
    double price;                   /* the sum of what it pays, rounded down             */
    double bytes, host_bytes;       /* of items kept, and of items on the host            */
    double out_seconds, in_seconds; /* of copies                                          */
    double seconds;                 /* of re-runs                                         */
} Way;

typedef struct Closure Closure;

/* The network of a cut. TIDE_NO_MEMORY is the only failure. */
TideStatus closure_new(const Facts *f, int node, Closure **out);
void       closure_free(Closure *c);

Way        closure_solve(Closure *c, Prices prices);

/* The fates that the newest way gives, found at these prices, to tensors with a choice: KEEP for those
 * that the cut says nothing about. */
void       closure_fates(const Closure *c, Prices prices, TideFate *fates);

#endif
