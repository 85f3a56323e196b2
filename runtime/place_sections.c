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

static void add_spans(PlaceState *s, const Span *spans, int n, size_t alignment)
{
    int *from = s->list, *to = s->owner; /* filled by cut_sections() */

    for (int i = 0; i < n; i++) {
        if (is_empty(&spans[i])) continue;
        int64_t bytes = (int64_t)align_up(spans[i].bytes, alignment);
        int64_t end = (int64_t)align_up(spans[i].offset + spans[i].bytes, alignment);
        for (int k = from[i]; spans[i].fixed && k < to[i]; k++)
            if (s->base[k] < end) s->base[k] = end;
        if (spans[i].fixed) continue;
        s->span[s->n] = i;
        s->lo[s->n] = from[i];
        s->hi[s->n] = to[i];
        s->size[s->n++] = bytes;
        for (int k = from[i]; k < to[i]; k++) s->rest[k] += bytes;
    }
    for (int k = 0; k < s->n_sections; k++)
        if (s->base[k] + s->rest[k] > s->bound) s->bound = s->base[k] + s->rest[k];
}

static bool allocate(PlaceState *s, size_t n)
{
    int **ints[] = { &s->span, &s->lo, &s->hi, &s->rank, &s->twin, &s->list, &s->owner };
    int64_t **longs[] = { &s->size, &s->offset, &s->lowest, &s->base,   &s->floor,
                          &s->top,  &s->rest,   &s->fill,   &s->scratch };

    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) *ints[i] = pool_new(&s->pool, n, sizeof(int));
    for (size_t i = 0; i < sizeof longs / sizeof *longs; i++)
        *longs[i] = pool_new(&s->pool, n, sizeof(int64_t));
    s->placed = pool_new(&s->pool, n, sizeof *s->placed);
    return !s->pool.failed;
}

TideStatus state_new(const Span *spans, int n, size_t alignment, PlaceState **out)
{
    PlaceState *s = calloc(1, sizeof *s);
    Event *events = calloc(2 * (size_t)n + 1, sizeof *events);
    bool ok = s && events && allocate(s, (size_t)n + 1); /* there are no more sections than spans */

    *out = NULL;
    if (ok) {
        s->n_sections = cut_sections(spans, n, events, s->list, s->owner);
        add_spans(s, spans, n, alignment);
        *out = s;
    } else {
        state_free(s);
    }
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
