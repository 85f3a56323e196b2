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
    long   nodes;      /* of the exact search that follows the first few orders; 0: no such search */
    long   iterations; /* orders to try after that              */
    double seconds;    /* stop after this time; 0: do not look at the clock, so that the result depends
                        * on the arguments only */
    size_t *bound;     /* NULL; or where a height goes that no placement can be below: spans_bound(), or
                        * more where the exact search proved it */
} Placing;

/* Most bytes alive at once, sizes rounded up: no placement can be lower. 0 without memory. */
size_t spans_bound(const Span *spans, int n, size_t alignment);

/* Give every span that is not fixed an offset such that spans alive at the same time never overlap, and
 * return the height. Fixed spans may overlap each other. Returns SIZE_MAX without memory. */
size_t spans_place(Span *spans, int n, Placing how);

/* Buffers of a file, as of the MiniMalloc benchmark: buffer i is alive from lower[i] up to, but not
 * including, upper[i] and takes size[i] bytes; none is negative. */
typedef struct Buffers {
    int            n;
    const int64_t *lower, *upper, *size; /* [n]            */
    int64_t       *offset;               /* [n]: the result */
} Buffers;

typedef struct Placed {
    int64_t height;
    int64_t bound; /* no height can be less: most bytes alive at once, or more where that was proven */
    double  seconds;
} Placed;

/* Give all buffers offsets, searching until the height is at most capacity (0: at the bound) or the seconds
 * are over (0: after a fixed effort, independent of the clock). TIDE_NO_MEMORY is the only
 * failure; whether the height fits the capacity is for the caller to see. */
TideStatus place_buffers(Buffers b, int64_t capacity, double seconds, Placed *out);

#endif
