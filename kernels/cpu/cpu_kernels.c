/* cpu_kernels.c - the kernel table, expanded from ops.def. */
#include "kernels/cpu/cpu_kernels.h"

#define TIDE_OP(name, ...) [OP_##name] = &cpu_##name,
const Kernel *const cpu_kernels[OP_COUNT] = {
#include "kernels/ops.def"
};
