/* cross_entropy.cuh - one block a row of logits: largest logit and sum of exponentials in one pass,
 * then, for the gradient, a second pass over a row that the cache still holds. */
#ifndef TIDE_CUDA_CROSS_ENTROPY_CUH
#define TIDE_CUDA_CROSS_ENTROPY_CUH
#include "kernels/cuda/cuda_common.cuh"

/* Four blocks of this size on a multiprocessor overlap one row's passes with another's. */
constexpr int ROW_BLOCK = 512;

template <typename T> struct Classes {
    T *logits;                /* [rows, width]; their gradient when train */
    float *losses;            /* [rows]                                   */
    const int32_t *targets;   /* [rows]                                   */
    const TideStepInfo *info; /* NULL without train                       */
    int width, vocab, ignore;
};

/* The sum of exp(x - max), with its max: the softmax of what a thread, a warp, a block has seen. */
struct Softmax {
    float max, sum;
};

static __device__ __forceinline__ Softmax merged(Softmax a, Softmax b)
{
    float max = fmaxf(a.max, b.max);

    if (max == -INFINITY) return a; /* both are empty, and -inf less -inf is no number */
    return { max, a.sum * __expf(a.max - max) + b.sum * __expf(b.max - max) };
}

/* The result of the whole block for all its threads. merged() commutes, so lanes agree on bits. */
static __device__ __forceinline__ Softmax block_softmax(Softmax s)
{
    __shared__ Softmax shared[ROW_BLOCK / WARP];

#pragma unroll
    for (int m = WARP / 2; m > 0; m /= 2)
        s = merged(s, { __shfl_xor_sync(~0u, s.max, m), __shfl_xor_sync(~0u, s.sum, m) });
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = s;
    __syncthreads();
    s = shared[0];
#pragma unroll
    for (int w = 1; w < ROW_BLOCK / WARP; w++) s = merged(s, shared[w]);
    return s;
}

/* This thread's share of a row. Padding beyond vocab does not count. */
template <int N, typename T> __device__ __forceinline__ Softmax thread_softmax(const T *row, int vocab)
{
    Softmax s = { -INFINITY, 0 };

#pragma unroll 2
    for (int i = threadIdx.x * N; i < vocab; i += ROW_BLOCK * N) {
        float x[N], max = s.max;
        load_floats(x, row + i);
        if (i + N > vocab) { /* apart, so that the other packs do without comparisons */
#pragma unroll
            for (int k = 0; k < N; k++) x[k] = i + k < vocab ? x[k] : -INFINITY;
        }
#pragma unroll
        for (int k = 0; k < N; k++) max = fmaxf(max, x[k]);
        if (max == -INFINITY) continue;
        s.sum *= __expf(s.max - max);
        s.max = max;
#pragma unroll
        for (int k = 0; k < N; k++) s.sum += __expf(x[k] - max);
    }
    return s;
}

/* (softmax - onehot) * scale, 0 in the padding. */
template <int N, typename T>
__device__ __forceinline__ void write_gradient(T *row, const Classes<T> &j, Softmax s, int target)
{
    float scale = j.info->loss_scale, rate = scale / s.sum;

#pragma unroll 2
    for (int i = threadIdx.x * N; i < j.width; i += ROW_BLOCK * N) {
        float x[N];
        load_floats(x, row + i);
        bool special = i + N > j.vocab || (i <= target && target < i + N);
#pragma unroll
        for (int k = 0; k < N; k++) x[k] = __expf(x[k] - s.max);
        if (special) {
#pragma unroll
            for (int k = 0; k < N; k++)
                x[k] = i + k >= j.vocab  ? 0.0f
                       : i + k == target ? (x[k] / s.sum - 1.0f) * scale
                                         : x[k] * rate;
        } else {
#pragma unroll
            for (int k = 0; k < N; k++) x[k] *= rate;
        }
        store_floats(row + i, x);
    }
}

template <int N, typename T> __device__ __forceinline__ void write_zeros(T *row, int width)
{
    float zero[N] = {};

    for (int i = threadIdx.x * N; i < width; i += ROW_BLOCK * N) store_floats(row + i, zero);
}

template <typename T, int N, bool TRAIN>
static __global__ void __launch_bounds__(ROW_BLOCK, 3) cross_entropy(Classes<T> j)
{
    T *row = j.logits + (int64_t)blockIdx.x * j.width;
    int target = j.targets[blockIdx.x];

    if (target == j.ignore || target < 0 || target >= j.vocab) { /* the same for the whole block */
        if (threadIdx.x == 0) j.losses[blockIdx.x] = 0;
        if constexpr (TRAIN) write_zeros<N>(row, j.width);
        return;
    }
    Softmax s = block_softmax(thread_softmax<N>(row, j.vocab));
    if (threadIdx.x == 0) j.losses[blockIdx.x] = logf(s.sum) + (s.max - to_float(row[target]));
    if constexpr (TRAIN) {
        __syncthreads(); /* the target's logit has been read */
        write_gradient<N>(row, j, s, target);
    }
}

template <typename T, bool TRAIN> static void cross_entropy_launch(const KernelCall *c)
{
    const TideClasses *a = (const TideClasses *)c->node->attr.bytes;
    TideShape shape = c->in_info[0]->shape;
    Classes<T> j = { (T *)c->in[0],
                     (float *)c->out[0] + a->first,
                     (const int32_t *)c->in[1] + a->first,
                     TRAIN ? (const TideStepInfo *)c->in[3] : NULL,
                     (int)shape_width(shape),
                     a->vocab,
                     a->ignore };
    unsigned rows = (unsigned)shape_rows(shape);

    if (in_packs<T>(j.width))
        cross_entropy<T, PACK<T>, TRAIN><<<rows, ROW_BLOCK, 0, cuda_stream(c)>>>(j);
    else
        cross_entropy<T, 1, TRAIN><<<rows, ROW_BLOCK, 0, cuda_stream(c)>>>(j);
}

#endif
