/* cuda_device.h - what the files of this folder know about an open device.
 *
 * Plain C, read by gcc and by nvcc. Streams and events know their device, because a failed
 * call leaves its text there. */
#ifndef TIDE_CUDA_DEVICE_H
#define TIDE_CUDA_DEVICE_H
#include <cuda_runtime_api.h>
#include "runtime/backend.h"
#ifdef __cplusplus
extern "C" {
#endif

struct Device {
    TideDeviceOptions options;
    int ordinal;
    int major, minor; /* compute capability                                          */
    int sms;          /* multiprocessors                                             */
    size_t l2;        /* bytes of the second-level cache                             */
    void *libs;       /* of cuda_libs.c: library handles and what was built with them */
    void *nvml;       /* of cuda_nvml.c, NULL: not there                             */
    char name[128];
    char versions[256];
    char message[512]; /* text of the last failure                                    */
};

struct Stream {
    Device *device;
    cudaStream_t stream;
};
struct Event {
    Device *device;
    cudaEvent_t event;
};
struct Capture {
    Device *device;
    cudaGraphExec_t exec;
};

/* Leave a message with the device and return status. */
TideStatus cuda_fail(Device *d, TideStatus status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* TIDE_OK, or the message "<what>: <CUDA's text>" and TIDE_NO_MEMORY or TIDE_DEVICE. */
TideStatus cuda_check(Device *d, cudaError_t error, const char *what);

/* The end of a kernel's run(): did its launches reach the stream? The message names the node. */
TideStatus cuda_launched(const KernelCall *c);

static inline cudaStream_t cuda_stream(const KernelCall *c)
{
    return c->stream->stream;
}

/* cuda_libs.c: libraries that are opened and closed with the device. open appends what it found to
 * d->versions; a failure leaves its text in d->message, and close tidies up after it. */
TideStatus cuda_libs_open(Device *d);
void cuda_libs_close(Device *d);

/* cuda_nvml.c: device memory by process, as the driver counts it. nvml_open() leaves d->nvml NULL
 * where the library is missing; nvml_process_bytes() is then 0. */
void nvml_open(Device *d, const char *bus_id);
void nvml_close(Device *d);
size_t nvml_process_bytes(const Device *d);
/* "580.95.05", or "" where it is not known. */
void nvml_driver_version(const Device *d, char *to, size_t size);

#ifdef __cplusplus
}
#endif
#endif
