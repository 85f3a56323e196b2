/* cross_entropy.cuh - rows of logits: the largest logit and the sum of exponentials, then, for the
 * gradient, the row once more.
 *
 * A row that shared memory can hold is read from the device's memory once, and a block fetches the
 * next row into what it has done with of this one. Other rows are read again from the cache. */
#ifndef TIDE_CUDA_CROSS_ENTROPY_CUH
#define TIDE_CUDA_CROSS_ENTROPY_CUH
#include "kernels/cuda/cuda_common.cuh"

/* Several blocks on a multiprocessor overlap one row's arithmetic with another's traffic. */
constexpr int ROW_BLOCK = 512, ROW_WARPS = ROW_BLOCK / WARP;

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

/* e^x; what is below the normal numbers is 0. One instruction of the unit that is busiest here. */
static __device__ __forceinline__ float power(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}

/* The sum that belongs to another, not smaller, max. */
static __device__ __forceinline__ float rescaled(Softmax s, float max)
{
    return s.max == max ? s.sum : s.sum * power(s.max - max); /* -inf less -inf is no number */
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

/* The result of the whole block for all its threads. shared [ROW_WARPS] is written: the next call
 * takes other memory, the one after it may take this again. */
static __device__ __forceinline__ Softmax block_softmax(Softmax s, Softmax *shared)
{
    s = lanes_softmax(s, WARP);
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = s;
    __syncthreads();
    return lanes_softmax(shared[threadIdx.x % ROW_WARPS], ROW_WARPS);
}

/* Adds the logits x of columns i and following. Padding beyond vocab does not count. */
template <int N> __device__ __forceinline__ void take_logits(Softmax &s, float (&x)[N], int i, int vocab)
{
    float max = s.max;

    if (i + N > vocab) { /* apart, so that the other packs do without comparisons */
#pragma unroll
        for (int k = 0; k < N; k++) x[k] = i + k < vocab ? x[k] : -INFINITY;
    }
#pragma unroll
    for (int k = 0; k < N; k++) max = fmaxf(max, x[k]);
    if (max == -INFINITY) return;
    s = { max, rescaled(s, max) };
#pragma unroll
    for (int k = 0; k < N; k++) s.sum += power(x[k] - max);
}

/* What the gradient of a row depends on beside its logits. */
struct Slope {
    Softmax s;
    float scale, rate; /* rate = scale / s.sum */
    int target, vocab;
};

/* The logits x of columns i and following become (softmax - onehot) * scale, 0 in the padding. */
template <int N> __device__ __forceinline__ void make_gradient(float (&x)[N], int i, const Slope &g)
{
    bool special = i + N > g.vocab || (i <= g.target && g.target < i + N);

#pragma unroll
    for (int k = 0; k < N; k++) x[k] = power(x[k] - g.s.max);
    if (special) {
#pragma unroll
        for (int k = 0; k < N; k++)
            x[k] = i + k >= g.vocab    ? 0.0f
                   : i + k == g.target ? (x[k] / g.s.sum - 1.0f) * g.scale
                                       : x[k] * g.rate;
    } else {
#pragma unroll
        for (int k = 0; k < N; k++) x[k] *= g.rate;
    }
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

/* This thread's share of a row. */
template <int N, typename T> __device__ __forceinline__ Softmax thread_softmax(const T *row, int vocab)
{
    Softmax s = { -INFINITY, 0 };

#pragma unroll 4
    for (int i = threadIdx.x * N; i < vocab; i += ROW_BLOCK * N) {
        float x[N];
        load_floats(x, row + i);
        take_logits(s, x, i, vocab);
    }
    return s;
}

template <int N, typename T> __device__ __forceinline__ void write_gradient(T *row, const Slope &g, int width)
{
#pragma unroll 2
    for (int i = threadIdx.x * N; i < width; i += ROW_BLOCK * N) {
        float x[N];
        load_floats(x, row + i);
        make_gradient(x, i, g);
        store_floats(row + i, x);
    }
}

template <int N, typename T> __device__ __forceinline__ void write_zeros(T *row, int width)
{
    float zero[N] = {};

    for (int i = threadIdx.x * N; i < width; i += ROW_BLOCK * N) store_floats(row + i, zero);
}

template <typename T, int N, bool TRAIN>
static __global__ void __launch_bounds__(ROW_BLOCK, 2) by_rows(Classes<T> j)
{
    __shared__ Softmax shared[ROW_WARPS];
    T *row = j.logits + (int64_t)blockIdx.x * j.width;
    int target = j.targets[blockIdx.x];

    if (!is_class(j, target)) { /* the same for the whole block */
        if (threadIdx.x == 0) j.losses[blockIdx.x] = 0;
        if constexpr (TRAIN) write_zeros<N>(row, j.width);
        return;
    }
    Softmax s = block_softmax(thread_softmax<N>(row, j.vocab), shared);
    if (threadIdx.x == 0) j.losses[blockIdx.x] = loss_of(s, to_float(row[target]));
    if constexpr (TRAIN) {
        float scale = j.info->loss_scale;
        __syncthreads(); /* the target's logit has been read */
        write_gradient<N>(row, { s, scale, scale / s.sum, target, j.vocab }, j.width);
    }
}

/* ---- Rows in shared memory ------------------------------------------------------------- */

/* A block takes row after row. A thread fetches, reads and writes the same packs of every row, so it
 * waits for its own fetches only; they come in quarters of a row, so that work on the first begins
 * while the others are under way. */
template <typename T> struct Stage {
    Pack<T> *packs; /* [n], of the row at hand; those done with, of the next */
    const T *next;  /* the row to fetch; NULL: none                          */
    int n, quarter; /* packs of a row and of a quarter of it                 */
};

template <typename T> __device__ __forceinline__ void fetch(const Stage<T> &stage, int p)
{
    if (stage.next) async_copy16(stage.packs + p, stage.next + (int64_t)p * PACK<T>);
}

/* f(p) for this thread's packs p of quarter Q. */
template <int Q, typename T, typename F>
__device__ __forceinline__ void each_pack(const Stage<T> &stage, const F &f)
{
    int last = (Q + 1) * stage.quarter < stage.n ? (Q + 1) * stage.quarter : stage.n;

#pragma unroll 2
    for (int p = Q * stage.quarter + threadIdx.x; p < last; p += ROW_BLOCK) f(p);
}

template <int Q, typename T> __device__ __forceinline__ void fetch_quarter(const Stage<T> &stage)
{
    each_pack<Q>(stage, [&](int p) { fetch(stage, p); });
    async_commit();
}

/* Adds the quarter to s. Without a gradient to make, the next row may take its place. */
template <int Q, bool TRAIN, typename T>
__device__ __forceinline__ void take_quarter(Softmax &s, const Stage<T> &stage, int vocab)
{
    async_wait<TRAIN ? 3 - Q : 3>(); /* the quarters behind it, TRAIN: of this row, else of the next too */
    each_pack<Q>(stage, [&](int p) {
        float x[PACK<T>];
        unpack(x, stage.packs[p]);
        take_logits(s, x, p * PACK<T>, vocab);
        if constexpr (!TRAIN) fetch(stage, p);
    });
    if constexpr (!TRAIN) async_commit();
}

/* Writes the gradient of the quarter, zeros where the row counts for nothing. */
template <int Q, typename T>
__device__ __forceinline__ void write_quarter(T *row, const Stage<T> &stage, const Slope &g, bool counts)
{
    each_pack<Q>(stage, [&](int p) {
        float x[PACK<T>] = {};
        if (counts) {
            unpack(x, stage.packs[p]);
            make_gradient(x, p * PACK<T>, g);
        }
        store(row + (int64_t)p * PACK<T>, packed<T>(x));
        fetch(stage, p);
    });
    async_commit();
}

template <typename T, bool TRAIN>
static __global__ void __launch_bounds__(ROW_BLOCK, 2) by_resident_rows(Classes<T> j)
{
    extern __shared__ uint4 memory[]; /* [width] */
    __shared__ Softmax shared[2][ROW_WARPS];
    int n = j.width / PACK<T>, turn = 0;
    T *row = j.logits + (int64_t)blockIdx.x * j.width;
    Stage<T> stage = { reinterpret_cast<Pack<T> *>(memory), row, n,
                       (n + 4 * ROW_BLOCK - 1) / (4 * ROW_BLOCK) * ROW_BLOCK };
    float scale = TRAIN ? j.info->loss_scale : 0;

    fetch_quarter<0>(stage);
    fetch_quarter<1>(stage);
    fetch_quarter<2>(stage);
    fetch_quarter<3>(stage);
    for (int64_t r = blockIdx.x; r < j.rows; r += gridDim.x, row = j.logits + r * j.width, turn ^= 1) {
        int target = j.targets[r];
        bool counts = is_class(j, target);
        float logit = counts && threadIdx.x == 0 ? to_float(row[target]) : 0; /* before it is written over */
        Softmax s = { -INFINITY, 0 };
        stage.next = r + gridDim.x < j.rows ? row + (int64_t)gridDim.x * j.width : NULL;
        take_quarter<0, TRAIN>(s, stage, j.vocab);
        take_quarter<1, TRAIN>(s, stage, j.vocab);
        take_quarter<2, TRAIN>(s, stage, j.vocab);
        take_quarter<3, TRAIN>(s, stage, j.vocab);
        s = block_softmax(s, shared[turn]);
        if (threadIdx.x == 0) j.losses[r] = counts ? loss_of(s, logit) : 0;
        if constexpr (TRAIN) {
            Slope g = { s, scale, scale / s.sum, target, j.vocab };
            write_quarter<0>(row, stage, g, counts);
            write_quarter<1>(row, stage, g, counts);
            write_quarter<2>(row, stage, g, counts);
            write_quarter<3>(row, stage, g, counts);
        }
    }
}

/* ---- Launching ---------------------------------------------------------------------------- */

/* True: launched. False: a row is no packs, or longer than shared memory. */
template <typename T, bool TRAIN> static bool launch_resident(const KernelCall *c, const Classes<T> &j)
{
    constexpr int ROWS_EACH = 4; /* for a block at least: its fetches go on while it works */
    size_t bytes = (size_t)j.width * sizeof(T);

    if (!in_packs<T>(j.width)) return false;
    unsigned most = resident_blocks(c, by_resident_rows<T, TRAIN>, ROW_BLOCK, bytes);
    unsigned wanted = blocks_for(j.rows, ROWS_EACH), blocks = wanted < most ? wanted : most;
    if (!most) return false;
    by_resident_rows<T, TRAIN><<<blocks, ROW_BLOCK, bytes, cuda_stream(c)>>>(j);
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

    if (launch_resident<T, TRAIN>(c, j)) return;
    if (in_packs<T>(j.width))
        by_rows<T, PACK<T>, TRAIN><<<rows, ROW_BLOCK, 0, cuda_stream(c)>>>(j);
    else
        by_rows<T, 1, TRAIN><<<rows, ROW_BLOCK, 0, cuda_stream(c)>>>(j);
}

#endif
