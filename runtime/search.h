/* search.h - who decides fates. Another search replaces search_fates() and nothing else. */
#ifndef TIDE_SEARCH_H
#define TIDE_SEARCH_H
#include "runtime/evaluate.h"

typedef struct Question {
    Evaluator *evaluator;
    size_t     limit;      /* of live bytes on the device */
    size_t     host_limit; /* of offloaded bytes          */
    long       effort;     /* evaluations that a local search may spend; 0: only fitting counts */
} Question;

/* Fill fates[n_tensors] such that the score has no excess, if that is found, and few seconds; else
 * little excess. Forced fates are obeyed. fates holds where to start from. Depends on its arguments
 * only. Cannot fail. */
void search_fates(const Question *q, TideFate *fates);

/* The fates that a fixed rule gives, with forced ones on top. AUTO is KEEP. Cannot fail. */
void baseline_fates(const Facts *f, TidePolicy policy, TideFate *fates);

/* Is a fate allowed for tensor t, which has a choice? */
bool fate_is_allowed(const Facts *f, int t, TideFate fate);
/* The fate of tensor t where nothing asks for another: forced or kept. */
TideFate fate_by_default(const Facts *f, int t);

/* Number the layers of all choices by the outermost layer ("block7" of "block7/mlp") of their producers, in
 * the order of the choices: layer[n_choices]. Returns how many layers there are. */
int layers_of_choices(const Facts *f, int *layer);

#endif
