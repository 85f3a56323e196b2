/* emit.h - a placed schedule becomes a section of a plan. */
#ifndef TIDE_EMIT_H
#define TIDE_EMIT_H
#include "runtime/plan.h"
#include "runtime/schedule.h"

typedef struct Emission {
    const TideGraph *graph;
    const Schedule  *schedule;
    const size_t    *offsets; /* [n_stays] on the device                                     */
    size_t           stage;   /* where this section's part of the stage memory starts        */
} Emission;

typedef struct Emitted {
    Section section;          /* owned by the caller: see section_free()                     */
    size_t  host_bytes, stage_end;
    size_t  bytes_out, bytes_in;
    double  seconds, stall_seconds;
} Emitted;

/* Waits are derived from the slots alone: a step waits for what wrote what it reads, and for
 * all uses of bytes that it is the first to overwrite; each wait is one that no other implies.
 * TIDE_NO_MEMORY is the only failure. */
TideStatus section_emit(Emission m, Emitted *out);

#endif
