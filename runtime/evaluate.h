/* evaluate.h - what a set of decisions costs: seconds, bytes on the device, bytes on the host.
 *
 * An evaluator holds the memory for one schedule and one timeline and is used again and again. */
#ifndef TIDE_EVALUATE_H
#define TIDE_EVALUATE_H
#include "runtime/schedule.h"
#include "runtime/simulate.h"

typedef struct Score {
    double seconds;    /* the whole section                                          */
    size_t peak;       /* most bytes taken at once                                   */
    int    peak_at;    /* the first position where they are                          */
    double excess;     /* sum over positions of the bytes above the limit            */
    size_t host_bytes; /* for offloaded tensors, without stage                       */
} Score;

/* What the moments of transfers and the times of a schedule depend on: all that a score needs. */
typedef struct Outline {
    int           n_runs;
    size_t       *live;      /* [n_runs] */
    const double *before;    /* [n_runs + 1] */
    Transfer     *transfers; int n_transfers;
    const int    *fetches;   /* [n_transfers] */
    size_t        host_bytes;
} Outline;

typedef struct Evaluator {
    Schedule *schedule;           /* of the newest evaluate()                               */
    struct Draft *draft;          /* of the newest evaluate_again()                          */
    Timeline  timeline;           /* of the newest score: runs between two moments are one task */
    double    prologue, epilogue; /* seconds of the copies of inputs and of outputs         */
    double   *starts;             /* [n_runs]: of each run, while moments are chosen         */
    double   *done;               /* [n_transfers]: end of the copy out, likewise            */
    int      *stays_until, *next; /* transfers by the last position where they must stay     */
    uint64_t *marks;              /* a bit for each position where a task of the timeline begins */
    int      *rank;               /* tasks before each 64 positions                         */
    long      evaluations;        /* since evaluator_new()                                   */
    Pool      pool;
} Evaluator;

/* Sets of positions, a bit each. */
static inline void mark(uint64_t *marks, int position)
{
    marks[position / 64] |= (uint64_t)1 << position % 64;
}
static inline void clear_marks(uint64_t *marks, int n)
{
    for (int word = 0; word <= n / 64; word++) marks[word] = 0;
}
static inline int count_bits(uint64_t bits)
{
    int n = 0;

    for (; bits; bits &= bits - 1) n++;
    return n;
}

/* TIDE_NO_MEMORY is the only failure. The facts must outlive the evaluator. */
TideStatus evaluator_new(const Facts *f, Evaluator **out);
void       evaluator_free(Evaluator *e);

/* The schedule for these fates (see schedule_build), with moments of leaving and returning chosen
 * such that at most limit bytes are taken where that is possible. */
Score evaluate(Evaluator *e, const TideFate *fates, size_t limit);

/* The same score, but only what differs from the evaluate_again() before is found anew: for many fates that
 * differ little. Leaves e->schedule alone. */
Score evaluate_again(Evaluator *e, const TideFate *fates, size_t limit);

/* evaluate_again(), unless bytes or seconds show at once that the score is no better than this one, which has
 * no excess: then false, and *score is not filled in. */
bool evaluate_if_better(Evaluator *e, const TideFate *fates, size_t limit, double than_seconds, Score *score);

/* Choose the moments of an outline and score it: what evaluate() does with that of its schedule. */
Score evaluate_outline(Evaluator *e, const Outline *o, size_t limit);

/* Seconds of e->schedule if no run and no copy ever waited for bytes of the arena: no placement of
 * these fates is faster. */
double evaluate_freely(Evaluator *e);

/* Choose leave and back of every transfer for this limit, and add to live[] what that takes: each tensor
 * stays until its copy is over and returns just in time, unless memory demands otherwise. Cannot fail;
 * where even the tightest moments exceed the limit, they are taken. */
void moments_choose(Evaluator *e, const Outline *o, size_t limit);

#endif
