/* column_sums.cuh - sums over the rows of a matrix: partial sums over fixed blocks of rows, each by one
 * block of threads, then the blocks in their order.
 *
 * Warp w of a block takes rows w, w + 8, ... of its block of rows and a lane V columns, so that a kernel
 * may do something to the elements on the way. */
#ifndef TIDE_CUDA_COLUMN_SUMS_CUH
#define TIDE_CUDA_COLUMN_SUMS_CUH
#include "kernels/cuda/cuda_common.cuh"

constexpr int SUM_WARPS = 8, SUM_THREADS = SUM_WARPS * WARP;

/* A matrix [rows, cols] cut into grid.x blocks of columns and grid.y blocks of block_rows rows. */
struct ColumnBlocks {
    int64_t rows, cols, block_rows;
    dim3 grid;
};

/* A function of the arguments alone, so that the bits are too. V columns a lane; about n blocks, of 64
 * rows at least, whose partial sums f32 [grid.y, cols] fit bytes of scratch. */
static inline ColumnBlocks column_blocks(int64_t rows, int64_t cols, int v, int64_t n, size_t bytes)
{
    const int64_t least_rows = 64;
    int64_t wide = blocks_for(cols, WARP * v), most = (int64_t)(bytes / sizeof(float)) / cols;
    int64_t parts = (n + wide - 1) / wide;

    parts = min(parts, (rows + least_rows - 1) / least_rows);
    parts = max(min(parts, most), (int64_t)1);
    int64_t block_rows = (rows + parts - 1) / parts;
    return { rows, cols, block_rows, dim3((unsigned)wide, blocks_for(rows, block_rows)) };
}

/* Add the warps' sums in order and write the block's partial sums. To be called by all threads. */
template <int V>
__device__ __forceinline__ void store_partial_sums(float *parts, const float (&sum)[V], int64_t cols)
{
    __shared__ float shared[SUM_WARPS][WARP * V];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;

#pragma unroll
    for (int i = 0; i < V; i++) shared[warp][lane * V + i] = sum[i];
    __syncthreads();
    for (int i = threadIdx.x; i < WARP * V; i += SUM_THREADS) {
        int64_t at = (int64_t)blockIdx.x * WARP * V + i;
        float total = 0;
#pragma unroll
        for (int w = 0; w < SUM_WARPS; w++) total += shared[w][i];
        if (at < cols) parts[(int64_t)blockIdx.y * cols + at] = total;
    }
}

/* to [cols] (+)= the sums over parts [n, cols], rounded once. */
template <typename T>
static __global__ void add_column_parts(T *to, const float *__restrict__ parts, int n, int64_t cols, bool add)
{
    int64_t col = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float total = 0;

    if (col >= cols) return;
#pragma unroll 8
    for (int p = 0; p < n; p++) total += parts[(int64_t)p * cols + col];
    to[col] = from_float<T>(add ? to_float(to[col]) + total : total);
}

typedef struct ColumnSum {
    void *to;     /* [cols] */
    int32_t type; /* TideType: f32, bf16 or f16 */
    bool add;
} ColumnSum;

template <typename T>
static void start_add_parts(ColumnSum to, const float *parts, const ColumnBlocks &b, cudaStream_t stream)
{
    constexpr int threads = 64; /* few columns: spread over many multiprocessors */

    add_column_parts<T><<<blocks_for(b.cols, threads), threads, 0, stream>>>((T *)to.to, parts,
                                                                             (int)b.grid.y, b.cols, to.add);
}

static inline void add_parts_to(ColumnSum to, const float *parts, const ColumnBlocks &b, cudaStream_t stream)
{
    static void (*const start[])(ColumnSum, const float *, const ColumnBlocks &, cudaStream_t) = {
        start_add_parts<float>, start_add_parts<bf16>, start_add_parts<f16>
    };

    start[to.type](to, parts, b, stream);
}
#endif
