/* holding.h - what persistent tensors hold before and after a graph. */
#ifndef TIDE_HOLDING_H
#define TIDE_HOLDING_H
#include "runtime/graph.h"
#include "runtime/pool.h"

/* Do the bytes of a persistent tensor (a flat or a view) hold something at the start, and at the end, of a
 * graph? Parameters and states always do. A gradient that does not accumulate holds something from its
 * first write in a graph to the end of that graph, and in a graph that only reads it from the start to
 * the last read. One that no graph writes (of a parameter not in use) is zero for good, since the update
 * may read its flat. */
typedef struct Holding { bool live_in, live_out; } Holding;

/* [n_tensors of the program] for graph g, in the pool; entries of other tensors mean nothing. NULL
 * without memory. */
Holding *graph_holding(const TideGraph *g, Pool *pool);

#endif
