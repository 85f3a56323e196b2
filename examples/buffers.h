/* buffers.h - a list of buffers as comma-separated values, the format of the MiniMalloc benchmark:
 * columns id, lower, upper and size in any order, among others that are passed through. A buffer
 * lives from lower up to, but not including, upper. */
#ifndef TIDE_EXAMPLES_BUFFERS_H
#define TIDE_EXAMPLES_BUFFERS_H
#include "examples/options.h"

typedef struct BufferFile {
    int n;
    int64_t *lower, *upper; /* [n] */
    int64_t *size, *offset; /* [n]; offset is filled by whoever places them */
    char *header, **rows;   /* [n] the lines as they were read, without line ends */
    char *text;             /* the file; header and rows lie in it */
} BufferFile;

/* Read a file strictly. EXIT_BAD_INPUT after a message that names line and column. */
int buffers_read(const Options *o, const char *path, BufferFile *out);
/* Write the input's columns and offset. EXIT_WORLD after a message if it cannot be written. */
int buffers_write(const Options *o, const BufferFile *b, const char *path);
void buffers_free(BufferFile *b);

#endif
