/* place_buffers.c - placement as a service of its own: buffers with any moments for lifetimes. */
#include <limits.h>
#include <stdlib.h>
#include <time.h>
#include "runtime/base.h"
#include "runtime/place.h"

enum { NODES = 300000, ORDERS = 200 }; /* where the clock is not looked at */

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* The index of a moment among the sorted ones: lifetimes become small numbers in the same order. */
static int rank_of(const int64_t *moments, int n, int64_t moment)
{
    int lo = 0, hi = n;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (moments[mid] < moment)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void make_spans(const Buffers *b, int64_t *moments, Span *spans)
{
    for (int i = 0; i < b->n; i++) {
        moments[2 * i] = b->lower[i];
        moments[2 * i + 1] = b->upper[i];
    }
    qsort(moments, 2 * (size_t)b->n, sizeof *moments, compare);
    for (int i = 0; i < b->n; i++)
        spans[i] = (Span){ .lower = rank_of(moments, 2 * b->n, b->lower[i]),
                           .upper = rank_of(moments, 2 * b->n, b->upper[i]),
                           .bytes = (size_t)b->size[i] };
}

static double wall_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

TideStatus place_buffers(Buffers b, int64_t capacity, double seconds, Placed *out)
{
    double began = wall_clock();
    Span *spans = calloc((size_t)b.n + 1, sizeof *spans);
    int64_t *moments = calloc(2 * (size_t)b.n + 1, sizeof *moments);
    size_t bound = 0;
    Placing how = { .alignment = 1,
                    .enough = (size_t)capacity,
                    .nodes = seconds > 0 ? LONG_MAX : NODES,
                    .iterations = seconds > 0 ? LONG_MAX : ORDERS,
                    .seconds = seconds,
                    .bound = &bound };
    TideStatus status = spans && moments ? TIDE_OK : TIDE_NO_MEMORY;

    if (!status) {
        make_spans(&b, moments, spans);
        size_t height = spans_place(spans, b.n, how);
        if (height == SIZE_MAX) status = TIDE_NO_MEMORY;
        for (int i = 0; i < b.n && !status; i++) b.offset[i] = (int64_t)spans[i].offset;
        *out = (Placed){ (int64_t)height, (int64_t)bound, wall_clock() - began };
    }
    free(spans);
    free(moments);
    return status;
}
