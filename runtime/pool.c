/* pool.c - memory of one purpose, freed at once. */
#include <stdint.h>
#include <stdlib.h>
#include "runtime/pool.h"

struct PoolBlock {
    PoolBlock *next;
    max_align_t bytes[]; /* the caller's */
};

void *pool_new(Pool *p, size_t n, size_t item)
{
    if (n < 1) n = 1;
    PoolBlock *b = n > (SIZE_MAX - sizeof *b) / item ? NULL : calloc(1, sizeof *b + n * item);

    if (!b) {
        p->failed = true;
        return NULL;
    }
    b->next = p->blocks;
    p->blocks = b;
    return b->bytes;
}

void pool_free(Pool *p)
{
    for (PoolBlock *b = p->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *p = (Pool){ 0 };
}
