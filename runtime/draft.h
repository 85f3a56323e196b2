/* draft.h - the outline of a schedule that follows changes of fates.
 *
 * schedule_build() makes a schedule from nothing; a draft knows that of the fates before, and when a few of
 * them change, it finds anew only the re-runs and the stays concerned. It says the same as a schedule
 * (tests/unit/test_draft.c) as far as a score depends on it: positions, bytes, seconds, transfers.
 *
 * A moment is a run. Re-runs stand in front of a node of the order and are counted from 0; together with
 * that node they are a chunk. So moments keep their names when re-runs come or go in other chunks. */
#ifndef TIDE_DRAFT_H
#define TIDE_DRAFT_H
#include "runtime/evaluate.h"

/* The chunk, and the re-run in it or FIRST_RUN for the node itself, as one number that grows with time. */
typedef int64_t Moment;
enum { RERUN_BITS = 24, FIRST_RUN = (1 << RERUN_BITS) - 1 };
#define NEVER INT64_MAX

typedef struct Rerun {
    int node, target;
    uint64_t wanted; /* a number for the set of outputs that stay; others are thrown away */
    size_t up, down; /* bytes taken from here on; bytes free after it         */
    bool saves;      /* its first output lies on the input that dies here     */
} Rerun;

typedef struct Chunk {
    int first, n;      /* its re-runs in the store                                   */
    uint64_t interest; /* of tensors on which its re-runs depend: tensor_bit()       */
    size_t up, down;   /* as above, for the node itself                              */
    bool saves;
} Chunk;

/* Up to two stays of a tensor: as first made, and as made again or fetched. */
typedef struct Stays { Moment from[2], to[2]; } Stays;

/* Lists of numbers for each of many things: of i, items[start[i]] up to items[start[i + 1]]. */
typedef struct Lists { int *start, *items; } Lists;

typedef struct Draft {
    const Facts *facts;
    TideFate *fates;  /* [n_tensors]: those that the draft is of                       */
    Chunk *chunks;    /* [n_order]                                                     */
    Rerun *store;     /* lists of all chunks, with gaps                                */
    Rerun *other;     /* where they move when it is full                               */
    int n_store, room;
    Moment *made;     /* [n_tensors]: when it was made again; NEVER                     */
    int *remaker;     /* [n_tensors]: node of the re-run whose target it is; NO_NODE    */
    Stays *stays;     /* [n_tensors] */
    /* what never changes */
    int *index;       /* [n_nodes]: in the order; -1                                   */
    Lists readers;    /* of tensors: nodes that may run again and read it              */
    Lists over;       /* of tensors: nodes whose first output may lie on it            */
    bool *may_lie;    /* [n_nodes]: its first output may lie on an input               */
    int *by_making;   /* [n_choices]: choices in the order in which they are made       */
    double *seconds;  /* [n_order + 1]: of the nodes before each                        */
    int bit_width;    /* tensors that share a bit                                      */
    int turn;         /* first chunk of the backward phase                             */
    /* of one change */
    uint64_t dirty;
    int *touched, n_touched;
    bool *is_touched; /* [n_tensors] */
    Rerun *fresh;     /* the new list of a chunk */
    int n_fresh, chunk;
    /* what it makes of them */
    Outline outline;
    double *before;
    int *fetches;
    int *position;    /* [n_order]: of the first run of each node                       */
    Pool pool;
} Draft;

/* A draft of fates that keep everything. TIDE_NO_MEMORY is the only failure. */
TideStatus draft_new(const Facts *f, Draft **out);
void       draft_free(Draft *d);

/* The outline for these fates, of tensors with a choice; transfers leave as early and return as late as they
 * can. It belongs to the draft, and moments_choose() may change it. Cannot fail. */
const Outline *draft_follow(Draft *d, const TideFate *fates);

/* draft_stays.c: the stays of a tensor leave the sums of bytes, or join them as they are now. */
void draft_lift(Draft *d, int t);
void draft_drop(Draft *d, int t);
/* ... and where an output lies on tensor t, if it may and t dies there, its bytes are not counted twice. */
void draft_save(Draft *d, int t);

static inline Moment moment_of(int chunk, int rerun)
{
    return (Moment)chunk << RERUN_BITS | rerun;
}
static inline int moment_chunk(Moment m)
{
    return (int)(m >> RERUN_BITS);
}
static inline int moment_rerun(Moment m)
{
    return (int)(m & FIRST_RUN);
}

#endif
