/* place_lower.c - a placement is lowered to a goal by exact search.
 *
 * Heights between the lowest one known and the goal are tried by halving, with little effort, so that much is
 * gained at once and something where the goal is out of reach. Then most effort goes to the goal itself; then
 * all again with more. */
#include <stdlib.h>
#include <time.h>
#include "runtime/base.h"
#include "runtime/place_lower.h"

enum {
    GOAL_SHARE = 8, /* times as much effort for the goal as for a height between */
    HALVINGS = 3,
};

typedef struct Lowering {
    Span *spans; /* [n]: lowered in place                           */
    int n;
    size_t alignment, height, floor; /* no height below floor is possible, or wanted */
    PlaceState *state;
    Effort *effort;
} Lowering;

static size_t end_of(const Span *s, size_t alignment)
{
    return s->lower < s->upper ? align_up(s->offset + s->bytes, alignment) : 0;
}

static size_t height_of(const Span *spans, int n, size_t alignment)
{
    size_t height = 0;

    for (int i = 0; i < n; i++)
        if (end_of(&spans[i], alignment) > height) height = end_of(&spans[i], alignment);
    return height;
}

static void take_offsets(Lowering *l)
{
    const PlaceState *s = l->state;

    for (int b = 0; b < s->n; b++) l->spans[s->span[b]].offset = (size_t)s->offset[b];
    l->height = height_of(l->spans, l->n, l->alignment);
}

static bool is_over(const Lowering *l)
{
    struct timespec t;

    if (l->height <= l->floor || l->effort->nodes <= 0) return true;
    if (l->effort->until <= 0) return false;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec > l->effort->until;
}

static Verdict attempt(Lowering *l, size_t height, long nodes)
{
    if (nodes > l->effort->nodes) nodes = l->effort->nodes;
    Effort effort = { nodes, l->effort->until };
    Verdict verdict = exact_search(l->state, (int64_t)height, &effort);

    l->effort->nodes -= nodes - effort.nodes;
    if (verdict == VERDICT_FITS) take_offsets(l);
    if (verdict == VERDICT_NEVER) l->floor = height + l->alignment;
    return verdict;
}

/* Heights between the goal and the lowest one known. */
static void try_between(Lowering *l, long nodes)
{
    size_t low = l->floor;

    for (int i = 0; i < HALVINGS && low < l->height && !is_over(l); i++) {
        size_t middle = low + (l->height - low) / 2 / l->alignment * l->alignment;
        if (attempt(l, middle, nodes) != VERDICT_FITS) low = middle + l->alignment;
    }
}

static void lower(Lowering *l)
{
    long nodes = exact_least_nodes(l->state);

    while (!is_over(l)) {
        try_between(l, nodes);
        if (!is_over(l) && attempt(l, l->floor, GOAL_SHARE * nodes) == VERDICT_UNKNOWN) nodes *= 2;
    }
}

size_t spans_lower(Span *spans, int n, size_t alignment, Goal *goal)
{
    Lowering l = { .spans = spans, .n = n, .alignment = alignment, .effort = &goal->effort };

    l.height = height_of(spans, n, alignment);
    l.floor = goal->height & ~(alignment - 1); /* heights are multiples */
    if (l.height <= l.floor || state_new(spans, n, alignment, &l.state)) return l.height;
    if ((size_t)l.state->bound > l.floor) l.floor = (size_t)l.state->bound;
    if (!l.state->overlap && goal->effort.nodes >= exact_least_nodes(l.state)) lower(&l);
    state_free(l.state);
    goal->height = l.floor;
    return l.height;
}
