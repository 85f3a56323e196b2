/* tokenizer.h - from text to tokens and back: bytes, GPT-2's byte pairs, llama2.c's pieces.
 *
 * Encoding what was decoded may give other tokens; decoding what was encoded gives the same bytes. */
#ifndef TIDE_TOKENIZER_H
#define TIDE_TOKENIZER_H
#include "runtime/tide.h"

/* A growing list of tokens. Zero: empty. */
typedef struct TokenList { int32_t *at; int64_t n, room; } TokenList;

typedef struct Tokenizer Tokenizer;
struct Tokenizer {
    const char *name;   /* "bytes", "GPT-2's", "llama2.c's"                                           */
    int         vocab;  /* every token is below it                                                    */
    int32_t     begin, end; /* tokens before and after a text; end -1: none                           */
    bool        begins_prompt; /* begin stands before a prompt too, not only where there is none       */
    bool        bytes;  /* every byte is a token: a text needs no encoding                           */
    /* What tokenizer_encode() and tokenizer_piece() ask of a kind, and its own memory. */
    TideStatus (*encode)(Tide *t, Tokenizer *k, const char *text, size_t n, TokenList *out);
    const char *(*piece)(const Tokenizer *k, int32_t before, int32_t token, size_t *n);
    void       (*free)(Tokenizer *k);
    void       *state;
};

/* With path NULL the bytes of a text are its tokens. Else a folder with GPT-2's encoder.json and vocab.bpe
 * (or the same as vocab.json and merges.txt), or a tokenizer file of llama2.c. TIDE_BAD_FILE, with the advice
 * to bring token files, for any other. The caller frees it. */
TideStatus  tokenizer_open(Tide *t, const char *path, Tokenizer **out);
void        tokenizer_free(Tokenizer *k);

/* Append the tokens of a text, without a beginning. Bytes that are no UTF-8 are tokens of their own.
 * Uses the tokenizer's own memory: one thread at a time. */
TideStatus  tokenizer_encode(Tide *t, Tokenizer *k, const char *text, size_t n, TokenList *out);
/* The bytes that a token stands for after the one before it (-1: none); *n is 0 for marks and for numbers
 * that are no token. Borrowed until the next call. */
const char *tokenizer_piece(const Tokenizer *k, int32_t before, int32_t token, size_t *n);

TideStatus  token_list_add(Tide *t, TokenList *list, int32_t token);
void        token_list_free(TokenList *list);

/* The kinds that files describe. */
TideStatus  bpe_open(Tide *t, const char *encoder_path, const char *merges_path, Tokenizer **out);
TideStatus  pieces_open(Tide *t, const char *path, Tokenizer **out);

#endif
