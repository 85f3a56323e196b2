/* pieces.c - llama2.c's tokenizer: pieces with scores; of all neighbours that make a piece, those with the
 * highest score are merged first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/text/bytes.h"
#include "models/text/merge.h"
#include "models/text/tokenizer.h"
#include "runtime/base.h"
#include "runtime/op.h"

enum { BEGIN = 1, END = 2, FIRST_BYTE = 3, LEAST_PIECES = FIRST_BYTE + 256, LONGEST = 4096 };

/* llama2.c never merges what scores lower. */
static const float least_score = -1e10f;

typedef struct Scored {
    float score;
    uint32_t n;
    const unsigned char *text; /* in the file */
} Scored;

typedef struct Pieces {
    Bytes file;
    Scored *pieces; /* [count]                                    */
    int count;
    int32_t *slots; /* [n_slots]: pieces by hash of their text; -1: empty; the first of equals */
    size_t n_slots; /* a power of 2                               */
    uint32_t longest;
    Merger merger;
    unsigned char bytes[256]; /* every byte, for pieces that stand for one */
} Pieces;

/* ---- Finding -------------------------------------------------------------- */

static size_t slot_of(const Pieces *p, const unsigned char *text, uint32_t n)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (uint32_t i = 0; i < n; i++) h = (h ^ text[i]) * 0x100000001b3u;
    size_t slot = (size_t)(h ^ h >> 32) & (p->n_slots - 1);
    for (; p->slots[slot] >= 0; slot = (slot + 1) & (p->n_slots - 1)) {
        const Scored *s = &p->pieces[p->slots[slot]];
        if (s->n == n && !memcmp(s->text, text, n)) break;
    }
    return slot;
}

static int32_t find(const Pieces *p, const unsigned char *text, uint32_t n)
{
    return n > p->longest ? -1 : p->slots[slot_of(p, text, n)];
}

static bool rule(const void *rules, int32_t left, int32_t right, double *urgency, int32_t *result)
{
    const Pieces *p = rules;
    const Scored *a = &p->pieces[left], *b = &p->pieces[right];
    unsigned char both[LONGEST];

    if (a->n + b->n > p->longest) return false;
    memcpy(both, a->text, a->n);
    memcpy(both + a->n, b->text, b->n);
    *result = find(p, both, a->n + b->n);
    if (*result < 0 || p->pieces[*result].score <= least_score) return false;
    *urgency = -(double)p->pieces[*result].score;
    return true;
}

/* ---- Encoding and decoding ------------------------------------------------ */

/* Bytes of the character at the start: a byte and those that continue it, at most 4. */
static uint32_t character(const unsigned char *text, size_t n)
{
    uint32_t length = 1;

    while (length < n && length < 4 && (text[length] & 0xC0) == 0x80) length++;
    return length;
}

static TideStatus add_characters(Tide *t, const Pieces *p, const unsigned char *text, size_t n,
                                 TokenList *out)
{
    int32_t space = find(p, (const unsigned char *)" ", 1);

    if (n && space >= 0) TRY(token_list_add(t, out, space)); /* a text begins like a word */
    for (uint32_t length; n; text += length, n -= length) {
        length = character(text, n);
        int32_t piece = find(p, text, length);
        if (piece >= 0) TRY(token_list_add(t, out, piece));
        for (uint32_t i = 0; piece < 0 && i < length; i++) TRY(token_list_add(t, out, FIRST_BYTE + text[i]));
    }
    return TIDE_OK;
}

static TideStatus pieces_encode(Tide *t, Tokenizer *k, const char *text, size_t n, TokenList *out)
{
    Pieces *p = k->state;
    int64_t first = out->n;

    TRY(add_characters(t, p, (const unsigned char *)text, n, out));
    size_t symbols = (size_t)(out->n - first);
    if (!symbols) return TIDE_OK;
    TRY(merge_symbols(t, &p->merger, rule, p, out->at + first, &symbols));
    out->n = first + (int64_t)symbols;
    return TIDE_OK;
}

/* The byte that a piece such as <0x0A> stands for; -1: none. */
static int byte_of(const Scored *s)
{
    static const char digits[] = "0123456789ABCDEF";

    if (s->n != 6 || memcmp(s->text, "<0x", 3) || s->text[5] != '>') return -1;
    const char *high = memchr(digits, s->text[3], 16), *low = memchr(digits, s->text[4], 16);
    return high && low ? (int)(high - digits) * 16 + (int)(low - digits) : -1;
}

static const char *pieces_piece(const Tokenizer *k, int32_t before, int32_t token, size_t *n)
{
    const Pieces *p = k->state;

    *n = 0;
    if (token < 0 || token >= p->count || token == BEGIN || token == END) return "";
    const Scored *s = &p->pieces[token];
    int byte = byte_of(s);
    bool skip = byte < 0 && before == BEGIN && s->n && s->text[0] == ' ';
    *n = byte < 0 ? s->n - skip : 1;
    return (const char *)(byte < 0 ? s->text + skip : p->bytes + byte);
}

/* ---- The file ------------------------------------------------------------- */

static uint32_t word_at(const Bytes *file, size_t at)
{
    uint32_t word;

    memcpy(&word, file->at + at, sizeof word);
    return word;
}

/* Count the pieces and check that they fill the file. */
static TideStatus count_pieces(Tide *t, const char *path, Pieces *p)
{
    const Bytes *f = &p->file;

    if (f->n < 4) return tide_fail(t, TIDE_BAD_FILE, "%s: has %zu bytes; a tokenizer has more", path, f->n);
    p->longest = word_at(f, 0);
    if (!p->longest || p->longest > LONGEST)
        return tide_fail(t, TIDE_BAD_FILE, "%s: says that its longest piece has %u bytes; 1 to %d", path,
                         (unsigned)p->longest, (int)LONGEST);
    for (size_t at = 4; at < f->n; p->count++) {
        uint32_t length = f->n - at < 8 ? UINT32_MAX : word_at(f, at + 4);
        if (length == UINT32_MAX || length > f->n - at - 8)
            return tide_fail(t, TIDE_BAD_FILE, "%s: piece %d, at byte %zu of %zu, is cut short", path,
                             p->count, at, f->n);
        if (length > p->longest)
            return tide_fail(t, TIDE_BAD_FILE,
                             "%s: piece %d has %u bytes, but the longest is said to have %u", path, p->count,
                             (unsigned)length, (unsigned)p->longest);
        at += 8 + length;
    }
    if (p->count >= LEAST_PIECES) return TIDE_OK;
    return tide_fail(t, TIDE_BAD_FILE, "%s: has %d pieces; three marks and 256 bytes alone are %d", path,
                     p->count, (int)LEAST_PIECES);
}

static TideStatus check_piece(Tide *t, const char *path, const Pieces *p, int i)
{
    const Scored *s = &p->pieces[i];

    if (!isfinite(s->score))
        return tide_fail(t, TIDE_BAD_FILE, "%s: piece %d has a score of %g", path, i, (double)s->score);
    if (i < FIRST_BYTE || i >= LEAST_PIECES || byte_of(s) == i - FIRST_BYTE) return TIDE_OK;
    return tide_fail(t, TIDE_BAD_FILE, "%s: piece %d must be <0x%02X>", path, i, (unsigned)(i - FIRST_BYTE));
}

static TideStatus read_pieces(Tide *t, const char *path, Pieces *p)
{
    size_t at = 4;

    TRY(count_pieces(t, path, p));
    for (p->n_slots = 512; p->n_slots < 2 * (size_t)p->count; p->n_slots *= 2) {}
    p->pieces = malloc((size_t)p->count * sizeof *p->pieces);
    p->slots = malloc(p->n_slots * sizeof *p->slots);
    if (!p->pieces || !p->slots)
        return tide_fail(t, TIDE_NO_MEMORY, "%s: no memory for %d pieces", path, p->count);
    for (size_t i = 0; i < p->n_slots; i++) p->slots[i] = -1;
    for (int i = 0; i < p->count; i++) {
        Scored *s = &p->pieces[i];
        memcpy(&s->score, p->file.at + at, sizeof s->score);
        s->n = word_at(&p->file, at + 4);
        s->text = p->file.at + at + 8;
        at += 8 + s->n;
        TRY(check_piece(t, path, p, i));
        size_t slot = slot_of(p, s->text, s->n);
        if (p->slots[slot] < 0) p->slots[slot] = i;
    }
    return TIDE_OK;
}

static void pieces_free(Tokenizer *k)
{
    Pieces *p = k->state;

    if (p) {
        bytes_free(&p->file);
        merger_free(&p->merger);
        free(p->pieces);
        free(p->slots);
    }
    free(p);
    free(k);
}

TideStatus pieces_open(Tide *t, const char *path, Tokenizer **out)
{
    Tokenizer *k = calloc(1, sizeof *k);
    Pieces *p = calloc(1, sizeof *p);

    *out = NULL;
    if (!k || !p) {
        free(k);
        free(p);
        return tide_fail(t, TIDE_NO_MEMORY, "no memory for a tokenizer");
    }
    for (int i = 0; i < 256; i++) p->bytes[i] = (unsigned char)i;
    TideStatus status = bytes_read(t, path, &p->file);
    if (!status) status = read_pieces(t, path, p);
    *k = (Tokenizer){ .name = "llama2.c's",
                      .vocab = p->count,
                      .begin = BEGIN,
                      .end = END,
                      .begins_prompt = true,
                      .encode = pieces_encode,
                      .piece = pieces_piece,
                      .free = pieces_free,
                      .state = p };
    if (status) {
        pieces_free(k);
        return status;
    }
    *out = k;
    return TIDE_OK;
}
