/* cuda_kernels.c - the kernel table, expanded from ops.def. */
#include "kernels/cuda/cuda_kernels.h"

#define TIDE_OP(name, ...) [OP_##name] = &cuda_##name,
const Kernel *const cuda_kernels[OP_COUNT] = {
#include "kernels/ops.def"
};
