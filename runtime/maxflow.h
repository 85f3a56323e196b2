/* maxflow.h - the largest flow through a network, and the cheapest cut.
 *
 * Capacities are whole numbers, so that the flow is exact; it equals the capacity of the cheapest cut
 * (Ford and Fulkerson 1956). */
#ifndef TIDE_MAXFLOW_H
#define TIDE_MAXFLOW_H
#include <stdbool.h>
#include <stdint.h>

typedef struct Flow Flow;

/* Larger than any sum of capacities that is to be cut. */
#define FLOW_UNLIMITED (INT64_MAX / 4)

/* A network of nodes numbered from 0 and no arcs. NULL without memory. */
Flow    *flow_new(int nodes);
void     flow_free(Flow *f);

/* An arc without capacity. Returns its number; -1 without memory. */
int      flow_add(Flow *f, int from, int to);
void     flow_set(Flow *f, int arc, int64_t capacity);

/* The largest flow from source to sink by Dinic's method (1970). */
int64_t  flow_solve(Flow *f, int source, int sink);

/* After flow_solve(): does the cheapest cut leave this node with the source? The set is the smallest one. */
bool     flow_with_source(const Flow *f, int node);
/* ... and does it go through this arc? */
bool     flow_is_cut(const Flow *f, int arc);

#endif
