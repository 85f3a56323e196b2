/* out_file.h - a file that appears whole or not at all. */
#ifndef TIDE_OUT_FILE_H
#define TIDE_OUT_FILE_H
#include <stdbool.h>
#include <stdio.h>

/* Written under a temporary name in the same folder, then renamed: who reads the path sees the old file or
 * the new one. What is no regular file (a pipe, a device), or lies in a folder that takes no new file, is
 * written where it is. */
typedef struct OutFile {
    FILE *to;
    char *path, *temporary; /* owned; temporary NULL: written in place */
} OutFile;

/* False, with errno, if it cannot be written. */
bool out_file_open(OutFile *f, const char *path);
/* End it. False, with errno, if something was not written: then the path is as it was before. */
bool out_file_close(OutFile *f);
/* End it without the file: the path is as it was before, unless it is written in place. */
void out_file_discard(OutFile *f);

#endif
