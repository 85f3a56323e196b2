/* place_state.c - an unfinished placement, what follows from it, and how it is taken back.
 *
 * The rules compare placements by their weight, the sum of offset * size * lifetime^2 over all buffers. Of
 * the placements within a capacity one of least weight obeys all rules, so that no search that prunes by
 * them misses the last. Canonical placements and the sum over a section are those of MiniMalloc (Moffitt,
 * ASPLOS 2023). */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/place_state.h"

enum { UNDO_FLOOR, UNDO_SECTION, UNDO_LOWEST, UNDO_PUT };

/* ---- Changes ------------------------------------------------------------- */

static void remember(PlaceState *s, Undo u)
{
    if (s->n_undo == s->undo_room) {
        long room = 2 * s->undo_room + 1024;
        Undo *grown = realloc(s->undo, (size_t)room * sizeof *grown);
        if (!grown) {
            s->failed = true;
            return;
        }
        s->undo = grown;
        s->undo_room = room;
    }
    s->undo[s->n_undo++] = u;
}

/* A pinned buffer is no longer in the way of others. */
static void take_pin_down(PlaceState *s, int pin)
{
    for (int i = s->lo[pin]; i < s->hi[pin]; i++) s->ceiling[i] = INT64_MAX;
    for (int k = s->n_pins - 1; k >= 0; k--) {
        int other = s->pins[k];
        int first = s->lo[other] > s->lo[pin] ? s->lo[other] : s->lo[pin];
        for (int i = first; !s->placed[other] && i < s->hi[other] && i < s->hi[pin]; i++)
            s->ceiling[i] = s->offset[other]; /* by falling offset: the lowest remains */
    }
}

Window state_put(PlaceState *s, int buffer, int64_t offset)
{
    int64_t end = offset + s->size[buffer];

    for (int i = s->lo[buffer]; i < s->hi[buffer]; i++) {
        remember(s, (Undo){ UNDO_SECTION, i, s->owner[i], s->floor[i], s->top[i], s->ceiling[i] });
        s->floor[i] = s->top[i] = end;
        s->owner[i] = buffer;
        s->rest[i] -= s->size[buffer];
    }
    s->offset[buffer] = offset;
    s->placed[buffer] = true;
    if (s->pinned[buffer]) take_pin_down(s, buffer);
    remember(s, (Undo){ .kind = UNDO_PUT, .at = buffer });
    return (Window){ s->lo[buffer], s->hi[buffer] };
}

Window state_raise(PlaceState *s, int section, int64_t floor)
{
    remember(s, (Undo){ .kind = UNDO_FLOOR, .at = section, .floor = s->floor[section] });
    s->floor[section] = floor;
    return (Window){ section, section + 1 };
}

static void raise_lowest(PlaceState *s, int buffer, int64_t lowest)
{
    remember(s, (Undo){ .kind = UNDO_LOWEST, .at = buffer, .floor = s->lowest[buffer] });
    s->lowest[buffer] = lowest;
}

void state_undo(PlaceState *s, long mark)
{
    while (s->n_undo > mark) {
        const Undo *u = &s->undo[--s->n_undo];
        switch (u->kind) {
        case UNDO_SECTION: s->top[u->at] = u->top; s->owner[u->at] = u->owner; /* fallthrough */
        case UNDO_FLOOR: s->floor[u->at] = u->floor; break;
        case UNDO_LOWEST: s->lowest[u->at] = u->floor; break;
        case UNDO_PUT:
            s->placed[u->at] = false;
            for (int i = s->lo[u->at]; i < s->hi[u->at]; i++) s->rest[i] += s->size[u->at];
        }
    }
}

/* ---- What follows -------------------------------------------------------- */

static Window hull(Window a, Window b)
{
    if (a.first >= a.last) return b;
    if (b.first >= b.last) return a;
    return (Window){ a.first < b.first ? a.first : b.first, a.last > b.last ? a.last : b.last };
}

/* The sections of a buffer that lie in a window. */
static Window clip(const PlaceState *s, int buffer, Window w)
{
    return (Window){ s->lo[buffer] > w.first ? s->lo[buffer] : w.first,
                     s->hi[buffer] < w.last ? s->hi[buffer] : w.last };
}

static bool fail_at(PlaceState *s, int section)
{
    s->conflict = section;
    return false;
}

/* The lowest offset from the given one at which a buffer passes those that are pinned. */
static int64_t pass_pins(const PlaceState *s, int buffer, int64_t lowest)
{
    int64_t ceiling = INT64_MAX;

    for (int i = s->lo[buffer]; i < s->hi[buffer]; i++)
        ceiling = s->ceiling[i] < ceiling ? s->ceiling[i] : ceiling;
    if (ceiling >= lowest + s->size[buffer]) return lowest;
    for (int k = 0; k < s->n_pins; k++) {
        int pin = s->pins[k];
        int64_t end = s->offset[pin] + s->size[pin];
        if (s->offset[pin] >= lowest + s->size[buffer]) break;
        if (s->placed[pin] || s->lo[pin] >= s->hi[buffer] || s->lo[buffer] >= s->hi[pin]) continue;
        if (end > lowest) lowest = end;
    }
    return lowest;
}

/* A buffer lies above all floors of its sections. False if one no longer fits; *touched covers those
 * whose lowest has risen. */
static bool lift_buffers(PlaceState *s, Part p, Window risen, Window *touched)
{
    for (int k = p.from; k < p.to; k++) {
        int b = s->list[k];
        Window w = clip(s, b, risen);
        int64_t lowest = s->lowest[b];
        for (int i = w.first; i < w.last; i++) lowest = s->floor[i] > lowest ? s->floor[i] : lowest;
        if (lowest == s->lowest[b]) continue;
        if (s->pinned[b]) return fail_at(s, w.first);
        if (s->n_pins) lowest = pass_pins(s, b, lowest);
        if (lowest + s->size[b] > s->capacity) return fail_at(s, w.first);
        raise_lowest(s, b, lowest);
        *touched = hull(*touched, (Window){ s->lo[b], s->hi[b] });
    }
    return true;
}

/* A floor is at least the lowest offset of those that are still to come. False if the rest does not fit;
 * *risen covers the floors that have risen. */
static bool lift_floors(PlaceState *s, Part p, Window touched, Window *risen)
{
    int64_t *least = s->scratch;

    *risen = (Window){ 0 };
    for (int i = touched.first; i < touched.last; i++) least[i] = INT64_MAX;
    for (int k = p.from; k < p.to; k++) {
        Window w = clip(s, s->list[k], touched);
        int64_t lowest = s->lowest[s->list[k]];
        for (int i = w.first; i < w.last; i++) least[i] = lowest < least[i] ? lowest : least[i];
    }
    for (int i = touched.first; i < touched.last; i++) {
        if (least[i] == INT64_MAX || least[i] <= s->floor[i]) continue;
        if (least[i] + s->rest[i] > s->capacity) return fail_at(s, i);
        *risen = hull(*risen, state_raise(s, i, least[i]));
    }
    return true;
}

/* Is there a hole that a buffer which is still to come would fit, and that nothing else can reach? Then
 * it is better placed there. */
static bool leaves_a_hole(const PlaceState *s, int buffer)
{
    int64_t top = 0, floor = INT64_MAX;

    for (int i = s->lo[buffer]; i < s->hi[buffer]; i++) {
        top = s->top[i] > top ? s->top[i] : top;
        floor = s->floor[i] < floor ? s->floor[i] : floor;
        if (top + s->size[buffer] > floor) return false;
    }
    return true;
}

static void sort_by_lowest(PlaceState *s, Part p)
{
    int *list = s->list;

    for (int k = p.from + 1; k < p.to; k++) { /* nearly sorted from the last time */
        int b = list[k], j = k;
        for (; j > p.from && s->lowest[list[j - 1]] > s->lowest[b]; j--) list[j] = list[j - 1];
        list[j] = b;
    }
}

/* The height at which each section could be full: buffers one upon the other, none below its lowest. */
static bool fill_sections(PlaceState *s, Part p, Window w)
{
    int64_t *fill = s->scratch;

    sort_by_lowest(s, p);
    for (int i = w.first; i < w.last; i++) fill[i] = s->floor[i];
    for (int k = p.from; k < p.to; k++) {
        Window own = clip(s, s->list[k], w);
        int64_t lowest = s->lowest[s->list[k]], size = s->size[s->list[k]];
        for (int i = own.first; i < own.last; i++) fill[i] = (fill[i] > lowest ? fill[i] : lowest) + size;
    }
    for (int i = w.first; i < w.last; i++)
        if (fill[i] > s->capacity) return fail_at(s, i);
    return true;
}

bool state_propagate(PlaceState *s, Part p, Window risen)
{
    Window all = { 0 };

    while (risen.first < risen.last) {
        Window touched = risen;
        if (!lift_buffers(s, p, risen, &touched)) return false;
        all = hull(all, touched);
        if (!lift_floors(s, p, touched, &risen)) return false;
    }
    if (all.first >= all.last) return true;
    all = (Window){ all.first > p.first ? all.first : p.first, all.last < p.last ? all.last : p.last };
    for (int k = p.from; k < p.to; k++) {
        Window w = clip(s, s->list[k], all);
        if (w.first < w.last && !s->pinned[s->list[k]] && leaves_a_hole(s, s->list[k])) return false;
    }
    return fill_sections(s, p, all);
}

/* A buffer settles on what lies in its sections. Where all that holds it up lives within its own lifetime,
 * the two change places: below the longer one, above what it stood on. That never takes more room, and
 * it weighs less. Of two with one lifetime the one of lower rank lies below. */
bool state_is_settled(const PlaceState *s, int buffer)
{
    int lo = s->lo[buffer], hi = s->hi[buffer], under = -1;
    int64_t at = s->lowest[buffer], rests_on = 0;

    if (s->pinned[buffer]) return true;
    for (int i = lo; i < hi; i++) {
        int o = s->owner[i];
        bool within = o >= 0 && !s->pinned[o] && s->lo[o] >= lo && s->hi[o] <= hi;
        if (!within && s->top[i] > rests_on) rests_on = s->top[i];
    }
    for (int i = lo; i < hi; i++) { /* what lies within and is not removed whole holds it up as well */
        int o = s->owner[i];
        if (s->top[i] <= rests_on) continue;
        if (s->offset[o] == rests_on) {
            under = o;
            continue;
        }
        rests_on = s->offset[o] < rests_on ? s->top[i] : s->offset[o];
        under = -1;
        i = lo - 1;
    }
    if (rests_on == at) return true;
    return under >= 0 && s->lo[under] == lo && s->hi[under] == hi && s->offset[under] == rests_on &&
           s->offset[under] + s->size[under] == at && s->rank[under] < s->rank[buffer];
}

void state_reset(PlaceState *s, int64_t capacity)
{
    s->capacity = capacity;
    s->n_undo = 0;
    s->failed = false;
    memset(s->rest, 0, (size_t)s->n_sections * sizeof *s->rest);
    for (int b = 0; b < s->n; b++) {
        s->list[b] = b;
        s->lowest[b] = s->pinned[b] ? s->offset[b] : -1;
        s->placed[b] = false;
        for (int i = s->lo[b]; i < s->hi[b]; i++) s->rest[i] += s->size[b];
    }
    for (int i = 0; i < s->n_sections; i++) {
        s->floor[i] = s->top[i] = s->base[i];
        s->ceiling[i] = INT64_MAX;
        s->owner[i] = -1;
    }
    for (int k = s->n_pins - 1; k >= 0; k--)
        for (int i = s->lo[s->pins[k]]; i < s->hi[s->pins[k]]; i++) s->ceiling[i] = s->offset[s->pins[k]];
}
