/* memory.c - how much memory the device and the machine still have.
 *
 * In a container the machine's MemAvailable says nothing about the container's limit, so
 * both are asked and the smaller one counts. */
#include <stdio.h>
#include <string.h>
#include "runtime/graph.h"

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

void machine_memory(size_t *total, size_t *free)
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

TideStatus tide_memory(Tide *t, TideMemory *out)
{
    MemoryInfo info = { 0 };
    size_t total, free;

    if (t->backend->memory(t->device, &info))
        return tide_fail(t, TIDE_DEVICE, "device %s: %s", t->name, t->backend->message(t->device));
    machine_memory(&total, &free);
    *out = (TideMemory){ .total = info.total, .free = info.free, .process = info.process, .host_free = free };
    if (t->described) out->host_free = 0; /* this machine's memory is not that one's */
    return TIDE_OK;
}

const char *tide_versions(const Tide *t)
{
    return t->backend->versions(t->device);
}
