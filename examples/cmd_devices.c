/* cmd_devices.c - `tide devices`: what this machine offers. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "examples/commands.h"
#include "examples/output.h"
#include "runtime/base.h"
#include "runtime/report/account.h"

static json_t *device_json(const char *name, const char *versions, const TideMemory *m)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:i}", "device", name, "versions", versions, "total_bytes",
                     (json_int_t)m->total, "free_bytes", (json_int_t)m->free, "host_free_bytes",
                     (json_int_t)m->host_free, "processors", (int)sysconf(_SC_NPROCESSORS_ONLN));
}

static void print_device(const char *name, const char *versions, const TideMemory *m)
{
    char total[BYTES_TEXT], available[BYTES_TEXT], host[BYTES_TEXT];

    printf("%-8s %s\n", name, versions);
    printf("         memory %s, free %s; host memory for pinning %s; %ld processors\n",
           bytes_text(m->total, total), bytes_text(m->free, available), bytes_text(m->host_free, host),
           sysconf(_SC_NPROCESSORS_ONLN));
}

/* True if there is a device of that name. One that is missing is worth a line, no failure. */
static bool show_device(const Options *o, const char *name, json_t *list)
{
    Tide *t = NULL;
    TideMemory m;
    bool found = tide_open(name, (TideDeviceOptions){ 0 }, &t) == TIDE_OK && tide_memory(t, &m) == TIDE_OK;

    if (found && list) json_array_append_new(list, device_json(name, tide_versions(t), &m));
    if (found && !list) print_device(name, tide_versions(t), &m);
    if (!found && !o->quiet)
        fprintf(o->json ? stderr : stdout, "%-8s not available: %s\n", name, tide_message(t));
    tide_close(t);
    return found;
}

int cmd_devices(const Options *o)
{
    json_t *list = o->json ? json_array() : NULL;
    char name[16] = "cuda:0";

    show_device(o, "cpu", list);
    for (int i = 1; show_device(i == 1 ? o : &(Options){ .quiet = true }, name, list); i++)
        snprintf(name, sizeof name, "cuda:%d", i);
    return o->json ? json_emit(o, json_pack("{s:o}", "devices", list)) : EXIT_DONE;
}
