/* buffer_list.h - lists of buffers for tests of placement: real files, and proof of a result. */
#ifndef TIDE_TEST_BUFFER_LIST_H
#define TIDE_TEST_BUFFER_LIST_H
#include "runtime/place.h"

/* Files below TIDE_TEST_DATA with known facts; name NULL past the last. */
typedef struct BufferListFile {
    const char *name;
    int         n;        /* buffers in it                                     */
    int64_t     capacity; /* that some solver is known to reach; 0: not known  */
} BufferListFile;
extern const BufferListFile buffer_list_files[];

/* Read a file of that folder; all arrays are owned by the caller through buffer_list_free(). False if
 * the variable is not set or the file is not there. */
bool buffer_list_read(const char *name, Buffers *out);
void buffer_list_free(Buffers *b);

/* Does any pair of buffers that live at the same time share a byte, or does one lie below 0 or end above
 * height? Written without looking at place.c. Returns the first such buffer, -1 if all is well. */
int  buffer_list_conflict(const Buffers *b, int64_t height);

#endif
