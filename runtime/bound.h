/* bound.h - device bytes that no plan of a graph can do without. */
#ifndef TIDE_BOUND_H
#define TIDE_BOUND_H
#include "runtime/liveness.h"

typedef struct LeastBytes {
    size_t bytes;
    int    node; /* that needs them; NO_NODE: the graph has none */
} LeastBytes;

/* The most bytes that must be on the device at one moment, whatever the fates (cut.h, ONE_FATE): no plan
 * takes less. TIDE_NO_MEMORY is the only failure. */
TideStatus least_bound(const Facts *f, LeastBytes *out);

/* Write the names of the largest tensors that are there then, persistent ones left out, as "a, b, c". */
void       least_names(const Facts *f, LeastBytes least, char *text, size_t size);

#endif
