/* dropout.cu - y = x * mask / (1 - p), the mask of the CPU kernel; y may be x.
 *
 * Random words cost about as much as the memory's traffic, so a thread makes them while its packs are on
 * their way to shared memory: registers that waited for packs would be missing for other warps. */
#include "kernels/cuda/flat.cuh"
#include "kernels/cuda/philox.cuh"

constexpr int EACH = 4; /* packs of a thread, BLOCK packs apart */

template <typename T> struct Job {
    T *y;
    const T *x; /* [n] */
    int64_t n;
    const TideStepInfo *info;
    int site;
    uint32_t least;
    float scale;
};

/* Which of N elements stay, a bit each; they lie 4 * low + 2^34 * high and following. */
template <int N>
__device__ __forceinline__ unsigned survivors(const Philox &p, const PhiloxKeys &keys, uint32_t low,
                                              uint32_t high, uint32_t least)
{
    unsigned mask = 0;

#pragma unroll
    for (int i = 0; i < N; i += 4) {
        uint4 word = philox_words(p, keys, low + i / 4, high);
        mask |= (unsigned)(word.x >= least) << i | (unsigned)(word.y >= least) << (i + 1) |
                (unsigned)(word.z >= least) << (i + 2) | (unsigned)(word.w >= least) << (i + 3);
    }
    return mask;
}

template <typename T, int N>
__device__ __forceinline__ Pack<T, N> dropped(Pack<T, N> x, unsigned mask, float scale)
{
    float v[N];

    unpack(v, x);
#pragma unroll
    for (int k = 0; k < N; k++) v[k] = mask >> k & 1 ? v[k] * scale : 0.0f;
    return packed<T>(v);
}

/* A block's elements are 4096 or 8192 from a multiple of as many: they share the high part of the
 * number of their Philox block. */
template <typename T> static __global__ void __launch_bounds__(BLOCK, 4) dropout(Job<T> j)
{
    __shared__ Pack<T> stage[EACH][BLOCK];
    constexpr int N = PACK<T>;
    int64_t start = (int64_t)blockIdx.x * (EACH * BLOCK * N), first = start + threadIdx.x * N;
    uint32_t high = (uint32_t)((uint64_t)start >> 34), low = (uint32_t)(start / 4) + threadIdx.x * (N / 4);

#pragma unroll
    for (int u = 0; u < EACH; u++)
        if (first + u * BLOCK * N + N <= j.n)
            async_copy16(&stage[u][threadIdx.x], j.x + first + u * BLOCK * N);
    async_commit();
    Philox p = philox_of(j.info, j.site);
    PhiloxKeys keys = philox_kept_keys(p);
#pragma unroll 1
    for (int u = 0; u < EACH; u++) {
        int64_t at = first + u * BLOCK * N;
        unsigned mask = survivors<N>(p, keys, low + u * BLOCK * (N / 4), high, j.least);
        asm volatile("" : "+r"(mask)::"memory"); /* first the words, then the packs */
        async_wait<0>();
        if (at + N <= j.n)
            store(j.y + at, dropped(stage[u][threadIdx.x], mask, j.scale));
        else if (at < j.n)
            flat_store<false>(j.y, at, j.n, dropped(flat_load<false>(j.x, at, j.n), mask, j.scale));
    }
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
