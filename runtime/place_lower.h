/* place_lower.h - a placement is lowered to a goal by exact search. */
#ifndef TIDE_PLACE_LOWER_H
#define TIDE_PLACE_LOWER_H
#include "runtime/place_exact.h"

typedef struct Goal {
    size_t height; /* to be reached; no lower one is tried. Raised to the least height that was not
                    * proven too low */
    Effort effort;
} Goal;

/* The spans hold a placement; lower it to the goal or as near to it as the effort allows, and return the
 * height. Nothing changes without memory, or where fixed spans overlap each other. */
size_t spans_lower(Span *spans, int n, size_t alignment, Goal *goal);

#endif
