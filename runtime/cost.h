/* cost.h - a device that exists only as numbers, and the ops of a graph of which only the costs are known.
 *
 * A graph file becomes a program on such a device, so that planner, checker, listing and files see a program
 * like any other. It plans; it runs nothing. */
#ifndef TIDE_COST_H
#define TIDE_COST_H
#include "runtime/graph.h"

/* What tells one op of a graph file from another: may a run be repeated, may the first output take the bytes
 * of the first input? */
const OpDesc *cost_op(bool once, bool in_place);

/* The attributes of a node of such an op. */
typedef struct CostAttr { size_t scratch_bytes; } CostAttr;

/* A device whose slots start at multiples of alignment, a power of two. TIDE_NO_MEMORY is the only failure:
 * then *out is NULL. Close with tide_close(). */
TideStatus cost_open(const char *name, size_t alignment, Tide **out);

#endif
