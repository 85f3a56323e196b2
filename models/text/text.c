/* text.c - opens texts and token files, and parts them. */
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include "models/text/text.h"
#include "models/text/token_file.h"
#include "runtime/base.h"
#include "runtime/op.h"

/* ---- What a text owns ----------------------------------------------------- */

static TideStatus add_shard(Tide *t, Part *p, Tokens s)
{
    Tokens *grown = realloc((void *)p->shards, ((size_t)p->n + 1) * sizeof *grown);

    if (!grown) return tide_fail(t, TIDE_NO_MEMORY, "no memory for %d files of tokens", p->n + 1);
    grown[p->n++] = s;
    p->shards = grown;
    return TIDE_OK;
}

/* A place for one more file, which is freed with the text. */
static TideStatus new_file(Tide *t, Text *x, Bytes **out)
{
    Bytes *grown = realloc(x->files, ((size_t)x->n_files + 1) * sizeof *grown);

    if (!grown) return tide_fail(t, TIDE_NO_MEMORY, "no memory for %d files", x->n_files + 1);
    x->files = grown;
    *out = &grown[x->n_files++];
    **out = (Bytes){ 0 };
    return TIDE_OK;
}

void text_free(Text *x)
{
    if (!x) return;
    for (int i = 0; i < x->n_files; i++) bytes_free(&x->files[i]);
    for (int i = 0; i < x->n_lists; i++) token_list_free(&x->lists[i]);
    free((void *)x->train.shards);
    free((void *)x->validate.shards);
    free(x->files);
    tokenizer_free(x->tokenizer);
    free(x);
}

/* ---- Texts ---------------------------------------------------------------- */

static TideStatus add_text(Tide *t, Text *x, const unsigned char *text, size_t n, Part *to)
{
    if (x->tokenizer->bytes) return add_shard(t, to, (Tokens){ text, (int64_t)n, 1 });
    TokenList *list = &x->lists[x->n_lists++];
    TRY(tokenizer_encode(t, x->tokenizer, (const char *)text, n, list));
    return add_shard(t, to, (Tokens){ list->at, list->n, sizeof *list->at });
}

/* Where the last tenth of a text begins: between two characters, where those are what is encoded. */
static size_t nine_tenths(const Text *x, const Bytes *b)
{
    size_t cut = (size_t)((int64_t)b->n * 9 / 10);

    while (!x->tokenizer->bytes && cut > 0 && (b->at[cut] & 0xC0) == 0x80) cut--;
    return cut;
}

/* Read a text as a part; with a second one it gets the last tenth. */
static TideStatus read_text(Tide *t, Text *x, const char *path, Part *to, Part *tenth)
{
    Bytes *file = NULL;

    TRY(new_file(t, x, &file));
    TRY(bytes_read(t, path, file));
    size_t n = tenth ? nine_tenths(x, file) : file->n;
    const unsigned char *at = file->at;
    TRY(add_text(t, x, at, n, to));
    return tenth ? add_text(t, x, at + n, file->n - n, tenth) : TIDE_OK;
}

/* ---- Token files ---------------------------------------------------------- */

static bool is_token_path(const char *path)
{
    size_t n = strlen(path);

    return n >= 4 && !strcmp(path + n - 4, ".bin");
}

static TideStatus map_token_file(Tide *t, Text *x, const char *path, int vocab, Part *to)
{
    Tokens tokens;
    Bytes *file = NULL;

    TRY(new_file(t, x, &file));
    TRY(token_file_open(t, path, vocab, file, &tokens));
    if (to->n && to->shards[0].bytes != tokens.bytes)
        return tide_fail(
            t, TIDE_BAD_FILE,
            "%s: has tokens of %d bytes, but the files before it have tokens of %d, from another "
            "tokenizer",
            path, tokens.bytes, to->shards[0].bytes);
    return add_shard(t, to, tokens);
}

static TideStatus map_token_files(Tide *t, Text *x, const char *pattern, int vocab, Part *to)
{
    glob_t found = { 0 };
    int rc = glob(pattern, 0, NULL, &found);
    TideStatus status = TIDE_OK;

    if (rc == GLOB_NOSPACE)
        status = tide_fail(t, TIDE_NO_MEMORY, "%s: no memory for the names of all files", pattern);
    else if (rc)
        status = tide_fail(t, TIDE_IO, "%s: there is no such file", pattern);
    for (size_t i = 0; !status && i < found.gl_pathc; i++)
        status = map_token_file(t, x, found.gl_pathv[i], vocab, to);
    globfree(&found);
    return status;
}

/* Move the last tenth of all tokens to another part. */
static TideStatus take_tenth(Tide *t, Part *from, Part *to)
{
    int64_t cut = part_tokens(*from) * 9 / 10, at = 0;
    Part all = *from;

    *from = (Part){ 0 };
    TideStatus status = TIDE_OK;
    for (int i = 0; !status && i < all.n; i++) {
        Tokens s = all.shards[i];
        int64_t head = cut - at < 0 ? 0 : cut - at < s.n ? cut - at : s.n;
        Tokens tail = { (const char *)s.at + head * s.bytes, s.n - head, s.bytes };
        at += s.n;
        if (head) status = add_shard(t, from, (Tokens){ s.at, head, s.bytes });
        if (!status && tail.n) status = add_shard(t, to, tail);
    }
    free((void *)all.shards);
    return status;
}

/* ---- Both ----------------------------------------------------------------- */

static TideStatus check_length(Tide *t, const char *path, Part part, int64_t window)
{
    if (part_windows(part, window)) return TIDE_OK;
    return tide_fail(
        t, TIDE_BAD_FILE,
        "%s: has %lld tokens, but a context of %lld needs at least %lld; give a longer text or a "
        "smaller --seq",
        path, (long long)part_tokens(part), (long long)window - 1, (long long)window);
}

/* The least length of a file whose last tenth, and whose rest, hold a window. */
static int64_t least_length(int64_t window)
{
    int64_t n = window * 10;

    while (n - n * 9 / 10 >= window) n--;
    return n + 1;
}

static TideStatus check_tenth(Tide *t, const char *path, const Text *x, int64_t window)
{
    int64_t validate = part_tokens(x->validate), n = part_tokens(x->train) + validate;

    if (part_windows(x->train, window) && part_windows(x->validate, window)) return TIDE_OK;
    if (n < window) return check_length(t, path, (Part){ &(Tokens){ NULL, n, 1 }, 1, false }, window);
    return tide_fail(
        t, TIDE_BAD_FILE,
        "%s: its last tenth, %lld of %lld tokens, validates, but a context of %lld needs %lld; give "
        "--val-data, a text of at least %lld tokens, or a smaller --seq",
        path, (long long)validate, (long long)n, (long long)window - 1, (long long)window,
        (long long)least_length(window));
}

/* Bytes may be learnt with any vocabulary that holds them; what a tokenizer makes must be what the model
 * was made for. */
static TideStatus check_vocabulary(Tide *t, const TextSource *source, const Tokenizer *k)
{
    if (k->bytes && k->vocab > source->vocab)
        return tide_fail(t, TIDE_BAD_FILE, "the bytes of %s need a vocabulary of %d, but the model's is %d",
                         source->train, k->vocab, source->vocab);
    if (k->bytes || k->vocab == source->vocab) return TIDE_OK;
    return tide_fail(t, TIDE_BAD_FILE,
                     "%s: has a vocabulary of %d, but the model's is %d; give the tokenizer of the model, or "
                     "--vocab %d",
                     source->tokenizer, k->vocab, source->vocab, k->vocab);
}

static TideStatus open_tokenizer(Tide *t, const TextSource *source, Text *x)
{
    bool text = !is_token_path(source->train) || (source->validate && !is_token_path(source->validate));

    if (!source->tokenizer && !text) return TIDE_OK;
    TRY(tokenizer_open(t, source->tokenizer, &x->tokenizer));
    return check_vocabulary(t, source, x->tokenizer);
}

static TideStatus open_part(Tide *t, const TextSource *source, Text *x, const char *path, Part *to)
{
    if (is_token_path(path)) return map_token_files(t, x, path, source->vocab, to);
    return read_text(t, x, path, to, NULL);
}

static TideStatus open_parts(Tide *t, const TextSource *source, Text *x)
{
    TRY(open_tokenizer(t, source, x));
    if (source->validate) {
        TRY(open_part(t, source, x, source->train, &x->train));
        TRY(check_length(t, source->train, x->train, source->window));
        TRY(open_part(t, source, x, source->validate, &x->validate));
        return check_length(t, source->validate, x->validate, source->window);
    }
    if (is_token_path(source->train)) {
        TRY(map_token_files(t, x, source->train, source->vocab, &x->train));
        TRY(take_tenth(t, &x->train, &x->validate));
    } else {
        TRY(read_text(t, x, source->train, &x->train, &x->validate));
    }
    return check_tenth(t, source->train, x, source->window);
}

TideStatus text_open(Tide *t, TextSource source, Text **out)
{
    Text *x = calloc(1, sizeof *x);

    *out = NULL;
    if (!x) return tide_fail(t, TIDE_NO_MEMORY, "no memory for a text");
    TideStatus status = open_parts(t, &source, x);
    x->train.by_sample = is_token_path(source.train);
    if (status) {
        text_free(x);
        return status;
    }
    *out = x;
    return TIDE_OK;
}
