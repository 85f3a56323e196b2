/* place_sections.c - from spans to the sections and buffers of a placement that is to be searched. */
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/place_state.h"

typedef struct Event {
    int at;
    bool begins;
    int span;
} Event;

static int compare_events(const void *a, const void *b)
{
    const Event *x = a, *y = b;

    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    if (x->begins != y->begins) return x->begins - y->begins; /* what ends makes room for what begins */
    return x->span - y->span;
}

static bool is_empty(const Span *s)
{
    return s->lower >= s->upper || !s->bytes;
}

/* A section ends with the first end after a beginning: at that moment a set of spans is alive that no
 * other moment's set contains. Fills from[n] and to[n], and returns the number of sections. */
static int cut_sections(const Span *spans, int n, Event *events, int *from, int *to)
{
    int n_events = 0, sections = 0;
    bool begun = false;

    for (int i = 0; i < n; i++) {
        if (is_empty(&spans[i])) continue;
        events[n_events++] = (Event){ spans[i].lower, true, i };
        events[n_events++] = (Event){ spans[i].upper, false, i };
    }
    qsort(events, (size_t)n_events, sizeof *events, compare_events);
    for (int k = 0; k < n_events; k++) {
        if (events[k].begins) {
            from[events[k].span] = sections;
            begun = true;
            continue;
        }
        sections += begun;
        begun = false;
        to[events[k].span] = sections;
    }
    return sections;
}

static void add_buffer(PlaceState *s, int span, Window alive, int64_t bytes)
{
    int b = s->n++;

    s->span[b] = span;
    s->lo[b] = alive.first;
    s->hi[b] = alive.last;
    s->size[b] = bytes;
    for (int i = alive.first; i < alive.last; i++) s->rest[i] += bytes;
}

static bool is_on_base(const PlaceState *s, Window alive, int64_t offset)
{
    for (int i = alive.first; i < alive.last; i++)
        if (s->base[i] < offset) return false;
    return true;
}

/* Fixed spans come by ascending offset. */
static void add_fixed(PlaceState *s, int span, Window alive, int64_t offset, int64_t end)
{
    if (is_on_base(s, alive, offset)) {
        for (int i = alive.first; i < alive.last; i++)
            if (s->base[i] < end) s->base[i] = end;
        return;
    }
    for (int i = alive.first; i < alive.last; i++)
        s->overlap |= s->base[i] > offset || s->ceiling[i] > offset;
    for (int i = alive.first; i < alive.last; i++) s->ceiling[i] = end; /* so far: end of the last one */
    s->offset[s->n] = offset;
    s->pinned[s->n] = true;
    s->pins[s->n_pins++] = s->n;
    add_buffer(s, span, alive, end - offset);
}

typedef struct Fixed {
    size_t offset;
    int span;
} Fixed;

static int compare_fixed(const void *a, const void *b)
{
    const Fixed *x = a, *y = b;

    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->span - y->span;
}

static void add_spans(PlaceState *s, const Span *spans, int n, size_t alignment, Fixed *fixed)
{
    const int *from = s->list, *to = s->owner; /* filled by cut_sections() */
    int n_fixed = 0;

    for (int i = 0; i < n; i++)
        if (spans[i].fixed && !is_empty(&spans[i])) fixed[n_fixed++] = (Fixed){ spans[i].offset, i };
    qsort(fixed, (size_t)n_fixed, sizeof *fixed, compare_fixed);
    for (int k = 0; k < n_fixed; k++) {
        const Span *x = &spans[fixed[k].span];
        Window alive = { from[fixed[k].span], to[fixed[k].span] };
        add_fixed(s, fixed[k].span, alive, (int64_t)x->offset,
                  (int64_t)align_up(x->offset + x->bytes, alignment));
    }
    for (int i = 0; i < n; i++)
        if (!spans[i].fixed && !is_empty(&spans[i]))
            add_buffer(s, i, (Window){ from[i], to[i] }, (int64_t)align_up(spans[i].bytes, alignment));
    for (int k = 0; k < s->n_sections; k++)
        if (s->base[k] + s->rest[k] > s->bound) s->bound = s->base[k] + s->rest[k];
}

static bool allocate(PlaceState *s, size_t n)
{
    int **ints[] = { &s->span, &s->lo, &s->hi, &s->rank, &s->twin, &s->list, &s->owner, &s->pins };
    int64_t **longs[] = { &s->size,  &s->offset, &s->lowest, &s->base,   &s->ceiling,
                          &s->floor, &s->top,    &s->rest,   &s->scratch };

    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) *ints[i] = pool_new(&s->pool, n, sizeof(int));
    for (size_t i = 0; i < sizeof longs / sizeof *longs; i++)
        *longs[i] = pool_new(&s->pool, n, sizeof(int64_t));
    s->placed = pool_new(&s->pool, n, sizeof *s->placed);
    s->pinned = pool_new(&s->pool, n, sizeof *s->pinned);
    return !s->pool.failed;
}

TideStatus state_new(const Span *spans, int n, size_t alignment, PlaceState **out)
{
    PlaceState *s = calloc(1, sizeof *s);
    Event *events = calloc(2 * (size_t)n + 1, sizeof *events);
    Fixed *fixed = calloc((size_t)n + 1, sizeof *fixed);
    bool ok = s && events && fixed && allocate(s, (size_t)n + 1); /* there are no more sections than spans */

    *out = NULL;
    if (ok) {
        s->n_sections = cut_sections(spans, n, events, s->list, s->owner);
        add_spans(s, spans, n, alignment, fixed);
        *out = s;
    } else {
        state_free(s);
    }
    free(fixed);
    free(events);
    return ok ? TIDE_OK : TIDE_NO_MEMORY;
}

void state_free(PlaceState *s)
{
    if (!s) return;
    free(s->undo);
    pool_free(&s->pool);
    free(s);
}
