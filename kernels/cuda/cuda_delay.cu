/* cuda_delay.cu - a kernel that only waits, for tests of races and profiles. */
#include "kernels/cuda/cuda_kernels.h"

static __global__ void spin(unsigned long long nanoseconds)
{
    unsigned long long start, now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        __nanosleep(200);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
}

void cuda_spin(cudaStream_t s, double seconds)
{
    spin<<<1, 1, 0, s>>>((unsigned long long)(seconds * 1e9));
}

cudaError_t cuda_has_code(void)
{
    cudaFuncAttributes facts;

    return cudaFuncGetAttributes(&facts, spin);
}
