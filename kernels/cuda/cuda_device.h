/* cuda_device.h - what the files of this folder know about an open device.
 *
 * Plain C, read by gcc and by nvcc. A Stream and an Event of backend.h are CUDA's own
 * objects here, cast; a failed call leaves its text with the device. */
#ifndef TIDE_CUDA_DEVICE_H
#define TIDE_CUDA_DEVICE_H
#include <cuda_runtime_api.h>
#include "runtime/backend.h"
#ifdef __cplusplus
extern "C" {
#endif

struct Device {
    TideDeviceOptions options;
    int    ordinal;
    int    major, minor; /* compute capability                                   */
    int    sms;          /* multiprocessors                                      */
    size_t l2;           /* bytes of the second-level cache                      */
    void  *libs;         /* of cuda_libs.c: library handles, built engines       */
    char   name[128];
    char   bus_id[32];   /* PCI address, as NVML wants it                        */
    char   versions[256];
    char   message[512]; /* text of the last failure                             */
};

/* Leave a message with the device and return status. */
TideStatus cuda_fail(Device *d, TideStatus status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* TIDE_OK, or a message "<what>: <CUDA's text>" and TIDE_DEVICE. */
TideStatus cuda_check(Device *d, cudaError_t error, const char *what);

/* The same for a launch that a kernel's run() has just made: names the node. */
TideStatus cuda_launched(const KernelCall *c);

/* cuda_libs.c: library handles, opened with the device. versions is appended to. A failure leaves
 * its text in d->message. */
TideStatus cuda_libs_open(Device *d);
void       cuda_libs_close(Device *d);

static inline cudaStream_t cuda_stream(Stream *s) { return (cudaStream_t)s; }

#ifdef __cplusplus
}
#endif
#endif
