/* base.h - the one macro for control flow, and small helpers shared by all. */
#ifndef TIDE_BASE_H
#define TIDE_BASE_H
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* Return the status of a call unless it is TIDE_OK. */
#define TRY(call)                              \
    do {                                       \
        TideStatus try_status_ = (call);       \
        if (try_status_) return try_status_;   \
    } while (0)

/* n rounded up to a multiple of a power of two. */
static inline size_t align_up(size_t n, size_t alignment)
{
    return (n + alignment - 1) & ~(alignment - 1);
}

/* "512 B", "1.25 MiB" into a buffer that it returns. */
enum { BYTES_TEXT = 24 };
char *bytes_text(size_t bytes, char text[BYTES_TEXT]);

#endif
