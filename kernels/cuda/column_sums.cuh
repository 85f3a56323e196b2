/* column_sums.cuh - the second half of sums over rows: parts that blocks of rows left behind are added in
 * order. How many parts there are is a function of the shape, so that bits do not depend on the device. */
#ifndef TIDE_CUDA_COLUMN_SUMS_CUH
#define TIDE_CUDA_COLUMN_SUMS_CUH
#include "kernels/cuda/cuda_common.cuh"

/* A slice of the parts for each warp: with 256 parts all its loads are under way at once. */
constexpr int SLICES = 32, MOST_SUMS = 3;

/* What one sum becomes. */
struct ColumnSum {
    void *to; /* [C]; NULL: nothing */
    TideType type;
    bool add; /* to what is there */
};

struct ColumnSums {
    ColumnSum of[MOST_SUMS];
};

template <typename G> static __device__ void put_sum(G *to, float sum, bool add)
{
    *to = from_float<G>(add ? to_float(*to) + sum : sum);
}

/* Sums of parts [n, sums, C] over n: slices of parts, then the slices. Blocks with y = s make sum s. */
static __global__ void __launch_bounds__(WARP *SLICES)
    add_parts(ColumnSums sums, const float *parts, int n, int width)
{
    __shared__ float shared[SLICES][WARP];
    ColumnSum out = sums.of[blockIdx.y];
    int i = blockIdx.x * WARP + threadIdx.x, each = (n + SLICES - 1) / SLICES, stride = gridDim.y * width;
    int first = threadIdx.y * each, last = first + each < n ? first + each : n;
    const float *from = parts + (int64_t)blockIdx.y * width + i;
    float sum = 0;

    if (!out.to) return; /* the whole block */
    if (i < width) {
#pragma unroll 8
        for (int p = first; p < last; p++) sum += from[(int64_t)p * stride];
    }
    shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || i >= width) return;
#pragma unroll
    for (int s = 1; s < SLICES; s++) sum += shared[s][threadIdx.x];
    switch (out.type) {
    case TIDE_F32: put_sum((float *)out.to + i, sum, out.add); break;
    case TIDE_BF16: put_sum((bf16 *)out.to + i, sum, out.add); break;
    case TIDE_F16: put_sum((f16 *)out.to + i, sum, out.add); break;
    case TIDE_I32:
    case TIDE_TYPE_COUNT: break; /* not a gradient */
    }
}

/* The sum that is output `output` of a node, and added to input `before` where that is given. */
static inline ColumnSum column_sum(const KernelCall *c, int output, int before)
{
    if (!c->out[output]) return { NULL, TIDE_F32, false };
    return { c->out[output], c->out_info[output]->type, c->in[before] != NULL };
}

/* Adds parts [n, sums, width]. */
static inline void launch_add_parts(const KernelCall *c, const ColumnSums &to, int sums, const void *parts,
                                    int n, int width)
{
    add_parts<<<dim3(blocks_for(width, WARP), sums), dim3(WARP, SLICES), 0, cuda_stream(c)>>>(
        to, (const float *)parts, n, width);
}

#endif
