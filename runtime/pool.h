/* pool.h - memory of one purpose, freed at once.
 *
 * Objects of the planner own dozens of small arrays that live and die together. */
#ifndef TIDE_POOL_H
#define TIDE_POOL_H
#include <stdbool.h>
#include <stddef.h>

typedef struct PoolBlock PoolBlock;
typedef struct Pool {
    PoolBlock *blocks;
    bool       failed; /* an allocation was refused since the pool was empty */
} Pool;

/* n items of zeroed memory, owned by the pool. NULL without memory; then pool->failed stays set, so
 * that a group of allocations needs one check, before their first use. n may be 0. */
void *pool_new(Pool *p, size_t n, size_t item);
void  pool_free(Pool *p);

#endif
