/* cross_entropy.cuh - rows of logits: the largest logit and the sum of exponentials, then, for the
 * gradient, the row once more.
 *
 * Losses alone read a row once, many rows at a time. For the gradient a row that shared memory can hold
 * is read from the device's memory once, and a block fetches the next row into what it has done with of
 * this one. Other rows are read again from the cache. */
#ifndef TIDE_CUDA_CROSS_ENTROPY_CUH
#define TIDE_CUDA_CROSS_ENTROPY_CUH
#include "kernels/cuda/cuda_common.cuh"

/* Several blocks on a multiprocessor overlap one row's arithmetic with another's traffic. */
constexpr int ROW_BLOCK = 512;

template <typename T> struct Classes {
    T *logits;                /* [rows, width]; their gradient when train */
    float *losses;            /* [rows]                                   */
    const int32_t *targets;   /* [rows]                                   */
    const TideStepInfo *info; /* NULL without train                       */
    int64_t rows;
    int width, vocab, ignore;
};

/* The sum of exp(x - max), with its max: the softmax of what a thread, a warp, a block has seen. */
struct Softmax {
    float max, sum;
};

/* 2^x; what is below the normal numbers is 0. One instruction of the unit that is busiest here. */
static __device__ __forceinline__ float power_of_2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

constexpr float LOG2_E = 1.44269504f;

/* e^(x - max) in one multiply-add and one power: top = max * LOG2_E. */
static __device__ __forceinline__ float power(float x, float top)
{
    return power_of_2(fmaf(x, LOG2_E, -top));
}

/* Of no logits yet. Finite, for -inf less -inf would be no number; a logit below it counts as e^-inf. */
constexpr float LOWEST = -1e38f;

/* The sum that belongs to another, not smaller, max. */
static __device__ __forceinline__ float rescaled(Softmax s, float max)
{
    return s.sum * power_of_2((s.max - max) * LOG2_E);
}

/* The result of the lanes whose numbers differ below bit `lanes`. Addition and max commute, so they
 * agree on bits. */
static __device__ __forceinline__ Softmax lanes_softmax(Softmax s, int lanes)
{
    float max = s.max;

#pragma unroll
    for (int m = lanes / 2; m > 0; m /= 2) max = fmaxf(max, __shfl_xor_sync(~0u, max, m));
    s = { max, rescaled(s, max) };
#pragma unroll
    for (int m = lanes / 2; m > 0; m /= 2) s.sum += __shfl_xor_sync(~0u, s.sum, m);
    return s;
}

/* The result of a block of THREADS for all of them. shared [THREADS / WARP] is written: the next call
 * takes other memory, the one after it may take this again. */
template <int THREADS> static __device__ __forceinline__ Softmax block_softmax(Softmax s, Softmax *shared)
{
    constexpr int WARPS = THREADS / WARP;

    s = lanes_softmax(s, WARP);
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = s;
    __syncthreads();
    return lanes_softmax(shared[threadIdx.x % WARPS], WARPS);
}

/* ---- Packs of logits --------------------------------------------------------------------- */

template <int N> __device__ __forceinline__ float pack_max(Pack<float, N> x)
{
    float max = x.v[0];

#pragma unroll
    for (int k = 1; k < N; k++) max = fmaxf(max, x.v[k]);
    return max;
}

/* Two at a time; Pair: bf162 or half2. */
template <typename Pair, typename T, int N> __device__ __forceinline__ float pairs_max(Pack<T, N> x)
{
    if constexpr (N == 1) {
        return to_float(x.v[0]);
    } else {
        Pair max(x.v[0], x.v[1]);
#pragma unroll
        for (int k = 2; k < N; k += 2) max = __hmax2(max, Pair(x.v[k], x.v[k + 1]));
        return fmaxf(to_float(max.x), to_float(max.y));
    }
}

template <int N> __device__ __forceinline__ float pack_max(Pack<bf16, N> x)
{
    return pairs_max<__nv_bfloat162>(x);
}

template <int N> __device__ __forceinline__ float pack_max(Pack<f16, N> x)
{
    return pairs_max<__half2>(x);
}

/* Adds a pack of logits. */
template <typename T, int N> __device__ __forceinline__ void take_pack(Softmax &s, Pack<T, N> x)
{
    float max = pack_max(x);

    if (max > s.max) s = { max, rescaled(s, max) };
#pragma unroll
    for (int k = 0; k < N; k++) s.sum += power(to_float(x.v[k]), s.max * LOG2_E);
}

/* Of the pack of columns i and following what lies before vocab: padding does not count. */
template <typename T, int N>
__device__ __forceinline__ void take_some(Softmax &s, Pack<T, N> x, int i, int vocab)
{
#pragma unroll
    for (int k = 0; k < N; k++)
        if (i + k < vocab) take_pack(s, Pack<T, 1>{ x.v[k] });
}

/* What the gradient of a row depends on beside its logits. */
struct Slope {
    float top, rate; /* max * LOG2_E, scale / sum */
};

/* softmax * scale; what the target's element has less is left to store_target(). */
template <typename T, int N> __device__ __forceinline__ Pack<T, N> gradient_pack(Pack<T, N> x, const Slope &g)
{
    float y[N];

#pragma unroll
    for (int k = 0; k < N; k++) y[k] = power(to_float(x.v[k]), g.top) * g.rate;
    return packed<T>(y);
}

/* The same, with zeros from vocab on. */
template <typename T, int N>
__device__ __forceinline__ Pack<T, N> gradient_some(Pack<T, N> x, const Slope &g, int i, int vocab)
{
    Pack<T, N> y = gradient_pack(x, g);

#pragma unroll
    for (int k = 0; k < N; k++)
        if (i + k >= vocab) y.v[k] = from_float<T>(0.0f);
    return y;
}

template <typename T>
__device__ __forceinline__ void store_target(T *to, Softmax s, float logit, float top, float scale)
{
    *to = from_float<T>((power(logit, top) / s.sum - 1.0f) * scale);
}

template <typename T> __device__ __forceinline__ bool is_class(const Classes<T> &j, int target)
{
    return target != j.ignore && target >= 0 && target < j.vocab;
}

static __device__ __forceinline__ float loss_of(Softmax s, float logit)
{
    return logf(s.sum) + (s.max - logit);
}

/* ---- A block a row ---------------------------------------------------------------------- */

constexpr int SHORT_BLOCK = 256, IN_FLIGHT = 4; /* packs of a thread on their way at once */

/* This thread's share of a row. */
template <int N, typename T> __device__ __forceinline__ Softmax thread_softmax(const T *row, int vocab)
{
    constexpr int STEP = SHORT_BLOCK * N;
    Softmax s = { LOWEST, 0 };
    int i = threadIdx.x * N;

    for (; i + (IN_FLIGHT - 1) * STEP + N <= vocab; i += IN_FLIGHT * STEP) {
        Pack<T, N> x[IN_FLIGHT];
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++) x[u] = load<N>(row + i + u * STEP);
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++) take_pack(s, x[u]);
    }
    for (; i < vocab; i += STEP) take_some(s, load<N>(row + i), i, vocab);
    return s;
}

template <int N, typename T>
__device__ __forceinline__ void write_gradient(T *row, const Slope &g, int vocab, int width)
{
#pragma unroll 2
    for (int i = threadIdx.x * N; i < width; i += SHORT_BLOCK * N)
        store(row + i, gradient_some(load<N>(row + i), g, i, vocab));
}

template <int N, typename T> __device__ __forceinline__ void write_zeros(T *row, int width)
{
    float zero[N] = {};

    for (int i = threadIdx.x * N; i < width; i += SHORT_BLOCK * N) store_floats(row + i, zero);
}

template <typename T, int N, bool TRAIN>
static __global__ void __launch_bounds__(SHORT_BLOCK, 5) by_rows(Classes<T> j)
{
    __shared__ Softmax shared[SHORT_BLOCK / WARP];
    T *row = j.logits + (int64_t)blockIdx.x * j.width;
    int target = j.targets[blockIdx.x];

    if (!is_class(j, target)) { /* the same for the whole block */
        if (threadIdx.x == 0) j.losses[blockIdx.x] = 0;
        if constexpr (TRAIN) write_zeros<N>(row, j.width);
        return;
    }
    Softmax s = block_softmax<SHORT_BLOCK>(thread_softmax<N>(row, j.vocab), shared);
    float logit = to_float(row[target]);
    if (threadIdx.x == 0) j.losses[blockIdx.x] = loss_of(s, logit);
    if constexpr (TRAIN) {
        Slope g = { s.max * LOG2_E, j.info->loss_scale / s.sum };
        __syncthreads(); /* the target's logit has been read */
        write_gradient<N>(row, g, j.vocab, j.width);
        if (target / N % SHORT_BLOCK == threadIdx.x) /* by who wrote the pack */
            store_target(row + target, s, logit, g.top, j.info->loss_scale);
    }
}

/* ---- Rows in shared memory ------------------------------------------------------------- */

/* A block takes row after row. A thread fetches, reads and writes the same packs of every row, so it
 * waits for its own fetches only; they come in quarters of a row, so that work on the first begins
 * while the others are under way. One piece of code serves all quarters: four copies would not stay
 * in the instruction cache. */
constexpr int QUARTERS = 4;

template <typename T> struct Stage {
    Pack<T> *packs; /* [n], of the row at hand; those done with, of the next */
    const T *next;  /* the row to fetch; NULL: none                          */
    int n, quarter; /* packs of a row and of a quarter of it                 */
};

template <typename T> __device__ __forceinline__ void fetch(const Stage<T> &stage, int p)
{
    if (stage.next) async_copy16(stage.packs + p, stage.next + (int64_t)p * PACK<T>);
}

static __device__ __forceinline__ int end_of(int quarter, int q, int n)
{
    return q + 1 < QUARTERS && (q + 1) * quarter < n ? (q + 1) * quarter : n;
}

template <typename T> static __device__ void fetch_row(const Stage<T> &stage)
{
    int p = threadIdx.x;

#pragma unroll 1
    for (int q = 0; q < QUARTERS; q++) {
#pragma unroll 1
        for (; p < end_of(stage.quarter, q, stage.n); p += ROW_BLOCK) fetch(stage, p);
        async_commit();
    }
}

/* Wait for quarter q, where only those behind it may still be under way. */
static __device__ __forceinline__ void wait_for(int q)
{
    switch (q) {
    case 0: async_wait<3>(); break;
    case 1: async_wait<2>(); break;
    case 2: async_wait<1>(); break;
    default: async_wait<0>(); break;
    }
}

/* This thread's share of the row. */
template <typename T> __device__ __forceinline__ Softmax take_row(const Stage<T> &stage, int vocab)
{
    int whole = vocab / PACK<T>, p = threadIdx.x;
    Softmax s = { LOWEST, 0 };

#pragma unroll 1
    for (int q = 0; q < QUARTERS; q++) {
        wait_for(q);
#pragma unroll 2
        for (int last = end_of(stage.quarter, q, whole); p < last; p += ROW_BLOCK)
            take_pack(s, stage.packs[p]);
    }
    if (p < stage.n) take_some(s, stage.packs[p], p * PACK<T>, vocab);
    return s;
}

/* Writes the gradient of the row; the packs of the next one follow on the heels. */
template <typename T>
__device__ __forceinline__ void write_row(T *row, const Stage<T> &stage, const Slope &g, int vocab)
{
    int whole = vocab / PACK<T>, p = threadIdx.x;

#pragma unroll 1
    for (int q = 0; q < QUARTERS; q++) {
#pragma unroll 2
        for (int last = end_of(stage.quarter, q, whole); p < last; p += ROW_BLOCK) {
            Pack<T> x = stage.packs[p];
            fetch(stage, p);
            store(row + (int64_t)p * PACK<T>, gradient_pack(x, g));
        }
        if (q == QUARTERS - 1)
            for (; p < stage.n; p += ROW_BLOCK) {
                Pack<T> x = stage.packs[p];
                fetch(stage, p);
                store(row + (int64_t)p * PACK<T>, gradient_some(x, g, p * PACK<T>, vocab));
            }
        async_commit();
    }
}

/* Zeros for a row that counts for nothing. */
template <typename T> static __device__ void clear_row(T *row, const Stage<T> &stage)
{
    int p = threadIdx.x;

#pragma unroll 1
    for (int q = 0; q < QUARTERS; q++) {
#pragma unroll 1
        for (; p < end_of(stage.quarter, q, stage.n); p += ROW_BLOCK) {
            store(row + (int64_t)p * PACK<T>, Pack<T>{});
            fetch(stage, p);
        }
        async_commit();
    }
}

/* Losses and gradients. */
template <typename T> static __global__ void __launch_bounds__(ROW_BLOCK, 2) by_resident_rows(Classes<T> j)
{
    extern __shared__ uint4 memory[]; /* [width] */
    __shared__ Softmax shared[2][ROW_BLOCK / WARP];
    int n = j.width / PACK<T>, turn = 0;
    T *row = j.logits + (int64_t)blockIdx.x * j.width;
    Stage<T> stage = { reinterpret_cast<Pack<T> *>(memory), row, n,
                       (n + QUARTERS * ROW_BLOCK - 1) / (QUARTERS * ROW_BLOCK) * ROW_BLOCK };
    float scale = j.info->loss_scale;

    fetch_row(stage);
    for (int64_t r = blockIdx.x; r < j.rows; r += gridDim.x, row = j.logits + r * j.width, turn ^= 1) {
        int target = j.targets[r];
        bool counts = is_class(j, target), owner = counts && target / PACK<T> % ROW_BLOCK == threadIdx.x;
        stage.next = r + gridDim.x < j.rows ? row + (int64_t)gridDim.x * j.width : NULL;
        Softmax s = block_softmax<ROW_BLOCK>(take_row(stage, j.vocab), shared[turn]);
        Slope g = { s.max * LOG2_E, scale / s.sum };
        float logit = owner ? to_float(reinterpret_cast<const T *>(memory)[target]) : 0;
        if (counts)
            write_row(row, stage, g, j.vocab);
        else
            clear_row(row, stage);
        if (owner) store_target(row + target, s, logit, g.top, scale);
        if (owner || (!counts && threadIdx.x == 0)) j.losses[r] = counts ? loss_of(s, logit) : 0;
    }
}

/* ---- Launching ---------------------------------------------------------------------------- */

/* True: launched. False: a row is no packs, or longer than shared memory. */
template <typename T> static bool launch_resident(const KernelCall *c, const Classes<T> &j)
{
    constexpr int ROWS_EACH = 4; /* for a block at least: its fetches go on while it works */
    size_t bytes = (size_t)j.width * sizeof(T);

    if (!in_packs<T>(j.width)) return false;
    unsigned most = resident_blocks(c, by_resident_rows<T>, ROW_BLOCK, bytes);
    unsigned wanted = blocks_for(j.rows, ROWS_EACH), blocks = wanted < most ? wanted : most;
    if (!most) return false;
    by_resident_rows<T><<<blocks, ROW_BLOCK, bytes, cuda_stream(c)>>>(j);
    return true;
}

template <typename T, bool TRAIN> static void cross_entropy_launch(const KernelCall *c)
{
    const TideClasses *a = (const TideClasses *)c->node->attr.bytes;
    TideShape shape = c->in_info[0]->shape;
    Classes<T> j = { (T *)c->in[0],
                     (float *)c->out[0] + a->first,
                     (const int32_t *)c->in[1] + a->first,
                     TRAIN ? (const TideStepInfo *)c->in[3] : NULL,
                     shape_rows(shape),
                     (int)shape_width(shape),
                     a->vocab,
                     a->ignore };
    unsigned rows = (unsigned)j.rows;

    if constexpr (TRAIN)
        if (launch_resident(c, j)) return;
    if (in_packs<T>(j.width))
        by_rows<T, PACK<T>, TRAIN><<<rows, SHORT_BLOCK, 0, cuda_stream(c)>>>(j);
    else
        by_rows<T, 1, TRAIN><<<rows, SHORT_BLOCK, 0, cuda_stream(c)>>>(j);
}

#endif
