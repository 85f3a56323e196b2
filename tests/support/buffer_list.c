/* buffer_list.c - lists of buffers for tests of placement. */
#include <stdio.h>
#include <stdlib.h>
#include "tests/support/buffer_list.h"

const BufferListFile buffer_list_files[] = {
    { "minimalloc/examples/input.12.csv", 5, 12 },
    { "minimalloc/challenging/A.1048576.csv", 154, 1048576 },
    { "minimalloc/challenging/B.1048576.csv", 170, 1048576 },
    { "minimalloc/challenging/C.1048576.csv", 203, 1048576 },
    { "minimalloc/challenging/D.1048576.csv", 213, 1048576 },
    { "minimalloc/challenging/E.1048576.csv", 215, 1048576 },
    { "minimalloc/challenging/F.1048576.csv", 296, 1048576 },
    { "minimalloc/challenging/G.1048576.csv", 308, 1048576 },
    { "minimalloc/challenging/H.1048576.csv", 316, 1048576 },
    { "alloc/resnet50.csv", 1042, 0 },
    { "alloc/G_1.csv", 816, 0 },
    { NULL, 0, 0 },
};

enum { MOST_BUFFERS = 100000 };

static FILE *open_file(const char *name)
{
    const char *folder = getenv("TIDE_TEST_DATA");
    char path[1024];

    if (!folder || snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return NULL;
    return fopen(path, "r");
}

bool buffer_list_read(const char *name, Buffers *out)
{
    FILE *f = open_file(name);
    int64_t *all = f ? calloc(4 * (size_t)MOST_BUFFERS, sizeof *all) : NULL;
    char line[256], id[64];
    long long lower, upper, size;

    *out = (Buffers){ 0 };
    bool ok = all && fgets(line, sizeof line, f); /* the header: id,lower,upper,size */
    while (ok && out->n < MOST_BUFFERS && fgets(line, sizeof line, f)) {
        ok = sscanf(line, "%63[^,],%lld,%lld,%lld", id, &lower, &upper, &size) == 4;
        if (!ok) break;
        all[out->n] = lower;
        all[out->n + MOST_BUFFERS] = upper;
        all[out->n + 2 * MOST_BUFFERS] = size;
        out->n++;
    }
    if (f) fclose(f);
    if (!ok) {
        free(all);
        return false;
    }
    out->lower = all;
    out->upper = all + MOST_BUFFERS;
    out->size = all + 2 * MOST_BUFFERS;
    out->offset = all + 3 * MOST_BUFFERS;
    return true;
}

void buffer_list_free(Buffers *b)
{
    free((int64_t *)b->lower);
}

int buffer_list_conflict(const Buffers *b, int64_t height)
{
    for (int i = 0; i < b->n; i++) {
        if (b->offset[i] < 0 || b->offset[i] + b->size[i] > height) return i;
        for (int j = 0; j < i; j++) {
            bool together = b->lower[i] < b->upper[j] && b->lower[j] < b->upper[i];
            bool overlap =
                b->offset[i] < b->offset[j] + b->size[j] && b->offset[j] < b->offset[i] + b->size[i];
            if (together && overlap) return i;
        }
    }
    return -1;
}
