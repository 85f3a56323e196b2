/* cpu_backend.c - the CPU as a device: two separate kinds of memory, lanes that are threads, and
 * kernels that loop. Nothing here is a shortcut that a GPU would not have. */
#include "kernels/cpu/cpu_gemm.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/cpu_memory.h"
#include "kernels/cpu/cpu_stream.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct Device {
    TideDeviceOptions options;
    pthread_mutex_t lock; /* of what follows; kernels fail on their lane's thread */
    char message[512];
    size_t taken; /* bytes of device_alloc() not yet freed                */
    char versions[256];
};

TideStatus cpu_fail(Device *d, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    pthread_mutex_lock(&d->lock);
    vsnprintf(d->message, sizeof d->message, format, args);
    pthread_mutex_unlock(&d->lock);
    va_end(args);
    return TIDE_DEVICE;
}

static TideStatus open_device(int ordinal, TideDeviceOptions options, Device **out)
{
    Device *d = ordinal == 0 ? calloc(1, sizeof *d) : NULL;

    *out = NULL;
    if (ordinal != 0) return TIDE_DEVICE;
    if (!d) return TIDE_NO_MEMORY;
    if (pthread_mutex_init(&d->lock, NULL)) {
        free(d);
        return TIDE_NO_MEMORY;
    }
    d->options = options;
    gemm_setup();
    snprintf(d->versions, sizeof d->versions, "cpu, %s", gemm_versions());
    *out = d;
    return TIDE_OK;
}

static void close_device(Device *d)
{
    if (!d) return;
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static const char *message(const Device *d)
{
    return d ? d->message : "the CPU device is \"cpu\" or \"cpu:0\", and opening it takes some memory";
}

static const char *versions(const Device *d)
{
    return d->versions;
}

static TideStatus memory(Device *d, MemoryInfo *out)
{
    machine_memory(&out->total, &out->free);
    pthread_mutex_lock(&d->lock);
    out->process = d->taken;
    pthread_mutex_unlock(&d->lock);
    return TIDE_OK;
}

static void count(Device *d, size_t more, size_t less)
{
    pthread_mutex_lock(&d->lock);
    d->taken += more;
    d->taken -= less;
    pthread_mutex_unlock(&d->lock);
}

static TideStatus host_alloc(Device *d, size_t bytes, void **out)
{
    *out = memory_map(bytes);
    if (*out) return TIDE_OK;
    cpu_fail(d, "the system refused %zu bytes of memory", bytes);
    return TIDE_NO_MEMORY;
}

static void host_free(Device *d, void *p, size_t bytes)
{
    (void)d;
    memory_unmap(p, bytes);
}

static TideStatus device_alloc(Device *d, size_t bytes, void **out)
{
    TRY(host_alloc(d, bytes, out));
    count(d, bytes, 0);
    return TIDE_OK;
}

static void device_free(Device *d, void *p, size_t bytes)
{
    if (!p) return;
    memory_unmap(p, bytes);
    count(d, 0, bytes);
}

/* The system's scheduler knows no priorities between threads of one program without privileges. */
static TideStatus new_stream(Device *d, int priority, Stream **out)
{
    (void)priority;
    TideStatus status = stream_new(d, &d->options, out);
    if (status) cpu_fail(d, "no memory or no thread for another stream");
    return status;
}

static TideStatus new_event(Device *d, Event **out)
{
    TideStatus status = event_new(d, out);
    if (status) cpu_fail(d, "no memory for another event");
    return status;
}

const Backend cpu_backend = {
    .name = "cpu",
    /* Two cores of a server. Without it every guess is infinite, and nothing is measured. */
    .rough = { .flops_per_second = 1e11,
               .bytes_per_second = 1e10,
               .link_bytes_per_second = 5e9,
               .launch_seconds = 5e-6 },
    .alignment = CPU_ALIGNMENT,
    .kernels = cpu_kernels,
    .types = 1u << TIDE_F32 | 1u << TIDE_I32,
    .block_elements = 8 << 20,
    .open = open_device,
    .close = close_device,
    .message = message,
    .versions = versions,
    .memory = memory,
    .device_alloc = device_alloc,
    .device_free = device_free,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .stream_new = new_stream,
    .stream_free = stream_free,
    .stream_sync = stream_sync,
    .copy = stream_copy,
    .fill = stream_fill,
    .delay = stream_delay,
    .launch = stream_launch,
    .event_new = new_event,
    .event_free = event_free,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_sync = event_sync,
    .event_seconds = event_seconds,
};
