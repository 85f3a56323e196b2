/* cuda_common.cuh - what the kernels of this folder share: storage types, packs of 16 bytes,
 * sums over a warp and a block. */
#ifndef TIDE_CUDA_COMMON_CUH
#define TIDE_CUDA_COMMON_CUH
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/ops/shape.h"

using bf16 = __nv_bfloat16;
using f16 = __half;

constexpr int WARP = 32, BLOCK = 256;

/* ---- Storage types ------------------------------------------------------- */

static __device__ __forceinline__ float to_float(float x)
{
    return x;
}
static __device__ __forceinline__ float to_float(bf16 x)
{
    return __bfloat162float(x);
}
static __device__ __forceinline__ float to_float(f16 x)
{
    return __half2float(x);
}

/* Rounds to nearest, ties to even. */
template <typename T> __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x)
{
    return x;
}
template <> __device__ __forceinline__ bf16 from_float<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ __forceinline__ f16 from_float<f16>(float x)
{
    return __float2half_rn(x);
}

/* What a float becomes when it is stored as T and read back. */
template <typename T> __device__ __forceinline__ float rounded(float x)
{
    return to_float(from_float<T>(x));
}

/* Elements of a 16-byte access. */
template <typename T> constexpr int PACK = 16 / (int)sizeof(T);

/* N neighbours that one instruction loads or stores. N = PACK<T> where rows start at multiples of
 * 16 bytes, N = 1 where they do not. */
template <typename T, int N = PACK<T>> struct alignas(N * sizeof(T)) Pack {
    T v[N];
};

template <int N, typename T> __device__ __forceinline__ Pack<T, N> load(const T *p)
{
    return *reinterpret_cast<const Pack<T, N> *>(p);
}

template <int N, typename T> __device__ __forceinline__ void store(T *p, Pack<T, N> x)
{
    *reinterpret_cast<Pack<T, N> *>(p) = x;
}

template <typename T, int N> __device__ __forceinline__ void unpack(float (&to)[N], const Pack<T, N> &from)
{
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = to_float(from.v[i]);
}

template <typename T, int N> __device__ __forceinline__ Pack<T, N> packed(const float (&from)[N])
{
    Pack<T, N> p;

#pragma unroll
    for (int i = 0; i < N; i++) p.v[i] = from_float<T>(from[i]);
    return p;
}

/* N neighbours of one type into floats and back. */
template <int N, typename T> __device__ __forceinline__ void load_floats(float (&to)[N], const T *p)
{
    constexpr int M = N < PACK<T> ? N : PACK<T>;

#pragma unroll
    for (int i = 0; i < N; i += M) {
        Pack<T, M> part = load<M>(p + i);
#pragma unroll
        for (int j = 0; j < M; j++) to[i + j] = to_float(part.v[j]);
    }
}

template <int N, typename T> __device__ __forceinline__ void store_floats(T *p, const float (&from)[N])
{
    constexpr int M = N < PACK<T> ? N : PACK<T>;

#pragma unroll
    for (int i = 0; i < N; i += M) {
        Pack<T, M> part;
#pragma unroll
        for (int j = 0; j < M; j++) part.v[j] = from_float<T>(from[i + j]);
        store<M>(p + i, part);
    }
}

/* ---- Copies into shared memory that the thread does not wait for (sm_80) ----- */

__device__ __forceinline__ void async_copy16(void *shared, const void *global)
{
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
        "l"(global)
        : "memory");
}

/* Close a group of copies. */
__device__ __forceinline__ void async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Wait until at most N of this thread's groups are under way. */
template <int N> __device__ __forceinline__ void async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* ---- Sums ------------------------------------------------------------------ */

/* Every lane gets the sum, with the same bits: the tree is fixed and addition commutes. */
template <typename F> __device__ __forceinline__ F warp_sum(F x)
{
#pragma unroll
    for (int m = WARP / 2; m > 0; m /= 2) x += __shfl_xor_sync(~0u, x, m);
    return x;
}

__device__ __forceinline__ float warp_max(float x)
{
#pragma unroll
    for (int m = WARP / 2; m > 0; m /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, m));
    return x;
}

/* Every thread gets the sum over the block; shared [33] may be used again after the return. The
 * number of threads is a multiple of 32. */
template <typename F> __device__ __forceinline__ F block_sum(F x, F *shared)
{
    int warps = blockDim.x / WARP, lane = threadIdx.x % WARP;

    x = warp_sum(x);
    if (lane == 0) shared[threadIdx.x / WARP] = x;
    __syncthreads();
    if (threadIdx.x < WARP) {
        F total = warp_sum(lane < warps ? shared[lane] : F(0));
        if (lane == 0) shared[WARP] = total;
    }
    __syncthreads();
    F total = shared[WARP];
    __syncthreads();
    return total;
}

/* ---- Launching -------------------------------------------------------------- */

/* Blocks for n threads of work. */
static inline unsigned blocks_for(int64_t n, int64_t per_block = BLOCK)
{
    return (unsigned)((n + per_block - 1) / per_block);
}

/* Blocks of the kernel that the device holds at once, with `bytes` of dynamic shared memory each; 0:
 * not even one. To be called before the kernel is launched with as many bytes. */
template <typename K>
static inline unsigned resident_blocks(const KernelCall *c, K kernel, int threads, size_t bytes)
{
    int each = 0;

    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes) ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, bytes)) {
        cudaGetLastError(); /* or the launch of another kernel would report it */
        return 0;
    }
    return (unsigned)(each * c->stream->device->sms);
}

/* May rows of this width and type be read in packs? Slots and views start at multiples of 256
 * bytes, so only the width matters. */
template <typename T> static inline bool in_packs(int64_t width)
{
    return width % PACK<T> == 0;
}

#endif
