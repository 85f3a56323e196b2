/* place.h - spans (lifetime, bytes) to offsets. Knows nothing else of planning. */
#ifndef TIDE_PLACE_H
#define TIDE_PLACE_H
#include "runtime/tide.h"

/* Bytes taken from moment lower up to, but not including, moment upper. */
typedef struct Span {
    int    lower, upper;
    size_t bytes;
    size_t offset;
    bool   fixed; /* lies at offset already */
} Span;

typedef struct Placing {
    size_t alignment;  /* of offsets and sizes; a power of two */
    size_t enough;     /* stop when the height is at most this; 0: at the bound */
    long   iterations; /* orders to try after the first few     */
    double seconds;    /* stop after this time; 0: do not look at the clock, so that the result depends
                        * on the arguments only */
} Placing;

/* Most bytes alive at once, sizes rounded up: no placement can be lower. 0 without memory. */
size_t spans_bound(const Span *spans, int n, size_t alignment);

/* Give every span that is not fixed an offset such that spans alive at the same time never overlap, and
 * return the height. Fixed spans may overlap each other. Returns SIZE_MAX without memory. */
size_t spans_place(Span *spans, int n, Placing how);

/* Buffers of a file: alive from lower[i] up to upper[i], of size[i] bytes each. Fills offset[]. */
typedef struct Buffers { int n; const int64_t *lower, *upper, *size; int64_t *offset; } Buffers;
typedef struct Placed  { int64_t height, bound; double seconds; } Placed;
TideStatus place_buffers(Buffers b, int64_t capacity, double seconds, Placed *out);

#endif
