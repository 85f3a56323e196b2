/* dropout.cu - y = x * mask / (1 - p), the mask of the CPU kernel; y may be x.
 *
 * Random words cost about as much as the memory's traffic, so a thread makes many with one key
 * schedule while its packs are on their way. */
#include "kernels/cuda/flat.cuh"
#include "kernels/cuda/philox.cuh"

constexpr int EACH = 2; /* packs of a thread, BLOCK packs apart */

template <typename T> struct Job {
    T *y;
    const T *x; /* [n] */
    int64_t n;
    const TideStepInfo *info;
    int site;
    uint32_t least;
    float scale;
};

/* x of elements that lie 4 * low + 2^34 * high and following. */
template <int N>
__device__ __forceinline__ void drop(float (&x)[N], const Philox &p, uint32_t low, uint32_t high,
                                     uint32_t least, float scale)
{
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        uint4 word = philox_words(p, philox_keys(p), low + i / 4, high);
        x[i] = word.x >= least ? x[i] * scale : 0.0f;
        x[i + 1] = word.y >= least ? x[i + 1] * scale : 0.0f;
        x[i + 2] = word.z >= least ? x[i + 2] * scale : 0.0f;
        x[i + 3] = word.w >= least ? x[i + 3] * scale : 0.0f;
    }
}

/* A block's elements are 2048 or 4096 from a multiple of as many: they share the high part of the
 * number of their Philox block. */
template <bool WHOLE, typename T> __device__ __forceinline__ void drop_part(const Job<T> &j)
{
    constexpr int N = PACK<T>;
    int64_t start = (int64_t)blockIdx.x * (EACH * BLOCK * N), first = start + threadIdx.x * N;
    uint32_t high = (uint32_t)((uint64_t)start >> 34), low = (uint32_t)(start / 4) + threadIdx.x * (N / 4);
    Pack<T> x[EACH];

#pragma unroll
    for (int u = 0; u < EACH; u++) x[u] = flat_load<WHOLE>(j.x, first + u * BLOCK * N, j.n);
    Philox p = philox_of(j.info, j.site);
#pragma unroll
    for (int u = 0; u < EACH; u++) {
        float v[N];
        unpack(v, x[u]);
        drop(v, p, low + u * BLOCK * (N / 4), high, j.least, j.scale);
        flat_store<WHOLE>(j.y, first + u * BLOCK * N, j.n, packed<T>(v));
    }
}

template <typename T> static __global__ void __launch_bounds__(BLOCK, 4) dropout(Job<T> j)
{
    if (((int64_t)blockIdx.x + 1) * (EACH * BLOCK * PACK<T>) <= j.n)
        drop_part<true>(j);
    else
        drop_part<false>(j);
}

template <typename T> static void launch(const KernelCall *c)
{
    const DropoutAttr *a = (const DropoutAttr *)c->node->attr.bytes;
    int64_t n = shape_elements(c->out_info[0]->shape);
    Job<T> j = { (T *)c->out[0],     (const T *)c->in[0], n, (const TideStepInfo *)c->in[1], a->site,
                 philox_least(a->p), 1.0f / (1.0f - a->p) };

    dropout<<<blocks_for(n, EACH * BLOCK * PACK<T>), BLOCK, 0, cuda_stream(c)>>>(j);
}

static void (*const launch_of[])(const KernelCall *) = { launch<float>, launch<bf16>, launch<f16> };

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type](c);
    return cuda_launched(c);
}

const Kernel cuda_dropout = { .run = run };
