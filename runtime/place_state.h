/* place_state.h - an unfinished placement that grows from the bottom up and can be taken back.
 *
 * Time is cut into sections, one for each largest set of buffers that live together; two buffers meet in time
 * just where they meet in a section. Each section has a floor: nothing that is still to be placed lies
 * lower there. All bytes are rounded up to the alignment already. */
#ifndef TIDE_PLACE_STATE_H
#define TIDE_PLACE_STATE_H
#include "runtime/place.h"
#include "runtime/pool.h"

typedef struct Undo {
    int     kind, at;   /* what was changed: a floor, a section, a buffer's lowest, a buffer's placement */
    int     owner;
    int64_t floor, top, ceiling; /* as they were                                                         */
} Undo;

typedef struct PlaceState {
    int      n, n_sections;
    int     *span;       /* [n]: which of the caller's spans                                         */
    int     *lo, *hi;    /* [n]: alive in sections lo to hi - 1                                      */
    int     *rank;       /* [n]: turn in which buffers are tried, set by the search                  */
    int     *twin;       /* [n]: buffer of the same lifetime and size that goes first; -1: none      */
    int64_t *size;       /* [n]                                                                      */
    int64_t *offset;     /* [n]                                                                      */
    int64_t *lowest;     /* [n]: no offset below this is possible while the state stands             */
    bool    *placed;     /* [n]                                                                      */
    bool    *pinned;     /* [n]: fixed at its lowest                                                 */
    int     *pins;       /* [n_pins]: those, by offset                                               */
    int      n_pins;
    int64_t *base;       /* [n_sections]: end of what is fixed without a hole beneath                */
    int64_t *ceiling;    /* [n_sections]: where the next pinned buffer begins; INT64_MAX: none       */
    int64_t *floor;      /* [n_sections]: >= top                                                     */
    int64_t *top;        /* [n_sections]: end of what was placed last                                */
    int     *owner;      /* [n_sections]: and which buffer that was; -1: something fixed             */
    int64_t *rest;       /* [n_sections]: bytes that are still to be placed                          */
    int     *list;       /* [n]: buffers; each part holds a stretch of it                            */
    int64_t *scratch;    /* [n_sections]                                                             */
    int      conflict;   /* section in which the rest did not fit when that was last so              */
    int64_t  bound;      /* no height can be less                                                    */
    int64_t  capacity;
    Undo    *undo;       /* [undo_room]: changes since the beginning                                 */
    long     n_undo, undo_room;
    bool     failed;     /* without memory for them                                                  */
    bool     overlap;    /* fixed spans overlap above a hole: they cannot be searched around         */
    Pool     pool;
} PlaceState;

/* Sections from first to last - 1 and the buffers list[from] to list[to - 1] that live in no others. */
typedef struct Part { int from, to, first, last; } Part;

/* Sections whose floor was changed: first to last - 1; none if first >= last. */
typedef struct Window { int first, last; } Window;

/* Describe spans. What is fixed at the bottom raises the base; above a hole it becomes a pinned buffer.
 * TIDE_NO_MEMORY is the only failure. */
TideStatus state_new(const Span *spans, int n, size_t alignment, PlaceState **out);
void       state_free(PlaceState *s);
/* Nothing is placed. Ranks must be set: they decide which twin goes first. */
void       state_reset(PlaceState *s, int64_t capacity);

Window state_put(PlaceState *s, int buffer, int64_t offset);
Window state_raise(PlaceState *s, int section, int64_t floor);
/* Back to when n_undo was mark. */
void   state_undo(PlaceState *s, long mark);

/* Derive what follows in a part from floors that have risen. False if the part has no placement within
 * the capacity, or none that is not a worse copy of another. */
bool   state_propagate(PlaceState *s, Part p, Window risen);
/* Can a buffer come to lie at its lowest offset, in a placement that has no better copy? */
bool   state_is_settled(const PlaceState *s, int buffer);

#endif
