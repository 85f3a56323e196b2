/* row_team.cuh - rows of packs in the hands of teams: W neighbouring warps of a block take one row
 * after the other.
 *
 * A lane owns the same columns of every row, up to PACKS packs of them. It fetches its packs of the
 * next row into shared memory while it works on this one; nobody else reads them, so that a row
 * needs no barrier before it is read. */
#ifndef TIDE_CUDA_ROW_TEAM_CUH
#define TIDE_CUDA_ROW_TEAM_CUH
#include "kernels/cuda/cuda_common.cuh"

/* Where this thread stands. */
template <int W> struct Team {
    static constexpr int LANES = W * WARP, COUNT = BLOCK / LANES;
    int index, lane;

    /* First column of the lane's k-th pack of N; beyond the row's width there is none. */
    template <int N> __device__ __forceinline__ int column(int k) const { return (k * LANES + lane) * N; }
};

template <int W> __device__ __forceinline__ Team<W> own_team()
{
    return { (int)threadIdx.x / Team<W>::LANES, (int)threadIdx.x % Team<W>::LANES };
}

/* Start to fetch this lane's packs of a row into stage [PACKS, BLOCK]. */
template <int PACKS, int W, typename T>
__device__ __forceinline__ void fetch_row(Pack<T> *stage, const T *row, const Team<W> &team, int width)
{
    const T *own = row + team.template column<PACK<T>>(0); /* the others at distances known beforehand */

#pragma unroll
    for (int k = 0; k < PACKS; k++)
        if (team.template column<PACK<T>>(k) < width)
            async_copy16(stage + k * BLOCK + threadIdx.x, own + k * Team<W>::LANES * PACK<T>);
}

template <typename T> __device__ __forceinline__ Pack<T> fetched_pack(const Pack<T> *stage, int k)
{
    return stage[k * BLOCK + threadIdx.x];
}

/* The sums over the team of `COUNT` numbers of each lane, for all its lanes. shared [BLOCK / WARP] is
 * written: the next call of the team takes other memory, the one after it may take this again. */
template <int COUNT, int W>
__device__ __forceinline__ void team_sums(float (&x)[COUNT], float (*shared)[COUNT], const Team<W> &team)
{
#pragma unroll
    for (int i = 0; i < COUNT; i++) x[i] = warp_sum(x[i]);
    if constexpr (W > 1) {
        if (threadIdx.x % WARP == 0) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) shared[threadIdx.x / WARP][i] = x[i];
        }
        asm volatile("bar.sync %0, %1;" ::"r"(team.index + 1), "n"(W * WARP) : "memory");
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            x[i] = 0;
#pragma unroll
            for (int w = 0; w < W; w++) x[i] += shared[team.index * W + w][i];
        }
    }
}

#endif
