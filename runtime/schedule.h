/* schedule.h - decisions turned into an order of runs, stays of tensors in device memory, and copies.
 *
 * A position is a place in the order of runs on the compute lane, re-runs included. A stay is one
 * tensor in device memory over a range of positions. Stays of one group lie at one place, each written
 * over the one before it. */
#ifndef TIDE_SCHEDULE_H
#define TIDE_SCHEDULE_H
#include "runtime/liveness.h"

typedef struct Run {
    int  node;
    bool rerun;
    int  first_arg; /* into args[]: stays of the node's inputs, its outputs, then its scratch (-1: none) */
} Run;

typedef struct Stay {
    int    tensor;   /* -1: scratch                                                      */
    size_t bytes;
    int    from, to; /* positions during which the bytes are taken, both included        */
    int    group;    /* the first stay at this place                                     */
    int    transfer; /* that copies it to the host, so that nothing may overwrite it; -1 */
    bool   fixed;
} Stay;

/* An activation that leaves the device and returns. Copies of either lane run in the order of
 * transfers[] and of fetches[]. */
typedef struct Transfer {
    int    tensor;
    int    out_stay, in_stay;
    size_t bytes; /* that its stays take    */
    double moved; /* bytes that a copy moves */
    int    made;  /* position of its producer: the copy out may start behind it             */
    int    until; /* position of its last use before it leaves                              */
    int    leave; /* last position at which it may still lie on the device                  */
    int    back;  /* first position at which its bytes are taken again                      */
    int    need;  /* position of the first use after its return                             */
} Transfer;

typedef struct Schedule {
    const Facts *facts;
    Run      *runs;      int n_runs;
    Stay     *stays;     int n_stays;
    Transfer *transfers; int n_transfers; /* in the order of production */
    int      *fetches;                    /* [n_transfers]: transfers in the order of need */
    int      *args;      int n_args;
    size_t   *live;      /* [n_runs]: bytes taken at each position, all static ones included  */
    double   *before;    /* [n_runs + 1]: seconds of the runs before each position            */
    double    rerun_seconds, order_seconds; /* of re-runs; of first runs */
    size_t    host_bytes; /* for the transfers */

    /* What building needs; of no use to readers. */
    const TideFate *fates; /* [n_tensors] of the problem */
    int  *stay_of;         /* [n_tensors]: its newest stay, -1 */
    bool *made;            /* [n_tensors]: was made again */
    int   node;            /* the node of the order that is being scheduled */
    Pool  pool;
} Schedule;

/* Room for any schedule of a problem. TIDE_NO_MEMORY is the only failure. */
TideStatus schedule_new(const Facts *f, Schedule **out);
void       schedule_free(Schedule *s);

/* Rebuild the schedule for these fates (of tensors with a choice; others are ignored). Offloaded
 * tensors leave right after their last forward use and return just before their need;
 * moments_choose() loosens that. Cannot fail. */
void schedule_build(Schedule *s, const TideFate *fates);

/* Sum the bytes of all stays into live[]. */
void schedule_count_live(Schedule *s);

#endif
