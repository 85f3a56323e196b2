/* bytes.h - files of bytes, read whole or mapped. */
#ifndef TIDE_BYTES_H
#define TIDE_BYTES_H
#include "runtime/tide.h"

/* Bytes that a caller owns: allocated, or a mapping of a file that must not be cut short while it stands. */
typedef struct Bytes {
    unsigned char *at;
    size_t n, room; /* room: allocated bytes; 0: a mapping */
} Bytes;

/* Read a file, a pipe too, to its end. TIDE_IO: it cannot be read; TIDE_BAD_FILE: it is empty, or so long
 * that its text and tokens would not fit the free memory. Free also after a failure. */
TideStatus bytes_read(Tide *t, const char *path, Bytes *out);
/* Map a file for reading. TIDE_IO: it cannot be mapped; TIDE_BAD_FILE: it is no regular file, or empty. */
TideStatus bytes_map(Tide *t, const char *path, Bytes *out);
void       bytes_free(Bytes *b);

#endif
