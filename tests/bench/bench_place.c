/* bench_place.c - how close placement comes to its lower bound, file by file.
 *
 *     TIDE_TEST_DATA=../shared/data bench_place [seconds a file]
 *
 * First each file is placed within the capacity it is known to fit, then as low as the seconds allow (0: a
 * fixed effort). Seconds are of the processor. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "tests/support/buffer_list.h"

static double processor_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static void place(const BufferListFile *f, int64_t capacity, double seconds)
{
    Buffers b;
    Placed placed;

    if (!buffer_list_read(f->name, &b)) {
        printf("%-42s is not there: set TIDE_TEST_DATA\n", f->name);
        return;
    }
    double began = processor_seconds();
    if (place_buffers(b, capacity, seconds, &placed) == TIDE_OK) {
        double took = processor_seconds() - began;
        printf("%-42s %8d %14lld %14lld %14lld %9.5f %8.3f%s\n", f->name, b.n, (long long)capacity,
               (long long)placed.bound, (long long)placed.height,
               (double)placed.height / (double)placed.bound, took,
               buffer_list_conflict(&b, placed.height) < 0 ? "" : "  OVERLAP");
    }
    buffer_list_free(&b);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0;

    printf("%-42s %8s %14s %14s %14s %9s %8s\n", "file", "buffers", "capacity", "bound", "height", "ratio",
           "seconds");
    for (const BufferListFile *f = buffer_list_files; f->name; f++)
        if (f->capacity) place(f, f->capacity, seconds);
    printf("\nas low as it goes\n");
    for (const BufferListFile *f = buffer_list_files; f->name; f++) place(f, 0, seconds);
    return 0;
}
