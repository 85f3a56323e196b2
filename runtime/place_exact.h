/* place_exact.h - exact search for a placement within a capacity. */
#ifndef TIDE_PLACE_EXACT_H
#define TIDE_PLACE_EXACT_H
#include "runtime/place_state.h"

typedef enum Verdict {
    VERDICT_FITS,    /* offsets were found                       */
    VERDICT_NEVER,   /* proven: no placement fits                */
    VERDICT_UNKNOWN, /* the effort is spent, or pins overlap     */
} Verdict;

typedef struct Effort {
    long   nodes; /* of the search, all restarts together             */
    double until; /* of the monotonic clock; 0: do not look at it     */
} Effort;

/* Search for offsets such that no buffer of s ends above capacity; they stand in s->offset if the verdict
 * is VERDICT_FITS. Takes from effort->nodes what it used. Without until the result depends on the spans,
 * the capacity and the nodes only. */
Verdict exact_search(PlaceState *s, int64_t capacity, Effort *effort);

/* Nodes of the shortest attempt; fewer are not worth a call. */
long    exact_least_nodes(const PlaceState *s);

#endif
