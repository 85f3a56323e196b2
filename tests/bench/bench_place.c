/* bench_place.c - how close placement comes to its lower bound, file by file.
 *
 *     TIDE_TEST_DATA=../shared/data bench_place [seconds a file] */
#include <stdio.h>
#include <stdlib.h>
#include "tests/support/buffer_list.h"

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0;

    printf("%-42s %8s %14s %14s %8s %8s\n", "file", "buffers", "bound", "height", "ratio", "seconds");
    for (const BufferListFile *f = buffer_list_files; f->name; f++) {
        Buffers b;
        Placed placed;
        if (!buffer_list_read(f->name, &b)) {
            printf("%-42s is not there: set TIDE_TEST_DATA\n", f->name);
            continue;
        }
        if (place_buffers(b, 0, seconds, &placed) == TIDE_OK)
            printf("%-42s %8d %14lld %14lld %8.5f %8.3f%s\n", f->name, b.n, (long long)placed.bound,
                   (long long)placed.height, (double)placed.height / (double)placed.bound, placed.seconds,
                   buffer_list_conflict(&b, placed.height) < 0 ? "" : "  OVERLAP");
        buffer_list_free(&b);
    }
    return 0;
}
