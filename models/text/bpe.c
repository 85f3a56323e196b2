/* bpe.c - GPT-2's tokenizer: words, each merged by the ranks of its pairs (Sennrich et al. 2016, over bytes).
 *
 * Most words of a text have been seen before: short ones are remembered in a table in which a newcomer takes
 * the place of what lay there. */
#include <stdlib.h>
#include <string.h>
#include "models/text/bpe.h"
#include "runtime/base.h"
#include "runtime/op.h"

static const char end_of_text[] = "<|endoftext|>";

enum { SEEN = 1 << 14, SEEN_BYTES = 16, SEEN_TOKENS = 8 };

typedef struct Word {
    unsigned char n, n_tokens; /* n 0: empty */
    unsigned char text[SEEN_BYTES];
    int32_t tokens[SEEN_TOKENS];
} Word;

typedef struct Bpe {
    Vocabulary vocabulary;
    Merger merger;
    Word *seen;       /* [SEEN]               */
    int32_t *symbols; /* [room], of one word  */
    size_t room;
} Bpe;

static bool rule(const void *rules, int32_t left, int32_t right, double *urgency, int32_t *result)
{
    const Pair *p = vocabulary_pair(rules, left, right);

    if (!p) return false;
    *urgency = p->rank;
    *result = p->result;
    return true;
}

static TideStatus reserve(Tide *t, Bpe *b, size_t n)
{
    if (n <= b->room) return TIDE_OK;
    int32_t *grown = realloc(b->symbols, 2 * n * sizeof *grown);
    if (!grown) return tide_fail(t, TIDE_NO_MEMORY, "no memory for a word of %zu bytes", n);
    b->symbols = grown;
    b->room = 2 * n;
    return TIDE_OK;
}

/* Merge a word into b->symbols [*n_tokens]. */
static TideStatus merge_word(Tide *t, Bpe *b, const unsigned char *word, size_t n, size_t *n_tokens)
{
    TRY(reserve(t, b, n));
    for (size_t i = 0; i < n; i++) {
        b->symbols[i] = b->vocabulary.byte_token[word[i]];
        if (b->symbols[i] < 0)
            return tide_fail(t, TIDE_BAD_FILE,
                             "the text has the byte 0x%02X, for which the tokenizer has no token",
                             (unsigned)word[i]);
    }
    *n_tokens = n;
    return merge_symbols(t, &b->merger, rule, &b->vocabulary, b->symbols, n_tokens);
}

static Word *place_of(Bpe *b, const unsigned char *word, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++) h = (h ^ word[i]) * 0x100000001b3u;
    return &b->seen[(h ^ h >> 32) % SEEN];
}

static TideStatus append(Tide *t, TokenList *out, const int32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++) TRY(token_list_add(t, out, tokens[i]));
    return TIDE_OK;
}

static TideStatus encode_word(Tide *t, Bpe *b, const unsigned char *word, size_t n, TokenList *out)
{
    Word *w = n <= SEEN_BYTES ? place_of(b, word, n) : NULL;
    size_t n_tokens;

    if (w && w->n == n && !memcmp(w->text, word, n)) return append(t, out, w->tokens, w->n_tokens);
    TRY(merge_word(t, b, word, n, &n_tokens));
    if (w && n_tokens <= SEEN_TOKENS) {
        w->n = (unsigned char)n;
        w->n_tokens = (unsigned char)n_tokens;
        memcpy(w->text, word, n);
        memcpy(w->tokens, b->symbols, n_tokens * sizeof *w->tokens);
    }
    return append(t, out, b->symbols, n_tokens);
}

/* Where the next mark begins; n if there is none. */
static size_t find_mark(const unsigned char *text, size_t n)
{
    const size_t length = sizeof end_of_text - 1;

    for (size_t at = 0; at + length <= n; at++) {
        const unsigned char *next = memchr(text + at, '<', n - at);
        if (!next) return n;
        at = (size_t)(next - text);
        if (at + length <= n && !memcmp(next, end_of_text, length)) return at;
    }
    return n;
}

/* Between two marks the words; a mark is a token. */
static TideStatus bpe_encode(Tide *t, Tokenizer *k, const char *chars, size_t n, TokenList *out)
{
    const unsigned char *text = (const unsigned char *)chars;
    Bpe *b = k->state;

    while (n) {
        size_t words = find_mark(text, n), length = 0;
        bool mark = words < n;
        n -= words;
        for (; words; text += length, words -= length) {
            length = bpe_word(text, words);
            TRY(encode_word(t, b, text, length, out));
        }
        if (!mark) continue;
        TRY(token_list_add(t, out, b->vocabulary.end_of_text));
        text += sizeof end_of_text - 1;
        n -= sizeof end_of_text - 1;
    }
    return TIDE_OK;
}

static const char *bpe_piece(const Tokenizer *k, int32_t before, int32_t token, size_t *n)
{
    const Vocabulary *v = &((const Bpe *)k->state)->vocabulary;

    (void)before;
    *n = 0;
    if (token < 0 || token >= v->size || token == v->end_of_text) return "";
    *n = v->pieces[token].n;
    return (const char *)v->text + v->pieces[token].at;
}

static void bpe_free(Tokenizer *k)
{
    Bpe *b = k->state;

    if (b) {
        vocabulary_free(&b->vocabulary);
        merger_free(&b->merger);
        free(b->seen);
        free(b->symbols);
    }
    free(b);
    free(k);
}

TideStatus bpe_open(Tide *t, const char *encoder_path, const char *merges_path, Tokenizer **out)
{
    Tokenizer *k = calloc(1, sizeof *k);
    Bpe *b = calloc(1, sizeof *b);

    *out = NULL;
    if (b) b->seen = calloc(SEEN, sizeof *b->seen);
    if (!k || !b || !b->seen) {
        if (b) free(b->seen);
        free(b);
        free(k);
        return tide_fail(t, TIDE_NO_MEMORY, "no memory for a tokenizer of byte pairs");
    }
    TideStatus status = vocabulary_read(t, encoder_path, merges_path, &b->vocabulary);
    *k = (Tokenizer){ .name = "GPT-2's",
                      .vocab = b->vocabulary.size,
                      .begin = b->vocabulary.end_of_text,
                      .end = b->vocabulary.end_of_text,
                      .encode = bpe_encode,
                      .piece = bpe_piece,
                      .free = bpe_free,
                      .state = b };
    if (status) {
        bpe_free(k);
        return status;
    }
    *out = k;
    return TIDE_OK;
}
