/* cuda_kernels.h - the CUDA column of the op table.
 *
 * run() enqueues on c->stream and returns: it allocates nothing, waits for nothing and reads no
 * device memory. Bits depend on shapes and inputs alone: no float atomics, sums over fixed parts
 * of the data in a fixed order. Storage is f32, bf16 or f16, arithmetic is f32. */
#ifndef TIDE_CUDA_KERNELS_H
#define TIDE_CUDA_KERNELS_H
#include "kernels/cuda/cuda_device.h"
#include "kernels/ops.h"
#include "runtime/base.h"
#ifdef __cplusplus
extern "C" {
#endif

#define TIDE_OP(name, ...) extern const Kernel cuda_##name;
#include "kernels/ops.def"
#undef TIDE_OP

extern const Kernel *const cuda_kernels[OP_COUNT];

/* cuda_delay.cu: keep a stream busy for a while; the error, if this build holds no code for the
 * current device. */
void cuda_spin(cudaStream_t s, double seconds);
cudaError_t cuda_has_code(void);

#ifdef __cplusplus
}
#endif
#endif
