/* cpu_memory.c - arenas that end at a guard page. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "kernels/cpu/cpu_memory.h"
#include "runtime/base.h"
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Bytes of the pages of a block, the guard not counted. */
static size_t body_bytes(size_t bytes)
{
    return align_up(align_up(bytes, CPU_ALIGNMENT), page_bytes());
}

void *memory_map(size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    size_t body = body_bytes(bytes), page = page_bytes();
    char *base = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED) return NULL;
    if (mprotect(base + body, page, PROT_NONE)) {
        munmap(base, body + page);
        return NULL;
    }
    if (body) madvise(base, body, MADV_HUGEPAGE); /* a wish: fewer page faults and TLB misses */
    return base + (body - align_up(bytes, CPU_ALIGNMENT));
}

void memory_unmap(void *p, size_t bytes)
{
    if (!p) return;
    size_t body = body_bytes(bytes);
    munmap((char *)p - (body - align_up(bytes, CPU_ALIGNMENT)), body + page_bytes());
}
