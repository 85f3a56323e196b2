/* merge.h - the heart of both tokenizers of words: merge the most urgent pair of neighbours, as long as
 * there is one. */
#ifndef TIDE_MERGE_H
#define TIDE_MERGE_H
#include "runtime/tide.h"

/* Whether two neighbouring symbols may become one; then how urgent that is (lower goes first) and what they
 * become. */
typedef bool MergeRule(const void *rules, int32_t left, int32_t right, double *urgency, int32_t *result);

/* Scratch that grows with the longest list of symbols. Zero: empty. */
typedef struct Merger {
    struct Link  *links; /* [room]     */
    struct Offer *heap;  /* [3 * room] */
    size_t room;
} Merger;

/* Merge symbols [*n] in place until no rule fits; *n becomes smaller. Of the most urgent pairs the leftmost
 * goes first. O(n log n). At most 2^31 - 1 symbols (TIDE_BAD_FILE). */
TideStatus merge_symbols(Tide *t, Merger *m, MergeRule *rule, const void *rules, int32_t *symbols, size_t *n);
void       merger_free(Merger *m);

#endif
