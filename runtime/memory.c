/* memory.c - how much memory the device and the machine still have.
 *
 * In a container the machine's MemAvailable says nothing about the container's limit, so
 * both are asked and the smaller one counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/graph.h"

/* The number behind `key` in a file of "key: number kB" lines, in bytes; 0 if there is none. */
static size_t meminfo_bytes(const char *key)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[256];
    size_t n = strlen(key), kib = 0;

    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, n) && line[n] == ':') kib = strtoull(line + n + 1, NULL, 10);
    if (f) fclose(f);
    return kib * 1024;
}

/* The single number in a file; false where there is none ("max": no limit). */
static bool file_number(const char *path, size_t *out)
{
    FILE *f = fopen(path, "r");
    unsigned long long n = 0;
    bool ok = f && fscanf(f, "%llu", &n) == 1;

    if (f) fclose(f);
    *out = (size_t)n;
    return ok;
}

/* Bytes that the cgroup still allows, by version 2, then version 1; SIZE_MAX: no limit. */
static size_t cgroup_free(void)
{
    static const char *const files[][2] = {
        { "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current" },
        { "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes" },
    };
    size_t limit, used;

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (file_number(files[i][0], &limit) && file_number(files[i][1], &used))
            return limit > used ? limit - used : 0;
    return SIZE_MAX;
}

TideStatus tide_memory(Tide *t, TideMemory *out)
{
    MemoryInfo info = { 0 };
    size_t available = meminfo_bytes("MemAvailable"), allowed = cgroup_free();

    if (t->backend->memory(t->device, &info))
        return tide_fail(t, TIDE_DEVICE, "device %s: %s", t->name, t->backend->message(t->device));
    *out = (TideMemory){ .total = info.total,
                         .free = info.free,
                         .process = info.process,
                         .host_free = available < allowed ? available : allowed };
    if (t->described) out->host_free = 0; /* this machine's memory is not that one's */
    return TIDE_OK;
}

const char *tide_versions(const Tide *t)
{
    return t->backend->versions(t->device);
}
