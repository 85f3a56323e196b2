/* layernorm.cuh - the rows of layernorm, shared by every op that makes or remakes one: the same code
 * gives the same bits.
 *
 * A row lies in the registers of one warp where it fits, so that it is read once; a long row is
 * shared by a block and read again from the cache. */
#ifndef TIDE_CUDA_LAYERNORM_CUH
#define TIDE_CUDA_LAYERNORM_CUH
#include "kernels/cuda/cuda_common.cuh"

enum RowsMode {
    ROWS_FIRST, /* y = layernorm(a), and the moments             */
    ROWS_ADD,   /* sum = a + b, y = layernorm(sum), the moments  */
    ROWS_AGAIN, /* y from a and the moments that are there       */
};

template <typename T> struct Rows {
    T *sum, *y;             /* [rows, C]; sum may be b           */
    float *mean, *rstd;     /* [rows]                            */
    const T *a, *b;         /* [rows, C]                         */
    const T *weight, *bias; /* [C]; bias may be NULL             */
    int64_t rows;
    int width;
};

/* Every step rounds once, written out so that no compiler contracts it differently elsewhere. */
static __device__ __forceinline__ float normalised(float x, float mean, float rstd, float weight, float bias)
{
    return __fmaf_rn(__fmul_rn(__fsub_rn(x, mean), rstd), weight, bias);
}

/* y of the pack x that starts at column i. */
template <typename T, int N>
__device__ __forceinline__ Pack<T, N> normalised_pack(const Rows<T> &j, Pack<T, N> x, int i, float mean,
                                                      float rstd)
{
    float v[N], weight[N], bias[N] = {};

    unpack(v, x);
    load_floats(weight, j.weight + i);
    if (j.bias) load_floats(bias, j.bias + i);
#pragma unroll
    for (int k = 0; k < N; k++) v[k] = normalised(v[k], mean, rstd, weight[k], bias[k]);
    return packed<T>(v);
}

/* a + b, rounded to what is stored: the layernorm is defined on that. */
template <typename T, int N> __device__ __forceinline__ Pack<T, N> add_packs(Pack<T, N> a, Pack<T, N> b)
{
    float x[N], y[N];

    unpack(x, a);
    unpack(y, b);
#pragma unroll
    for (int k = 0; k < N; k++) x[k] = __fadd_rn(x[k], y[k]);
    return packed<T>(x);
}

template <typename T, int N> __device__ __forceinline__ float pack_sum(Pack<T, N> x)
{
    float sum = 0;

#pragma unroll
    for (int k = 0; k < N; k++) sum += to_float(x.v[k]);
    return sum;
}

template <typename T, int N> __device__ __forceinline__ float pack_squares(Pack<T, N> x, float mean)
{
    float sum = 0;

#pragma unroll
    for (int k = 0; k < N; k++) sum += (to_float(x.v[k]) - mean) * (to_float(x.v[k]) - mean);
    return sum;
}

static __device__ __forceinline__ float rstd_of(float squares, int width)
{
    return 1.0f / sqrtf(squares / (float)width + 1e-5f);
}

/* ---- One warp a row, up to PACKS packs a lane ----------------------------------- */

template <typename T, int N, int PACKS, RowsMode MODE>
static __global__ void __launch_bounds__(BLOCK, PACKS > 4 ? 2 : 3) rows_by_warp(Rows<T> j)
{
    int64_t r = (int64_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP;
    int lane = threadIdx.x % WARP, packs = j.width / N;
    Pack<T, N> x[PACKS], b[PACKS];

    if (r >= j.rows) return;
    int64_t row = r * j.width;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int at = (k * WARP + lane) * N;
        if (k * WARP + lane < packs) x[k] = load<N>(j.a + row + at);
        if (MODE == ROWS_ADD && k * WARP + lane < packs) b[k] = load<N>(j.b + row + at);
    }
    float mean = 0, rstd = 0;
    if constexpr (MODE == ROWS_AGAIN) {
        mean = j.mean[r];
        rstd = j.rstd[r];
    } else {
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            if (k * WARP + lane >= packs) continue;
            if constexpr (MODE == ROWS_ADD) {
                x[k] = add_packs(x[k], b[k]);
                store(j.sum + row + (k * WARP + lane) * N, x[k]);
            }
            mean += pack_sum(x[k]);
        }
        mean = warp_sum(mean) / (float)j.width;
#pragma unroll
        for (int k = 0; k < PACKS; k++)
            if (k * WARP + lane < packs) rstd += pack_squares(x[k], mean);
        rstd = rstd_of(warp_sum(rstd), j.width);
        if (lane == 0) j.mean[r] = mean;
        if (lane == 0) j.rstd[r] = rstd;
    }
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int at = (k * WARP + lane) * N;
        if (k * WARP + lane < packs) store(j.y + row + at, normalised_pack(j, x[k], at, mean, rstd));
    }
}

/* ---- One block a row --------------------------------------------------------------- */

template <typename T, int N, RowsMode MODE>
static __global__ void __launch_bounds__(BLOCK) rows_by_block(Rows<T> j)
{
    __shared__ float shared[WARP + 1];
    int64_t r = blockIdx.x, row = r * j.width;
    const T *x = MODE == ROWS_ADD ? j.sum : j.a;
    float mean = 0, rstd = 0;

    if constexpr (MODE == ROWS_AGAIN) {
        mean = j.mean[r];
        rstd = j.rstd[r];
    } else {
        for (int i = threadIdx.x * N; i < j.width; i += BLOCK * N) {
            Pack<T, N> p = load<N>(j.a + row + i);
            if constexpr (MODE == ROWS_ADD) {
                p = add_packs(p, load<N>(j.b + row + i));
                store(j.sum + row + i, p); /* read again below, by this thread */
            }
            mean += pack_sum(p);
        }
        mean = block_sum(mean, shared) / (float)j.width;
        for (int i = threadIdx.x * N; i < j.width; i += BLOCK * N)
            rstd += pack_squares(load<N>(x + row + i), mean);
        rstd = rstd_of(block_sum(rstd, shared), j.width);
        if (threadIdx.x == 0) j.mean[r] = mean;
        if (threadIdx.x == 0) j.rstd[r] = rstd;
    }
    for (int i = threadIdx.x * N; i < j.width; i += BLOCK * N)
        store(j.y + row + i, normalised_pack(j, load<N>(x + row + i), i, mean, rstd));
}

/* ---- Launching ---------------------------------------------------------------------- */

template <typename T, int N, RowsMode MODE>
static void rows_launch_packs(const KernelCall *c, const Rows<T> &j)
{
    int64_t packs = j.width / N;
    unsigned blocks = blocks_for(j.rows, BLOCK / WARP);

    if (packs <= 4 * WARP)
        rows_by_warp<T, N, 4, MODE><<<blocks, BLOCK, 0, cuda_stream(c)>>>(j);
    else if (packs <= 8 * WARP)
        rows_by_warp<T, N, 8, MODE><<<blocks, BLOCK, 0, cuda_stream(c)>>>(j);
    else
        rows_by_block<T, N, MODE><<<(unsigned)j.rows, BLOCK, 0, cuda_stream(c)>>>(j);
}

template <typename T, RowsMode MODE> static void rows_launch(const KernelCall *c, const Rows<T> &j)
{
    if (in_packs<T>(j.width))
        rows_launch_packs<T, PACK<T>, MODE>(c, j);
    else
        rows_launch_packs<T, 1, MODE>(c, j);
}

#endif
