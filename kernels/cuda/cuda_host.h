/* cuda_host.h - host memory that the copy engines can reach. */
#ifndef TIDE_CUDA_HOST_H
#define TIDE_CUDA_HOST_H
#include "kernels/cuda/cuda_device.h"

/* Exactly bytes, rounded up to pages; page-locked unless the device was opened with no_pin. */
TideStatus host_arena_new(Device *d, size_t bytes, void **out);
void host_arena_free(Device *d, void *p, size_t bytes);

#endif
