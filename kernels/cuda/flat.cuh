/* flat.cuh - ops that make element i of y from element i of one or two tensors of y's type.
 *
 * y may be a or b: a thread has read an element before it writes it. */
#ifndef TIDE_CUDA_FLAT_CUH
#define TIDE_CUDA_FLAT_CUH
#include "kernels/cuda/cuda_common.cuh"

constexpr int FLAT_UNROLL = 2; /* packs of a thread: enough loads in flight to fill the memory pipe */

/* The pack that starts at element i of p [n]; what lies behind the end is zero. */
template <bool WHOLE, typename T>
__device__ __forceinline__ Pack<T> flat_load(const T *p, int64_t i, int64_t n)
{
    if constexpr (WHOLE) {
        return load<PACK<T>>(p + i);
    } else {
        Pack<T> part;
#pragma unroll
        for (int k = 0; k < PACK<T>; k++) part.v[k] = i + k < n ? p[i + k] : from_float<T>(0.0f);
        return part;
    }
}

template <bool WHOLE, typename T>
__device__ __forceinline__ void flat_store(T *p, int64_t i, int64_t n, Pack<T> x)
{
    if constexpr (WHOLE) {
        store<PACK<T>>(p + i, x);
    } else {
#pragma unroll
        for (int k = 0; k < PACK<T>; k++)
            if (i + k < n) p[i + k] = x.v[k];
    }
}

template <typename T, bool TWO, bool WHOLE, typename F>
__device__ __forceinline__ void flat_part(T *y, const T *a, const T *b, int64_t n, const F &f)
{
    constexpr int N = PACK<T>;
    int64_t first = ((int64_t)blockIdx.x * (FLAT_UNROLL * BLOCK) + threadIdx.x) * N;
    Pack<T> pa[FLAT_UNROLL], pb[FLAT_UNROLL];

#pragma unroll
    for (int u = 0; u < FLAT_UNROLL; u++) {
        pa[u] = flat_load<WHOLE>(a, first + u * BLOCK * N, n);
        if (TWO) pb[u] = flat_load<WHOLE>(b, first + u * BLOCK * N, n);
    }
#pragma unroll
    for (int u = 0; u < FLAT_UNROLL; u++) {
        float fa[N], fb[N] = {};
        unpack(fa, pa[u]);
        if (TWO) unpack(fb, pb[u]);
        f(first + u * BLOCK * N, fa, fb);
        flat_store<WHOLE>(y, first + u * BLOCK * N, n, packed<T>(fa));
    }
}

/* f(i, a, b) turns the floats a [PACK] of elements i and following into those of y; b is the same
 * of the second tensor, or zeros. */
template <typename T, bool TWO, typename F>
static __global__ void __launch_bounds__(BLOCK) flat(T *y, const T *a, const T *b, int64_t n, F f)
{
    if (((int64_t)blockIdx.x + 1) * (FLAT_UNROLL * BLOCK * PACK<T>) <= n)
        flat_part<T, TWO, true>(y, a, b, n, f);
    else
        flat_part<T, TWO, false>(y, a, b, n, f);
}

/* TWO false: b is not read. */
template <typename T, bool TWO, typename F>
static void flat_launch(const KernelCall *c, const void *a, const void *b, F f)
{
    int64_t n = shape_elements(c->out_info[0]->shape);
    unsigned blocks = blocks_for(n, (int64_t)BLOCK * FLAT_UNROLL * PACK<T>);

    flat<T, TWO><<<blocks, BLOCK, 0, cuda_stream(c)>>>((T *)c->out[0], (const T *)a, (const T *)b, n, f);
}

#endif
