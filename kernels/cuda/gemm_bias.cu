/* gemm_bias.cu - what an epilogue would do, apart from its GEMM, and random numbers to time it with. */
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/gemm.h"

/* ---- Bias on every row --------------------------------------------------------- */

template <typename T>
static __global__ void bias_rows(T *d, const T *__restrict__ bias, int64_t n, int64_t cols)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;

    if (i < n) d[i] = bias[i % cols];
}

template <typename T> static void start_bias_rows(const Gemm *g, const GemmCall *c)
{
    int64_t n = g->rows * g->cols;

    bias_rows<T><<<blocks_for(n), BLOCK, 0, c->stream>>>((T *)c->d, (const T *)c->bias, n, g->cols);
}

TideStatus gemm_bias_rows(Device *d, const Gemm *g, const GemmCall *c)
{
    static void (*const start[])(const Gemm *, const GemmCall *) = { start_bias_rows<float>,
                                                                     start_bias_rows<bf16>,
                                                                     start_bias_rows<f16> };
    if (g->bias != g->out)
        return cuda_fail(d, TIDE_DEVICE, "a linear layer of %s with a bias of %s",
                         type_name((TideType)g->out), type_name((TideType)g->bias));
    start[g->out](g, c);
    return cuda_check(d, cudaGetLastError(), "bias rows");
}

/* ---- Sums over rows ------------------------------------------------------------ */

enum { SUM_WARPS = 8, SUM_THREADS = SUM_WARPS * WARP, SUM_UNROLL = 4 };

/* As many blocks as keep a device busy; rows of a block. */
enum { SUM_BLOCKS = 1024, SUM_LEAST_ROWS = 64 };

/* A matrix [rows, cols] in blocks of rows, each of which leaves a partial sum in parts [blocks, cols]. */
typedef struct Sums {
    float *parts;
    int64_t rows, cols, block_rows;
} Sums;

/* Warp w of a block adds rows w, w + 8, ... of its block of rows, a lane V columns; then the warps are
 * added in order. */
template <typename T, int V>
static __global__ void __launch_bounds__(SUM_THREADS) partial_sums(Sums s, const T *__restrict__ a)
{
    __shared__ float shared[SUM_WARPS][WARP * V];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int64_t col = ((int64_t)blockIdx.x * WARP + lane) * V;
    int64_t first = (int64_t)blockIdx.y * s.block_rows, end = min(first + s.block_rows, s.rows);
    float sum[V] = {};

    if (col < s.cols) {
        int64_t r = first + warp;
        for (; r + (SUM_UNROLL - 1) * SUM_WARPS < end; r += SUM_UNROLL * SUM_WARPS) {
            Pack<T, V> x[SUM_UNROLL];
#pragma unroll
            for (int u = 0; u < SUM_UNROLL; u++) x[u] = load<V>(a + (r + u * SUM_WARPS) * s.cols + col);
#pragma unroll
            for (int u = 0; u < SUM_UNROLL; u++)
#pragma unroll
                for (int i = 0; i < V; i++) sum[i] += to_float(x[u].v[i]);
        }
        for (; r < end; r += SUM_WARPS) {
            Pack<T, V> x = load<V>(a + r * s.cols + col);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += to_float(x.v[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < V; i++) shared[warp][lane * V + i] = sum[i];
    __syncthreads();
    for (int i = threadIdx.x; i < WARP * V; i += SUM_THREADS) {
        int64_t at = (int64_t)blockIdx.x * WARP * V + i;
        float total = 0;
#pragma unroll
        for (int w = 0; w < SUM_WARPS; w++) total += shared[w][i];
        if (at < s.cols) s.parts[(int64_t)blockIdx.y * s.cols + at] = total;
    }
}

/* Rows of a block: a function of the shape alone, so that the bits are too. */
static int64_t rows_of_a_block(int64_t rows, int64_t cols, int64_t col_blocks)
{
    int64_t parts = (SUM_BLOCKS + col_blocks - 1) / col_blocks;
    int64_t most = GEMM_SCRATCH_BYTES / (int64_t)sizeof(float) / cols;

    parts = min(parts, (rows + SUM_LEAST_ROWS - 1) / SUM_LEAST_ROWS);
    parts = max(min(parts, most), (int64_t)1);
    return (rows + parts - 1) / parts;
}

template <typename T, int V> static int start_partial_sums(const Gemm *g, const GemmCall *c)
{
    Sums s = { (float *)c->scratch, g->inner, g->rows, 0 };
    int64_t col_blocks = blocks_for(s.cols, WARP * V);

    s.block_rows = rows_of_a_block(s.rows, s.cols, col_blocks);
    dim3 grid((unsigned)col_blocks, blocks_for(s.rows, s.block_rows));
    partial_sums<T, V><<<grid, SUM_THREADS, 0, c->stream>>>(s, (const T *)c->a);
    return (int)grid.y;
}

template <typename T> static int start_partials(const Gemm *g, const GemmCall *c)
{
    bool packs = in_packs<T>(g->rows) && g->align_a >= 16;

    return packs ? start_partial_sums<T, PACK<T>>(g, c) : start_partial_sums<T, 1>(g, c);
}

TideStatus gemm_bias_sums(Device *d, const Gemm *g, const GemmCall *c)
{
    static int (*const partials[])(const Gemm *, const GemmCall *) = { start_partials<float>,
                                                                       start_partials<bf16>,
                                                                       start_partials<f16> };
    ColumnSums to = { { { c->bias, (TideType)g->bias, g->add_bias != 0 } } };
    int n = partials[g->in](g, c), cols = (int)g->rows;

    add_parts<<<blocks_for(cols, WARP), dim3(WARP, SLICES), 0, c->stream>>>(to, (const float *)c->scratch, n,
                                                                           cols);
    return cuda_check(d, cudaGetLastError(), "bias gradient");
}

/* ---- Random numbers --------------------------------------------------------------- */

/* Uniform in [-1/2, 1/2), a hash of the index. */
template <typename T> static __global__ void random_fill(T *to, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    uint32_t h = (uint32_t)i * 0x9E3779B1u;

    if (i >= n) return;
    h = (h ^ (h >> 15)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    to[i] = from_float<T>((float)(h >> 8) * 0x1p-24f - 0.5f);
}

template <typename T> static void start_random(void *to, int64_t n, cudaStream_t stream)
{
    random_fill<T><<<blocks_for(n), BLOCK, 0, stream>>>((T *)to, n);
}

TideStatus cuda_random(Device *d, cudaStream_t stream, CudaArray to)
{
    static void (*const start[])(void *, int64_t, cudaStream_t) = { start_random<float>, start_random<bf16>,
                                                                    start_random<f16> };

    if (to.n > 0) start[to.type](to.at, to.n, stream);
    return cuda_check(d, cudaGetLastError(), "random numbers");
}
