/* cpu_memory.c - arenas that end at a guard page, and the limits of machine and cgroup. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "kernels/cpu/cpu_memory.h"
#include "runtime/base.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Arenas ---------------------------------------------------------------------------------- */

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

/* ---- Limits ---------------------------------------------------------------------------------- */

/* The number after `key` at the start of a line of a file; key "": the first word of the file.
 * False if there is none, also for the word "max". */
static bool read_number(const char *path, const char *key, unsigned long long *out)
{
    char line[256];
    bool found = false;
    FILE *f = fopen(path, "r");

    if (!f) return false;
    while (!found && fgets(line, sizeof line, f))
        found = !strncmp(line, key, strlen(key)) && sscanf(line + strlen(key), " %llu", out) == 1;
    fclose(f);
    return found;
}

/* Names of the files of one version of the cgroup interface. */
typedef struct Cgroup {
    const char *root, *limit, *used, *reclaimable; /* reclaimable: a key of memory.stat */
} Cgroup;

static const Cgroup cgroup_v1 = { "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file" };
static const Cgroup cgroup_v2 = { "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file" };

/* Tighten total and free by the limits of one group. */
static void apply_group(const Cgroup *v, const char *group, size_t *total, size_t *free)
{
    char path[768];
    unsigned long long limit, used = 0, cache = 0;

    snprintf(path, sizeof path, "%s%s/%s", v->root, group, v->limit);
    if (!read_number(path, "", &limit)) return;
    snprintf(path, sizeof path, "%s%s/%s", v->root, group, v->used);
    read_number(path, "", &used);
    snprintf(path, sizeof path, "%s%s/memory.stat", v->root, group);
    read_number(path, v->reclaimable, &cache);
    used = used > cache ? used - cache : 0;
    unsigned long long left = limit > used ? limit - used : 0;
    if (limit < *total) *total = (size_t)limit;
    if (left < *free) *free = (size_t)left;
}

/* A group is bound by all groups above it. Inside a container the name may be that of the host,
 * which does not exist here; then the root is the group itself. */
static void apply_groups(const Cgroup *v, char *group, size_t *total, size_t *free)
{
    for (;;) {
        apply_group(v, group, total, free);
        char *slash = strrchr(group, '/');
        if (!slash) return;
        *slash = '\0';
    }
}

void memory_limits(size_t *total, size_t *free)
{
    unsigned long long kib = 0;
    char line[512];

    *total = read_number("/proc/meminfo", "MemTotal:", &kib) ? (size_t)kib * 1024 : 0;
    *free = read_number("/proc/meminfo", "MemAvailable:", &kib) ? (size_t)kib * 1024 : 0;
    FILE *f = fopen("/proc/self/cgroup", "r"); /* lines "4:memory:/group" or "0::/group" */
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        if (!strcmp(names + 1, "memory")) apply_groups(&cgroup_v1, group, total, free);
        if (!names[1]) apply_groups(&cgroup_v2, group, total, free);
    }
    if (f) fclose(f);
}
