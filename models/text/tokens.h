/* tokens.h - stretches of tokens, and which of them a row of a batch sees.
 *
 * What a row sees is a function of a seed and of where the run stands in its data, never of when
 * or how it is computed, so that a run that is resumed, or planned otherwise, sees the same. */
#ifndef TIDE_TOKENS_H
#define TIDE_TOKENS_H
#include "runtime/tide.h"

/* Tokens that stand one after another, each an unsigned number of 1, 2 or 4 bytes. Borrowed. */
typedef struct Tokens { const void *at; int64_t n; int bytes; } Tokens;

/* What is learned from, or validated on. No window reaches from one shard into the next. Borrowed. */
typedef struct Part {
    const Tokens *shards;
    int           n;
    bool          by_sample; /* every token once an epoch, in samples; else windows at random places */
} Part;

/* Where a run stands in its data: with the data and the shapes of a step, all that the next step depends
 * on. A run that goes on from a saved position sees what it would have seen. Zero, with a seed: the start. */
typedef struct DataPosition {
    uint64_t seed;
    int64_t  step;          /* the next one; windows at random depend on it                 */
    int64_t  epoch, sample; /* of the next step: sample 0, 1, ... in the order of that epoch */
} DataPosition;

int32_t token_at(Tokens s, int64_t i);
int64_t part_tokens(Part p);

/* Copy seq tokens from start, and as targets the tokens that follow each. [seq] both. */
void    tokens_window(Tokens s, int64_t start, int64_t seq, int32_t *tokens, int32_t *targets);
/* For a model without a sense of order: width tokens from start, scaled to [-1, 1) as bytes, and as its
 * one target the token that follows them. x [width]. */
void    tokens_features(Tokens s, int64_t start, int64_t width, float *x, int32_t *target);

/* A place in a part: token `start` of a shard. */
typedef struct Place { Tokens shard; int64_t start; } Place;

/* How many windows of a length a part holds, overlapping ones too, and where window i of them begins. */
int64_t part_windows(Part p, int64_t length);
Place   part_window(Part p, int64_t length, int64_t i);
/* Where the window of a row of a step begins: any of part_windows() is equally likely. Rows count through
 * all micro-steps of a step, so that 2 micro-steps of 6 rows see the same text as one of 12. */
Place   part_random(Part p, int64_t length, uint64_t seed, int64_t step, int64_t row);
/* Where window i of count windows begins that are spread evenly over a part. */
Place   part_even(Part p, int64_t length, int64_t i, int64_t count);

/* llm.c's rule: a shard of n tokens holds (n - 1) / length samples; sample k begins at token k * length,
 * and its last target is the first token of sample k + 1. What is left at a shard's end is not seen. */
int64_t part_samples(Part p, int64_t length);
/* Where the sample begins that an epoch sees as its i-th: each of part_samples() once an epoch, in an order
 * that depends on seed and epoch. */
Place   part_sample(Part p, int64_t length, uint64_t seed, int64_t epoch, int64_t i);
/* Number i of a permutation of 0 .. n - 1 that depends on key and round: a Feistel network of Philox over
 * the next power of 4, entered again until it leaves a number below n (Black and Rogaway 2002). */
int64_t shuffled(uint64_t key, int64_t round, int64_t i, int64_t n);

/* The position one step later; samples: those of an epoch, or 0 for windows at random. */
DataPosition position_next(DataPosition at, int64_t samples);

#endif
