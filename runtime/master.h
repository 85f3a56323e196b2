/* master.h - fates for all blocks at once, from the linear program of the cut that binds. */
#ifndef TIDE_MASTER_H
#define TIDE_MASTER_H
#include "runtime/evaluate.h"
#include "runtime/bound_time.h"

typedef struct Master {
    TimeBound bound;   /* of any schedule: bound_time.h                                       */
    TideFate *fates;   /* [n_tensors], the caller's: a start for a search                      */
    Score     score;   /* of them                                                             */
} Master;

/* Fill out->fates, which the caller gives, with fates that come near the bound at this limit; they exceed
 * it (score.excess > 0) if nothing better was found. e is used. TIDE_NO_MEMORY is the only failure. */
TideStatus master_solve(Evaluator *e, size_t limit, size_t host_limit, Master *out);

#endif
