/* bytes.c - a text file as bytes, and where its windows start.
 *
 * A file is read whole before anything is decided, so that pipes work and a file that grows
 * meanwhile is no danger. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "models/random.h"
#include "models/text/text.h"
#include "runtime/base.h"
#include "runtime/op.h"

enum { BYTE_VALUES = 256, FIRST_READ = 1 << 16 };

/* Host bytes that a byte of text takes at most while it is read: twice itself, and a token. */
enum { BYTES_PER_BYTE = 2 + sizeof(int32_t) };

/* ---- Reading -------------------------------------------------------------- */

typedef struct Bytes {
    unsigned char *at;
    size_t n, room;
} Bytes;

static bool bytes_grow(Bytes *b)
{
    size_t room = b->room ? b->room * 2 : FIRST_READ;
    unsigned char *at = realloc(b->at, room);

    if (!at) return false;
    b->at = at;
    b->room = room;
    return true;
}

/* The most bytes of text that the machine has memory for, so that a device that never ends is refused
 * before it has taken all. */
static TideStatus most_bytes(Tide *t, size_t *most, TideMemory *memory)
{
    TRY(tide_memory(t, memory));
    *most = memory->host_free ? memory->host_free / BYTES_PER_BYTE : SIZE_MAX; /* 0: not known */
    return TIDE_OK;
}

static TideStatus read_all(Tide *t, const char *path, FILE *file, Bytes *b)
{
    TideMemory memory;
    size_t most;

    TRY(most_bytes(t, &most, &memory));
    for (;;) {
        if (b->n > most)
            return tide_fail(t, TIDE_BAD_FILE,
                             "%s: has more than %zu bytes, and text takes %d times as much of the %zu bytes "
                             "of host memory that are free; give a shorter text",
                             path, most, (int)BYTES_PER_BYTE, memory.host_free);
        if (b->n == b->room && !bytes_grow(b))
            return tide_fail(t, TIDE_NO_MEMORY, "%s: no memory to read more than %zu bytes", path, b->n);
        size_t got = fread(b->at + b->n, 1, b->room - b->n, file);
        b->n += got;
        if (got) continue;
        if (ferror(file)) return tide_fail(t, TIDE_IO, "%s: cannot be read: %s", path, strerror(errno));
        return TIDE_OK;
    }
}

static TideStatus read_file(Tide *t, const char *path, Bytes *b)
{
    FILE *file = fopen(path, "rb");

    if (!file) return tide_fail(t, TIDE_IO, "%s: cannot be opened: %s", path, strerror(errno));
    TideStatus status = read_all(t, path, file, b);
    fclose(file);
    if (!status && b->n == 0) return tide_fail(t, TIDE_BAD_FILE, "%s: is empty; give a file with text", path);
    return status;
}

/* ---- Parting -------------------------------------------------------------- */

static TideStatus check_length(Tide *t, const char *path, Tokens part, int64_t window)
{
    if (part.n >= window) return TIDE_OK;
    return tide_fail(
        t, TIDE_BAD_FILE,
        "%s: has %lld tokens, but a context of %lld needs at least %lld; give a longer text or a "
        "smaller --seq",
        path, (long long)part.n, (long long)window - 1, (long long)window);
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
    int64_t n = x->train.n + x->validate.n;

    TRY(check_length(t, path, (Tokens){ x->storage, n }, window));
    if (x->train.n >= window && x->validate.n >= window) return TIDE_OK;
    return tide_fail(
        t, TIDE_BAD_FILE,
        "%s: its last tenth, %lld of %lld tokens, validates, but a context of %lld needs %lld; give "
        "--val-data, a text of at least %lld tokens, or a smaller --seq",
        path, (long long)x->validate.n, (long long)n, (long long)window - 1, (long long)window,
        (long long)least_length(window));
}

static Text *text_new(const Bytes *train, const Bytes *validate)
{
    size_t n = train->n + validate->n;
    Text *x = calloc(1, sizeof *x);

    if (x) x->storage = malloc(n * sizeof *x->storage);
    if (!x || !x->storage) {
        free(x);
        return NULL;
    }
    for (size_t i = 0; i < train->n; i++) x->storage[i] = train->at[i];
    for (size_t i = 0; i < validate->n; i++) x->storage[train->n + i] = validate->at[i];
    int64_t split = validate->n ? (int64_t)train->n : (int64_t)n * 9 / 10;
    x->train = (Tokens){ x->storage, split };
    x->validate = (Tokens){ x->storage + split, (int64_t)n - split };
    x->vocab = BYTE_VALUES;
    return x;
}

static TideStatus check_parts(Tide *t, const char *path, const char *validate_path, const Text *x, int seq)
{
    int64_t window = (int64_t)seq + 1;

    if (!validate_path) return check_tenth(t, path, x, window);
    TRY(check_length(t, path, x->train, window));
    return check_length(t, validate_path, x->validate, window);
}

TideStatus text_open(Tide *t, const char *path, const char *validate_path, int seq, Text **out)
{
    Bytes train = { 0 }, validate = { 0 };
    TideStatus status = read_file(t, path, &train);

    *out = NULL;
    if (!status && validate_path) status = read_file(t, validate_path, &validate);
    Text *x = status ? NULL : text_new(&train, &validate);
    if (!status && !x)
        status = tide_fail(t, TIDE_NO_MEMORY, "%s: no memory for %zu tokens", path, train.n + validate.n);
    if (!status) status = check_parts(t, path, validate_path, x, seq);
    free(train.at);
    free(validate.at);
    if (status) {
        text_free(x);
        return status;
    }
    *out = x;
    return TIDE_OK;
}

void text_free(Text *x)
{
    if (!x) return;
    free(x->storage);
    free(x);
}

/* ---- Windows -------------------------------------------------------------- */

int64_t tokens_random_start(Tokens s, int64_t length, uint64_t seed, int64_t step, int64_t row)
{
    const uint32_t counter[4] = { (uint32_t)row, (uint32_t)((uint64_t)row >> 32), (uint32_t)step,
                                  (uint32_t)((uint64_t)step >> 32) };

    assert(s.n >= length);
    return (int64_t)random_below(random_key(seed, "windows"), counter, (uint64_t)(s.n - length + 1));
}

int64_t tokens_even_start(Tokens s, int64_t length, int64_t i, int64_t count)
{
    assert(s.n >= length && i < count);
    return count > 1 ? (int64_t)((double)(s.n - length) * (double)i / (double)(count - 1)) : 0;
}

void tokens_window(Tokens s, int64_t start, int64_t seq, int32_t *tokens, int32_t *targets)
{
    assert(start >= 0 && start + seq < s.n);
    for (int64_t i = 0; i < seq; i++) {
        tokens[i] = s.at[start + i];
        targets[i] = s.at[start + i + 1];
    }
}

void tokens_features(Tokens s, int64_t start, int64_t width, float *x, int32_t *target)
{
    assert(start >= 0 && start + width < s.n);
    for (int64_t i = 0; i < width; i++) x[i] = (float)s.at[start + i] / 128 - 1;
    *target = s.at[start + width];
}

int64_t text_decode(const int32_t *tokens, int64_t n, char *to)
{
    int64_t length = 0;

    for (int64_t i = 0; i < n; i++)
        if (tokens[i] >= 0 && tokens[i] < BYTE_VALUES) to[length++] = (char)(unsigned char)tokens[i];
    return length;
}
