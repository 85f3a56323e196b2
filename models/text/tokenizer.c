/* tokenizer.c - which tokenizer a path holds; and the one that needs none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "models/text/tokenizer.h"
#include "runtime/base.h"
#include "runtime/op.h"

/* ---- Lists ---------------------------------------------------------------- */

static TideStatus list_reserve(Tide *t, TokenList *list, int64_t more)
{
    int64_t room = list->room ? list->room : 256;

    while (room < list->n + more) room *= 2;
    if (room == list->room) return TIDE_OK;
    int32_t *at = realloc(list->at, (size_t)room * sizeof *at);
    if (!at) return tide_fail(t, TIDE_NO_MEMORY, "no memory for %lld tokens", (long long)room);
    list->at = at;
    list->room = room;
    return TIDE_OK;
}

TideStatus token_list_add(Tide *t, TokenList *list, int32_t token)
{
    if (list->n == list->room) TRY(list_reserve(t, list, 1));
    list->at[list->n++] = token;
    return TIDE_OK;
}

void token_list_free(TokenList *list)
{
    free(list->at);
    *list = (TokenList){ 0 };
}

/* ---- Bytes ---------------------------------------------------------------- */

enum { BYTE_VALUES = 256 };

static TideStatus bytes_encode(Tide *t, Tokenizer *k, const char *text, size_t n, TokenList *out)
{
    (void)k;
    TRY(list_reserve(t, out, (int64_t)n));
    for (size_t i = 0; i < n; i++) out->at[out->n++] = (unsigned char)text[i];
    return TIDE_OK;
}

static const char *bytes_piece(const Tokenizer *k, int32_t before, int32_t token, size_t *n)
{
    (void)before;
    *n = token >= 0 && token < BYTE_VALUES;
    return (const char *)k->state + (*n ? token : 0);
}

static void bytes_close(Tokenizer *k)
{
    free(k->state);
    free(k);
}

static TideStatus bytes_open(Tide *t, Tokenizer **out)
{
    Tokenizer *k = calloc(1, sizeof *k);
    unsigned char *all = malloc(BYTE_VALUES);

    *out = NULL;
    if (!k || !all) {
        free(k);
        free(all);
        return tide_fail(t, TIDE_NO_MEMORY, "no memory for a tokenizer of bytes");
    }
    for (int i = 0; i < BYTE_VALUES; i++) all[i] = (unsigned char)i;
    *k = (Tokenizer){ .name = "bytes",
                      .vocab = BYTE_VALUES,
                      .begin = '\n',
                      .end = -1,
                      .bytes = true,
                      .encode = bytes_encode,
                      .piece = bytes_piece,
                      .free = bytes_close,
                      .state = all };
    *out = k;
    return TIDE_OK;
}

/* ---- Kinds ---------------------------------------------------------------- */

static const char advice[] =
    "Tide knows GPT-2's encoder.json and vocab.bpe (vocab.json and merges.txt) and llama2.c's tokenizer.bin; "
    "for any other, turn the text into token files of llm.c with the tool it came with, and give those as "
    "--data";

static bool join(char *to, size_t room, const char *folder, const char *name)
{
    struct stat about;

    return snprintf(to, room, "%s/%s", folder, name) < (int)room && stat(to, &about) == 0;
}

static TideStatus open_folder(Tide *t, const char *path, Tokenizer **out)
{
    static const char *const pairs[][2] = { { "encoder.json", "vocab.bpe" }, { "vocab.json", "merges.txt" } };
    static const char *const unknown[] = { "tokenizer.json", "tokenizer.model", "spiece.model", "vocab.txt" };
    char a[4096], b[4096];

    for (int i = 0; i < 2; i++)
        if (join(a, sizeof a, path, pairs[i][0]) && join(b, sizeof b, path, pairs[i][1]))
            return bpe_open(t, a, b, out);
    if (join(a, sizeof a, path, "tokenizer.bin")) return pieces_open(t, a, out);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (join(a, sizeof a, path, unknown[i]))
            return tide_fail(t, TIDE_BAD_FILE, "%s: a tokenizer of this kind cannot be read. %s", a, advice);
    return tide_fail(t, TIDE_BAD_FILE, "%s: holds no tokenizer. %s", path, advice);
}

TideStatus tokenizer_open(Tide *t, const char *path, Tokenizer **out)
{
    struct stat about;

    *out = NULL;
    if (!path) return bytes_open(t, out);
    if (stat(path, &about)) return tide_fail(t, TIDE_IO, "%s: there is no such folder or file", path);
    if (S_ISDIR(about.st_mode)) return open_folder(t, path, out);
    size_t n = strlen(path);
    if (n > 4 && !strcmp(path + n - 4, ".bin")) return pieces_open(t, path, out);
    return tide_fail(t, TIDE_BAD_FILE, "%s: is no tokenizer that can be read. %s", path, advice);
}

void tokenizer_free(Tokenizer *k)
{
    if (k) k->free(k);
}

TideStatus tokenizer_encode(Tide *t, Tokenizer *k, const char *text, size_t n, TokenList *out)
{
    return k->encode(t, k, text, n, out);
}

const char *tokenizer_piece(const Tokenizer *k, int32_t before, int32_t token, size_t *n)
{
    return k->piece(k, before, token, n);
}
