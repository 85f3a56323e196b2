/* token_file.c - llm.c's files of tokens, mapped and checked. */
#include <string.h>
#include "models/text/token_file.h"
#include "runtime/base.h"
#include "runtime/op.h"

enum { HEADER_BYTES = 1024 };

static const struct {
    int32_t magic, version;
    int bytes; /* of a token */
} kinds[] = { { 20240520, 1, 2 }, { 20240801, 7, 4 } };
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* Other files of llm.c and its kin, so that a mix-up is named. */
static const struct {
    int32_t magic;
    const char *what;
} others[] = {
    { 20240522, "questions for an evaluation" },
    { 20240326, "a GPT-2 checkpoint" },
    { 20240327, "a debug state" },
    { 20240328, "a tokenizer" },
    { 20240527, "an optimizer's state" },
    { 20240803, "a Llama-3 checkpoint" },
    { 0x616b3432, "a checkpoint of llama2.c" },
};

static TideStatus refuse_magic(Tide *t, const char *path, int32_t magic)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].magic == magic)
            return tide_fail(t, TIDE_BAD_FILE, "%s: begins with %d and so is %s, not a file of tokens", path,
                             (int)magic, others[i].what);
    return tide_fail(
        t, TIDE_BAD_FILE,
        "%s: begins with %d, but a token file of llm.c begins with %d or %d; bare tokens without a "
        "header need its 1024 bytes before them, and a text needs another name than .bin",
        path, (int)magic, (int)kinds[0].magic, (int)kinds[1].magic);
}

/* The kind of file that a header claims to be. */
static TideStatus find_kind(Tide *t, const char *path, const int32_t header[3], int *kind)
{
    for (*kind = 0; *kind < N_KINDS && kinds[*kind].magic != header[0]; ++*kind) {}
    if (*kind == N_KINDS) return refuse_magic(t, path, header[0]);
    if (header[1] == kinds[*kind].version) return TIDE_OK;
    return tide_fail(t, TIDE_BAD_FILE, "%s: is of version %d; version %d can be read", path, (int)header[1],
                     kinds[*kind].version);
}

static TideStatus check_size(Tide *t, const char *path, size_t size, int32_t count, int bytes)
{
    if (count < 1) return tide_fail(t, TIDE_BAD_FILE, "%s: its header counts %d tokens", path, (int)count);
    size_t wants = HEADER_BYTES + (size_t)count * (size_t)bytes;
    if (size == wants) return TIDE_OK;
    return tide_fail(
        t, TIDE_BAD_FILE,
        "%s: has %zu bytes, but %d tokens of %d bytes after a header of %d take %zu: the file is "
        "%s",
        path, size, (int)count, bytes, (int)HEADER_BYTES, wants, size < wants ? "cut short" : "too long");
}

static TideStatus check_range(Tide *t, const char *path, Tokens s, int vocab)
{
    uint32_t most = 0;

    /* The largest first: that is a fast loop, and nearly always all. */
    if (s.bytes == 2)
        for (int64_t i = 0; i < s.n; i++)
            most = most > ((const uint16_t *)s.at)[i] ? most : ((const uint16_t *)s.at)[i];
    else
        for (int64_t i = 0; i < s.n; i++)
            most = most > ((const uint32_t *)s.at)[i] ? most : ((const uint32_t *)s.at)[i];
    if (most < (uint32_t)vocab) return TIDE_OK;
    int64_t i = 0;
    while ((uint32_t)token_at(s, i) < (uint32_t)vocab) i++;
    return tide_fail(
        t, TIDE_BAD_FILE,
        "%s: token %lld is %u (the largest is %u), but the model's vocabulary is %d; give a model or "
        "--vocab of at least %lld",
        path, (long long)i, (unsigned)token_at(s, i), (unsigned)most, vocab, (long long)most + 1);
}

TideStatus token_file_open(Tide *t, const char *path, int vocab, Bytes *map, Tokens *out)
{
    int32_t header[3];
    int kind;

    *out = (Tokens){ 0 };
    TRY(bytes_map(t, path, map));
    if (map->n < HEADER_BYTES)
        return tide_fail(t, TIDE_BAD_FILE, "%s: has %zu bytes, fewer than the %d of a token file's header",
                         path, map->n, (int)HEADER_BYTES);
    memcpy(header, map->at, sizeof header);
    TRY(find_kind(t, path, header, &kind));
    TRY(check_size(t, path, map->n, header[2], kinds[kind].bytes));
    *out = (Tokens){ map->at + HEADER_BYTES, header[2], kinds[kind].bytes };
    return check_range(t, path, *out, vocab);
}
