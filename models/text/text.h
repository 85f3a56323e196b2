/* text.h - a text file as tokens, parted into training and validation.
 *
 * A token is a byte. Tokens are stored as 16 bits, which is also what a vocabulary of
 * words needs. Offsets of windows are a function of seed, step and row alone, so that a run
 * that is resumed, or planned otherwise, sees the same text. */
#ifndef TIDE_TEXT_H
#define TIDE_TEXT_H
#include "runtime/tide.h"

/* A stretch of tokens. Borrowed from its Text. */
typedef struct Tokens { const uint16_t *at; int64_t n; } Tokens;

typedef struct Text {
    uint16_t *storage; /* all tokens, owned                                              */
    Tokens    train, validate;
    int       vocab;   /* every token is below it                                         */
} Text;

/* Read a file as bytes. With validate_path NULL the last tenth of the file validates, else the
 * second file does. Both parts must hold a window of seq + 1 tokens. Refuses what cannot be
 * read (TIDE_IO) and what is empty or too short (TIDE_BAD_FILE); then *out is NULL. */
TideStatus text_open(Tide *t, const char *path, const char *validate_path, int seq, Text **out);
void       text_free(Text *text);

/* Where the window of a row of a step starts: any of the n - length + 1 places of the tokens is
 * equally likely. Rows count through all micro-steps of a step, so that 2 micro-steps of 6 rows see
 * the same text as one of 12. */
int64_t tokens_random_start(Tokens s, int64_t length, uint64_t seed, int64_t step, int64_t row);
/* Where window i of count windows starts that are spread evenly over the tokens. */
int64_t tokens_even_start(Tokens s, int64_t length, int64_t i, int64_t count);

/* Copy seq tokens from start, and as targets the tokens that follow each. [seq] both. */
void    tokens_window(Tokens s, int64_t start, int64_t seq, int32_t *tokens, int32_t *targets);
/* For a model without a sense of order: width tokens from start, scaled to [-1, 1), and as its
 * one target the token that follows them. x [width]. */
void    tokens_features(Tokens s, int64_t start, int64_t width, float *x, int32_t *target);

/* Write the bytes that tokens stand for, and return how many. Tokens of the padding, which stand
 * for nothing, are left out. to [n]. */
int64_t text_decode(const int32_t *tokens, int64_t n, char *to);

#endif
