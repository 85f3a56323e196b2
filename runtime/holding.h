/* holding.h - what tensor_live_in() and tensor_live_out() say, for all persistent tensors at once.
 *
 * Those walk every graph for one tensor; a program of hundreds of gradients wants one walk for all. */
#ifndef TIDE_HOLDING_H
#define TIDE_HOLDING_H
#include "runtime/graph.h"
#include "runtime/pool.h"

typedef struct Holding { bool live_in, live_out; } Holding;

/* [n_tensors of the program] for graph g, in the pool; entries of other tensors mean nothing. NULL
 * without memory. */
Holding *graph_holding(const TideGraph *g, Pool *pool);

#endif
