/* device.c - finds a backend by name and keeps the last message. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/graph.h"

static const Backend *const backends[] = {
    &cpu_backend,
#ifdef TIDE_CUDA
    &cuda_backend,
#endif
};
enum { N_BACKENDS = sizeof backends / sizeof *backends };

TideStatus tide_fail(Tide *t, TideStatus status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(t->message, sizeof t->message, format, args);
    va_end(args);
    return status;
}

const char *tide_message(const Tide *t)
{
    return t ? t->message : "no memory to open a device";
}

/* Split "cuda:1" into a backend and an ordinal; false if the name is malformed. */
static bool parse_name(const char *device, char *kind, size_t size, int *ordinal)
{
    const char *colon = strchr(device, ':');
    size_t length = colon ? (size_t)(colon - device) : strlen(device);
    char *end = NULL;
    long number = colon ? strtol(colon + 1, &end, 10) : 0;

    if (length == 0 || length >= size) return false;
    if (colon && (end == colon + 1 || *end || number < 0 || number > 1023)) return false;
    memcpy(kind, device, length);
    kind[length] = 0;
    *ordinal = (int)number;
    return true;
}

static TideStatus open_backend(Tide *t, const char *device, TideDeviceOptions options)
{
    char kind[16];
    int ordinal = 0;

    if (!parse_name(device, kind, sizeof kind, &ordinal))
        return tide_fail(t, TIDE_DEVICE, "unknown device '%s': give cpu, cuda or cuda:N", device);
    for (int i = 0; i < N_BACKENDS; i++) {
        if (strcmp(backends[i]->name, kind) != 0) continue;
        TideStatus status = backends[i]->open(ordinal, options, &t->device);
        if (status) return tide_fail(t, status, "device %s: %s", device, backends[i]->message(NULL));
        t->backend = backends[i];
        return TIDE_OK;
    }
    if (strcmp(kind, "cuda") == 0)
        return tide_fail(
            t, TIDE_DEVICE,
            "device %s: this build has no CUDA; configure where nvcc is found, or use --device cpu", device);
    return tide_fail(t, TIDE_DEVICE, "unknown device '%s': give cpu, cuda or cuda:N", device);
}

TideStatus tide_open(const char *device, TideDeviceOptions options, Tide **out)
{
    Tide *t = calloc(1, sizeof *t);

    *out = t;
    if (!t) return TIDE_NO_MEMORY;
    snprintf(t->name, sizeof t->name, "%s", device);
    t->options = options;
    return open_backend(t, device, options);
}

const char *tide_name_of(const Tide *t)
{
    return t->name;
}

bool tide_has_type(const Tide *t, TideType type)
{
    return t->backend->types & 1u << type;
}

void tide_close(Tide *t)
{
    if (t && t->backend) t->backend->close(t->device);
    free(t);
}
