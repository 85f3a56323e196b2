/* search_steps.h - what the steps of one search share. Nothing outside search_*.c includes it.
 *
 *     search.c         where to start, which steps to take
 *     search_mix.c     fates from the best mixture of ways through the tightest cut
 *     search_shed.c    change fates where memory binds until everything fits
 *     search_all.c     all combinations of fates, where they are few
 *     search_local.c   small changes, each judged by the exact score */
#ifndef TIDE_SEARCH_STEPS_H
#define TIDE_SEARCH_STEPS_H
#include "runtime/search.h"
#include "runtime/bound_time.h"

typedef struct Search {
    const Question *q;
    const Facts    *f;
    const Problem  *p;
    Evaluator      *e;
    TideFate *fates;        /* [n_tensors]: what is tried                                      */
    TideFate *best;         /* [n_tensors]: the best noted so far                              */
    Score     best_score;
    double    bound_seconds; /* that no schedule beats; 0: not known                            */
    int      *layer;        /* [n_choices]: number of the outermost layer that makes the tensor */
    int       n_layers;
    int      *first_choice; /* [n_layers + 1]: of each layer; they stand in the order of layers */
    int      *like;         /* [n_layers]: the first layer with the same choices                */
    double    choice_bytes; /* of all choices                                                   */
    long      until;        /* evaluations of e after which local search stops                  */
    Pool      pool;
} Search;

/* Is a fate allowed, and does the host hold the tensor if it is to be offloaded? */
bool  search_allows(const Search *s, int t, TideFate fate);

/* The exact score of s->fates. Bytes above the host limit count as excess. */
Score search_score(Search *s);
/* The same, or false if it surely is no better than this score. */
bool  search_score_if_better(Search *s, const Score *than, Score *score);
bool  score_is_better(const Score *a, const Score *b);
/* Remember s->fates, whose score this is, if nothing better is known. */
void  search_note(Search *s, const Score *score);

/* Does the best fit, and come so near the bound that no other start is needed? */
bool  search_is_good(const Search *s);

/* Try arrangements of the best mixture of ways, at less and less room until one fits. Notes what it tries. */
void search_mixtures(Search *s);

/* From s->fates, change fates by estimated cost per byte until nothing exceeds the limit or no change helps.
 * lane_price: what a second of a copy lane is worth, even if hidden. Notes the outcome. */
void search_shed(Search *s, double lane_price);

/* Are there at most so many combinations of fates that are allowed? */
bool  search_is_small(const Search *s, long most);
/* Try them all. */
void  search_all(Search *s);

/* Improve s->fates by small changes until none helps or s->until is reached. Notes the outcome. */
void search_locally(Search *s);

#endif
