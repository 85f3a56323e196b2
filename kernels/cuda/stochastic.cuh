/* stochastic.cuh - rounding up or down by chance, so that the mean of what is stored is the number.
 *
 * An update much smaller than a bf16 parameter's last bit is lost by rounding to nearest, step after
 * step. The words are Philox's, keyed by seed, step and element: the same step rounds alike again. */
#ifndef TIDE_CUDA_STOCHASTIC_CUH
#define TIDE_CUDA_STOCHASTIC_CUH
#include "kernels/cuda/cuda_common.cuh"
#include "kernels/cuda/philox.cuh"

static __device__ __forceinline__ bf16 toward_zero(float x, bf16)
{
    return __float2bfloat16_rz(x);
}
static __device__ __forceinline__ f16 toward_zero(float x, f16)
{
    return __float2half_rz(x);
}
static __device__ __forceinline__ bf16 next_from_zero(bf16 x)
{
    return __ushort_as_bfloat16((unsigned short)(__bfloat16_as_ushort(x) + 1));
}
static __device__ __forceinline__ f16 next_from_zero(f16 x)
{
    return __ushort_as_half((unsigned short)(__half_as_ushort(x) + 1));
}

/* x between two neighbours becomes the outer one with the probability of its distance from the
 * inner one. What is not finite, or has an infinite neighbour, is rounded to nearest. */
template <typename T> __device__ __forceinline__ T by_chance(float x, uint32_t word)
{
    T inner = toward_zero(x, T()), outer = next_from_zero(inner);
    float from = to_float(inner), step = to_float(outer) - from; /* a power of two */

    if (!isfinite(x) || !isfinite(step)) return from_float<T>(x);
    return (float)(word >> 8) * 0x1p-24f < (x - from) / step ? outer : inner;
}
template <> __device__ __forceinline__ float by_chance<float>(float x, uint32_t)
{
    return x;
}

/* What is stored for one step, in several streams of random words. */
enum ChanceStream { CHANCE_PARAMETER, CHANCE_M, CHANCE_V };

/* Store N floats, 4 or 1, as elements i and following. */
template <int N, typename T>
__device__ __forceinline__ void store_by_chance(T *to, int64_t i, const float (&from)[N], Philox p,
                                                ChanceStream stream)
{
    Pack<T, N> pack;

    p.micro = stream;
    uint4 word = philox_block(p, (uint64_t)i / 4);
    if constexpr (N == 4) {
        pack.v[0] = by_chance<T>(from[0], word.x);
        pack.v[1] = by_chance<T>(from[1], word.y);
        pack.v[2] = by_chance<T>(from[2], word.z);
        pack.v[3] = by_chance<T>(from[3], word.w);
    } else {
        pack.v[0] = by_chance<T>(from[0], i % 4 == 0   ? word.x
                                          : i % 4 == 1 ? word.y
                                          : i % 4 == 2 ? word.z
                                                       : word.w);
    }
    store(to + i, pack);
}

/* Sites of updates have their highest bit set, those of dropout have not. */
static __device__ __forceinline__ Philox chance_of(const TideStepInfo *info, int node)
{
    return philox_of(info, (int)(0x80000000u | (unsigned)node));
}

#endif
