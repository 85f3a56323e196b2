/* cost.c - a device that plans and runs nothing. */
#include "runtime/cost.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"

/* Each has a backend of its own, since alignment is a fact of the backend. */
struct Device {
    Backend backend;
};

enum { COST_ROW = 0 }; /* of the kernel table; all ops of costs share it */

static const OpDesc ops[2][2] = {
    { { .name = "cost", .id = COST_ROW, .n_out = OP_MAX_OUT },
      { .name = "cost_in_place", .id = COST_ROW, .n_out = OP_MAX_OUT, .in_place = 1 } },
    { { .name = "cost_once", .id = COST_ROW, .n_out = OP_MAX_OUT, .facts = OP_ONCE },
      { .name = "cost_once_in_place",
        .id = COST_ROW,
        .n_out = OP_MAX_OUT,
        .facts = OP_ONCE,
        .in_place = 1 } },
};

const OpDesc *cost_op(bool once, bool in_place)
{
    return &ops[once][in_place];
}

static size_t scratch(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    CostAttr attr;

    (void)in;
    (void)out;
    memcpy(&attr, n->attr.bytes, sizeof attr);
    return attr.scratch_bytes;
}

static TideStatus run(const KernelCall *c)
{
    (void)c;
    return TIDE_DEVICE;
}

static const Kernel kernel = { .run = run, .scratch = scratch };
static const Kernel *const kernels[] = { [COST_ROW] = &kernel };

static void close_device(Device *d)
{
    free(d);
}

static const char *message(const Device *d)
{
    (void)d;
    return "a graph file says what things cost, not what they compute: it can be planned, not run";
}

static const char *versions(const Device *d)
{
    (void)d;
    return "costs";
}

static TideStatus memory(Device *d, MemoryInfo *out)
{
    (void)d;
    *out = (MemoryInfo){ 0 };
    return TIDE_OK;
}

/* A run begins with its two allocations, so it ends there. */
static TideStatus allocate(Device *d, size_t bytes, void **out)
{
    (void)d;
    (void)bytes;
    *out = NULL;
    return TIDE_DEVICE;
}

static void release(Device *d, void *p, size_t bytes)
{
    (void)d;
    (void)p;
    (void)bytes;
}

static TideStatus stream_new(Device *d, int priority, Stream **out)
{
    (void)d;
    (void)priority;
    *out = NULL;
    return TIDE_DEVICE;
}

static TideStatus event_new(Device *d, Event **out)
{
    (void)d;
    *out = NULL;
    return TIDE_DEVICE;
}

TideStatus cost_open(const char *name, size_t alignment, Tide **out)
{
    Tide *t = calloc(1, sizeof *t);
    Device *d = calloc(1, sizeof *d);

    *out = NULL;
    if (!t || !d) {
        free(t);
        free(d);
        return TIDE_NO_MEMORY;
    }
    d->backend = (Backend){ .name = "costs",
                            .alignment = alignment,
                            .kernels = kernels,
                            .types = 1u << TIDE_F32,
                            .close = close_device,
                            .message = message,
                            .versions = versions,
                            .memory = memory,
                            .device_alloc = allocate,
                            .device_free = release,
                            .host_alloc = allocate,
                            .host_free = release,
                            .stream_new = stream_new,
                            .event_new = event_new };
    snprintf(t->name, sizeof t->name, "%s", name);
    t->backend = &d->backend;
    t->device = d;
    *out = t;
    return TIDE_OK;
}
