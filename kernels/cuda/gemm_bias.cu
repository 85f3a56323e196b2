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

enum { SUM_BLOCKS = 1024, SUM_UNROLL = 4 }; /* as many blocks as keep a device busy */

template <typename T, int V>
static __global__ void __launch_bounds__(SUM_THREADS)
    partial_sums(float *__restrict__ parts, const T *__restrict__ a, ColumnBlocks b)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int64_t col = ((int64_t)blockIdx.x * WARP + lane) * V;
    int64_t first = (int64_t)blockIdx.y * b.block_rows, end = min(first + b.block_rows, b.rows);
    float sum[V] = {};

    if (col < b.cols) {
        int64_t r = first + warp;
        for (; r + (SUM_UNROLL - 1) * SUM_WARPS < end; r += SUM_UNROLL * SUM_WARPS) {
            Pack<T, V> x[SUM_UNROLL];
#pragma unroll
            for (int u = 0; u < SUM_UNROLL; u++) x[u] = load<V>(a + (r + u * SUM_WARPS) * b.cols + col);
#pragma unroll
            for (int u = 0; u < SUM_UNROLL; u++)
#pragma unroll
                for (int i = 0; i < V; i++) sum[i] += to_float(x[u].v[i]);
        }
        for (; r < end; r += SUM_WARPS) {
            Pack<T, V> x = load<V>(a + r * b.cols + col);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += to_float(x.v[i]);
        }
    }
    store_partial_sums<V>(parts, sum, b.cols);
}

template <typename T, int V> static ColumnBlocks start_partial_sums(const Gemm *g, const GemmCall *c)
{
    ColumnBlocks b = column_blocks(g->inner, g->rows, V, SUM_BLOCKS, GEMM_SCRATCH_BYTES);

    partial_sums<T, V><<<b.grid, SUM_THREADS, 0, c->stream>>>((float *)c->scratch, (const T *)c->a, b);
    return b;
}

template <typename T> static ColumnBlocks start_partials(const Gemm *g, const GemmCall *c)
{
    bool packs = in_packs<T>(g->rows) && g->align_a >= 16;

    return packs ? start_partial_sums<T, PACK<T>>(g, c) : start_partial_sums<T, 1>(g, c);
}

TideStatus gemm_bias_sums(Device *d, const Gemm *g, const GemmCall *c)
{
    static ColumnBlocks (*const partials[])(const Gemm *, const GemmCall *) = { start_partials<float>,
                                                                                start_partials<bf16>,
                                                                                start_partials<f16> };
    ColumnSum to = { c->bias, g->bias, g->add_bias != 0 };

    add_parts_to(to, (const float *)c->scratch, partials[g->in](g, c), c->stream);
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
