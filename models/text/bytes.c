/* bytes.c - files of bytes, read whole or mapped.
 *
 * A text is read whole before anything is decided, so that pipes work and a file that grows meanwhile is no
 * danger. Token files may be larger than memory, and are mapped. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "models/text/bytes.h"
#include "runtime/base.h"
#include "runtime/op.h"

enum { FIRST_READ = 1 << 16 };

/* Host bytes that a byte of text takes at most while it is read: twice itself, and a token. */
enum { BYTES_PER_BYTE = 2 + sizeof(int32_t) };

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
                             "of host memory that are free; give a shorter text, or token files",
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

TideStatus bytes_read(Tide *t, const char *path, Bytes *out)
{
    FILE *file = fopen(path, "rb");

    *out = (Bytes){ 0 };
    if (!file) return tide_fail(t, TIDE_IO, "%s: cannot be opened: %s", path, strerror(errno));
    TideStatus status = read_all(t, path, file, out);
    fclose(file);
    if (!status && out->n == 0)
        return tide_fail(t, TIDE_BAD_FILE, "%s: is empty; give a file with text", path);
    return status;
}

static TideStatus map_open(Tide *t, const char *path, int file, Bytes *out)
{
    struct stat about;

    if (fstat(file, &about)) return tide_fail(t, TIDE_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return tide_fail(t, TIDE_BAD_FILE, "%s: is no regular file, so it cannot be mapped", path);
    if (about.st_size == 0) return tide_fail(t, TIDE_BAD_FILE, "%s: is empty: it has 0 bytes", path);
    void *at = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (at == MAP_FAILED)
        return tide_fail(t, TIDE_IO, "%s: %lld bytes cannot be mapped: %s", path, (long long)about.st_size,
                         strerror(errno));
    *out = (Bytes){ .at = at, .n = (size_t)about.st_size };
    return TIDE_OK;
}

TideStatus bytes_map(Tide *t, const char *path, Bytes *out)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);

    *out = (Bytes){ 0 };
    if (file < 0) return tide_fail(t, TIDE_IO, "%s: cannot be opened: %s", path, strerror(errno));
    TideStatus status = map_open(t, path, file, out);
    close(file);
    return status;
}

void bytes_free(Bytes *b)
{
    if (b->room)
        free(b->at);
    else if (b->at)
        munmap(b->at, b->n);
    *b = (Bytes){ 0 };
}
