/* bpe.h - the vocabulary of GPT-2's tokenizer as its two files hold it. Private to bpe*.c. */
#ifndef TIDE_BPE_H
#define TIDE_BPE_H
#include "models/text/merge.h"
#include "models/text/tokenizer.h"

/* A pair of tokens that may be merged. */
typedef struct Pair { int32_t left, right, result, rank; } Pair;

/* The bytes that a token stands for, in Vocabulary.text. */
typedef struct Piece { uint32_t at, n; } Piece;

typedef struct Vocabulary {
    int            size;
    Piece         *pieces;      /* [size]                                                       */
    unsigned char *text;        /* of all pieces                                                */
    int32_t        byte_token[256]; /* -1: none, as the vocabulary of a toy may have                */
    Pair          *pairs;       /* [slots]: by hash, open addressing; left -1: empty            */
    size_t         slots;       /* a power of 2                                                 */
    int32_t        end_of_text; /* the token "<|endoftext|>"                                    */
} Vocabulary;

/* Read both files. TIDE_BAD_FILE, with the line or entry, for numbers that are not 0 .. size - 1 once each,
 * and for merges of what no earlier line makes. Free also after a failure. */
TideStatus  vocabulary_read(Tide *t, const char *encoder_path, const char *merges_path, Vocabulary *out);
void        vocabulary_free(Vocabulary *v);
/* The pair, or NULL if the two never merge. */
const Pair *vocabulary_pair(const Vocabulary *v, int32_t left, int32_t right);

/* How many bytes of a text [n > 0] its first word takes, by GPT-2's rule (bpe_words.c). */
size_t      bpe_word(const unsigned char *text, size_t n);

#endif
