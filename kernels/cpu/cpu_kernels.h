/* cpu_kernels.h - the CPU column of the op table.
 *
 * A CPU kernel computes when its lane's worker gets to it: run() is called by the
 * worker thread itself, so it may simply loop. Bits never depend on the number of
 * threads: partial sums run over fixed blocks of the data and are added in block order. */
#ifndef TIDE_CPU_KERNELS_H
#define TIDE_CPU_KERNELS_H
#include "kernels/ops.h"
#include "runtime/backend.h"
#include "runtime/base.h"

#define TIDE_OP(name, ...) extern const Kernel cpu_##name;
#include "kernels/ops.def"
#undef TIDE_OP

extern const Kernel *const cpu_kernels[OP_COUNT];

/* For kernels: leave a message with the device and return TIDE_DEVICE. The lane then does no
 * more work, and the next wait for it reports the failure. */
TideStatus cpu_fail(Device *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
