/* cuda_backend.c - NVIDIA GPUs as a device: plain C over the CUDA runtime.
 *
 * Every call that can fail is checked, and its text names the call and the sizes. Needs CUDA 12.4
 * with a driver for it, compute capability 8.0, and cuDNN 9 where cuDNN is used. */
#include <nvtx3/nvToolsExt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/cuda/cuda_host.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_libs.h"

enum { LEAST_CUDA = 12040, LEAST_MAJOR = 8, ALIGNMENT = 256 };

/* ---- Messages ----------------------------------------------------------------- */

/* Of a failed open(), which leaves no device to ask. */
static char open_message[512] = "no device was opened";

TideStatus cuda_fail(Device *d, TideStatus status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(d->message, sizeof d->message, format, args);
    va_end(args);
    return status;
}

TideStatus cuda_check(Device *d, cudaError_t error, const char *what)
{
    if (!error) return TIDE_OK;
    cudaGetLastError(); /* or the next launch would report it once more */
    TideStatus status = error == cudaErrorMemoryAllocation ? TIDE_NO_MEMORY : TIDE_DEVICE;
    return cuda_fail(d, status, "%s: %s", what, cudaGetErrorString(error));
}

/* The same for a call whose message also tells how many bytes it was about. */
static TideStatus check_bytes(Device *d, cudaError_t error, const char *call, size_t bytes)
{
    char what[96];

    snprintf(what, sizeof what, "%s of %zu bytes", call, bytes);
    return cuda_check(d, error, what);
}

TideStatus cuda_launched(const KernelCall *c)
{
    cudaError_t error = cudaGetLastError();

    if (!error) return TIDE_OK;
    return cuda_fail(c->device, TIDE_DEVICE, "launch of %s (%s): %s", c->node->name, c->node->op->name,
                     cudaGetErrorString(error));
}

static const char *message(const Device *d)
{
    return d ? d->message : open_message;
}

/* ---- Opening ------------------------------------------------------------------- */

static TideStatus check_versions(Device *d)
{
    int driver = 0, runtime = 0;

    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver == 0)
        return cuda_fail(d, TIDE_DEVICE,
                         "there is no NVIDIA driver on this machine; install one, or use --device cpu");
    if (runtime < LEAST_CUDA)
        return cuda_fail(d, TIDE_DEVICE, "the CUDA runtime is %d.%d, the least is %d.%d", runtime / 1000,
                         runtime % 1000 / 10, LEAST_CUDA / 1000, LEAST_CUDA % 1000 / 10);
    if (driver / 1000 < runtime / 1000 || driver < LEAST_CUDA)
        return cuda_fail(
            d, TIDE_DEVICE,
            "the driver supports CUDA %d.%d, this program was built with %d.%d; install a newer driver",
            driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return TIDE_OK;
}

static TideStatus choose_device(Device *d, int ordinal)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);

    if (error == cudaErrorNoDevice || (!error && count == 0))
        return cuda_fail(d, TIDE_DEVICE, "there is no NVIDIA GPU here; use --device cpu");
    TRY(cuda_check(d, error, "cudaGetDeviceCount"));
    if (ordinal >= count)
        return cuda_fail(d, TIDE_DEVICE, "there is no GPU %d: this machine has %d, counted from 0", ordinal,
                         count);
    d->ordinal = ordinal;
    return cuda_check(d, cudaSetDevice(ordinal), "cudaSetDevice");
}

static TideStatus read_facts(Device *d)
{
    struct cudaDeviceProp facts;
    char bus_id[32];

    TRY(cuda_check(d, cudaGetDeviceProperties(&facts, d->ordinal), "cudaGetDeviceProperties"));
    TRY(cuda_check(d, cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, d->ordinal), "cudaDeviceGetPCIBusId"));
    snprintf(d->name, sizeof d->name, "%.127s", facts.name);
    d->major = facts.major;
    d->minor = facts.minor;
    d->sms = facts.multiProcessorCount;
    d->l2 = (size_t)facts.l2CacheSize;
    nvml_open(d, bus_id);
    if (d->major < LEAST_MAJOR)
        return cuda_fail(d, TIDE_DEVICE, "%s has compute capability %d.%d, the least is %d.0", d->name,
                         d->major, d->minor, LEAST_MAJOR);
    if (cuda_has_code()) {
        cudaGetLastError();
        return cuda_fail(d, TIDE_DEVICE,
                         "this program has no code for %s; configure with -DCMAKE_CUDA_ARCHITECTURES=%d%d",
                         d->name, d->major, d->minor);
    }
    return TIDE_OK;
}

static void write_versions(Device *d)
{
    int runtime = 0;
    char driver[80];

    cudaRuntimeGetVersion(&runtime);
    nvml_driver_version(d, driver, sizeof driver);
    snprintf(d->versions, sizeof d->versions, "%.100s, compute %d.%d, driver %.40s, CUDA %d.%d", d->name,
             d->major, d->minor, driver[0] ? driver : "unknown", runtime / 1000, runtime % 1000 / 10);
}

static TideStatus open_all(Device *d, int ordinal)
{
    TRY(check_versions(d));
    TRY(choose_device(d, ordinal));
    TRY(read_facts(d));
    write_versions(d);
    return cuda_libs_open(d);
}

static void close_device(Device *d)
{
    if (!d) return;
    cuda_libs_close(d);
    nvml_close(d);
    free(d);
}

static TideStatus open_device(int ordinal, TideDeviceOptions options, Device **out)
{
    Device *d = calloc(1, sizeof *d);

    *out = NULL;
    if (!d) return TIDE_NO_MEMORY;
    d->options = options;
    TideStatus status = open_all(d, ordinal);
    if (status) {
        snprintf(open_message, sizeof open_message, "%s", d->message);
        close_device(d);
        return status;
    }
    *out = d;
    return TIDE_OK;
}

static const char *versions(const Device *d)
{
    return d->versions;
}

/* ---- Memory ---------------------------------------------------------------------- */

static TideStatus memory(Device *d, MemoryInfo *out)
{
    TRY(cuda_check(d, cudaMemGetInfo(&out->free, &out->total), "cudaMemGetInfo"));
    out->process = nvml_process_bytes(d);
    return TIDE_OK;
}

static TideStatus device_alloc(Device *d, size_t bytes, void **out)
{
    TideStatus status = check_bytes(d, cudaMalloc(out, bytes ? bytes : 1), "cudaMalloc", bytes);

    if (status) *out = NULL;
    return status;
}

static void device_free(Device *d, void *p, size_t bytes)
{
    (void)d;
    (void)bytes;
    if (p) cudaFree(p);
}

/* ---- Streams ---------------------------------------------------------------------- */

/* CUDA's numbers run the other way: the least number runs first. */
static TideStatus stream_new(Device *d, int priority, Stream **out)
{
    int lowest = 0, highest = 0;
    Stream *s = calloc(1, sizeof *s);

    *out = NULL;
    if (!s) return cuda_fail(d, TIDE_NO_MEMORY, "no memory for a stream");
    s->device = d;
    cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    int number = -priority < highest ? highest : -priority > lowest ? lowest : -priority;
    TideStatus status = cuda_check(d, cudaStreamCreateWithPriority(&s->stream, cudaStreamNonBlocking, number),
                                   "cudaStreamCreateWithPriority");
    if (status)
        free(s);
    else
        *out = s;
    return status;
}

static void stream_free(Stream *s)
{
    if (!s) return;
    cudaStreamDestroy(s->stream);
    free(s);
}

static TideStatus stream_sync(Stream *s)
{
    return cuda_check(s->device, cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");
}

static TideStatus copy(Stream *s, void *to, const void *from, size_t bytes)
{
    return check_bytes(s->device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s->stream),
                       "cudaMemcpyAsync", bytes);
}

/* Host memory, pageable or not, is filled here: no step does that, only the start of a run. */
static TideStatus fill(Stream *s, void *to, int byte, size_t bytes)
{
    struct cudaPointerAttributes facts;

    TRY(cuda_check(s->device, cudaPointerGetAttributes(&facts, to), "cudaPointerGetAttributes"));
    if (facts.type == cudaMemoryTypeDevice)
        return check_bytes(s->device, cudaMemsetAsync(to, byte, bytes, s->stream), "cudaMemsetAsync", bytes);
    TRY(cuda_check(s->device, cudaStreamSynchronize(s->stream), "cudaStreamSynchronize"));
    memset(to, byte, bytes);
    return TIDE_OK;
}

static TideStatus delay(Stream *s, double seconds)
{
    if (seconds > 0) cuda_spin(s->stream, seconds);
    return cuda_check(s->device, cudaGetLastError(), "launch of a delay");
}

static TideStatus launch(const Kernel *k, const KernelCall *c)
{
    nvtxRangePushA(c->node->name);
    TideStatus status = k->run(c);
    nvtxRangePop();
    return status;
}

/* ---- Events ----------------------------------------------------------------------- */

static TideStatus event_new(Device *d, Event **out)
{
    Event *e = calloc(1, sizeof *e);

    *out = NULL;
    if (!e) return cuda_fail(d, TIDE_NO_MEMORY, "no memory for an event");
    e->device = d;
    TideStatus status = cuda_check(d, cudaEventCreate(&e->event), "cudaEventCreate");
    if (status)
        free(e);
    else
        *out = e;
    return status;
}

static void event_free(Event *e)
{
    if (!e) return;
    cudaEventDestroy(e->event);
    free(e);
}

static TideStatus event_record(Stream *s, Event *e)
{
    return cuda_check(s->device, cudaEventRecord(e->event, s->stream), "cudaEventRecord");
}

static TideStatus event_wait(Stream *s, Event *e)
{
    return cuda_check(s->device, cudaStreamWaitEvent(s->stream, e->event, 0), "cudaStreamWaitEvent");
}

static TideStatus event_sync(Event *e)
{
    return cuda_check(e->device, cudaEventSynchronize(e->event), "cudaEventSynchronize");
}

static TideStatus event_seconds(Event *from, Event *to, double *out)
{
    float milliseconds = 0;

    TRY(cuda_check(from->device, cudaEventElapsedTime(&milliseconds, from->event, to->event),
                   "cudaEventElapsedTime"));
    *out = (double)milliseconds * 1e-3;
    return TIDE_OK;
}

/* ---- Captures ---------------------------------------------------------------------- */

/* Relaxed: libraries may ask the driver for things that a stricter mode forbids to everyone. */
static TideStatus capture_begin(Stream *s)
{
    return cuda_check(s->device, cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeRelaxed),
                      "cudaStreamBeginCapture");
}

static TideStatus capture_end(Stream *s, Capture **out)
{
    cudaGraph_t graph = NULL;
    Capture *c = calloc(1, sizeof *c);

    *out = NULL;
    TideStatus status =
        cuda_check(s->device, cudaStreamEndCapture(s->stream, &graph), "cudaStreamEndCapture");
    if (!status && !c) status = cuda_fail(s->device, TIDE_NO_MEMORY, "no memory for a captured graph");
    if (!status) {
        c->device = s->device;
        status = cuda_check(s->device, cudaGraphInstantiate(&c->exec, graph, 0), "cudaGraphInstantiate");
    }
    if (!status) status = cuda_check(s->device, cudaGraphUpload(c->exec, s->stream), "cudaGraphUpload");
    if (graph) cudaGraphDestroy(graph);
    if (status) {
        if (c && c->exec) cudaGraphExecDestroy(c->exec);
        free(c);
        return status;
    }
    *out = c;
    return TIDE_OK;
}

static TideStatus capture_replay(Capture *c, Stream *s)
{
    return cuda_check(c->device, cudaGraphLaunch(c->exec, s->stream), "cudaGraphLaunch");
}

static void capture_free(Capture *c)
{
    if (!c) return;
    cudaGraphExecDestroy(c->exec);
    free(c);
}

/* An H200's numbers; a profile replaces them. */
const Backend cuda_backend = {
    .name = "cuda",
    .rough = { .flops_per_second = 4e14,
               .bytes_per_second = 3.5e12,
               .link_bytes_per_second = 5e10,
               .launch_seconds = 4e-6,
               .fixed_bytes = (size_t)700 << 20 },
    .alignment = ALIGNMENT,
    .kernels = cuda_kernels,
    .types = 1u << TIDE_F32 | 1u << TIDE_BF16 | 1u << TIDE_F16 | 1u << TIDE_I32,
    /* Of logits: once a block, the head's weight gradient is read and written. 5632 rows of GPT-2's
     * vocabulary: their products with 768 columns are one wave of tiles. */
    .block_elements = 272 << 20,
    .open = open_device,
    .close = close_device,
    .message = message,
    .versions = versions,
    .memory = memory,
    .device_alloc = device_alloc,
    .device_free = device_free,
    .host_alloc = host_arena_new,
    .host_free = host_arena_free,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .stream_sync = stream_sync,
    .copy = copy,
    .fill = fill,
    .delay = delay,
    .launch = launch,
    .event_new = event_new,
    .event_free = event_free,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_sync = event_sync,
    .event_seconds = event_seconds,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .capture_replay = capture_replay,
    .capture_free = capture_free,
    .numerics_save = cuda_numerics_save,
    .numerics_load = cuda_numerics_load,
};
