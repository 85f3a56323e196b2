/* token_sort.cuh - positions of tokens in the order of their token, equal tokens in order of position.
 *
 * A stable radix sort by digits of 9 bits: every pass counts the digits of each block of positions,
 * sums the counts to places, and moves. Only integers, so the result is the one there is. A token
 * outside the vocabulary sorts behind all others, as token `vocab`. */
#ifndef TIDE_CUDA_TOKEN_SORT_CUH
#define TIDE_CUDA_TOKEN_SORT_CUH
#include "kernels/cuda/cuda_common.cuh"

constexpr int SORT_BLOCK = 1024, SORT_WARPS = SORT_BLOCK / WARP, DIGIT_BITS = 9, DIGITS = 1 << DIGIT_BITS;

/* One pass. order_in NULL: the first, whose keys are the tokens in order. */
struct SortPass {
    uint32_t *keys, *order;             /* [n]                               */
    uint32_t *counts;                   /* [DIGITS, blocks]; then: places    */
    const uint32_t *keys_in, *order_in; /* [n]                               */
    int64_t n;
    uint32_t vocab;
    int shift, blocks;
};

static __device__ __forceinline__ uint32_t sort_key(const SortPass &p, int64_t i)
{
    uint32_t key = p.keys_in[i];

    return key < p.vocab ? key : p.vocab; /* a negative token is a large key */
}

static __device__ __forceinline__ int sort_digit(const SortPass &p, uint32_t key)
{
    return (int)(key >> p.shift) & (DIGITS - 1);
}

static __global__ void __launch_bounds__(SORT_BLOCK) sort_count(SortPass p)
{
    __shared__ unsigned count[DIGITS];
    int64_t i = (int64_t)blockIdx.x * SORT_BLOCK + threadIdx.x;

    if (threadIdx.x < DIGITS) count[threadIdx.x] = 0;
    __syncthreads();
    if (i < p.n) atomicAdd(&count[sort_digit(p, sort_key(p, i))], 1u);
    __syncthreads();
    if (threadIdx.x < DIGITS) p.counts[threadIdx.x * p.blocks + blockIdx.x] = count[threadIdx.x];
}

/* Each count becomes the sum of those before it. One block; a thread owns neighbours. */
static __global__ void __launch_bounds__(SORT_BLOCK) sort_places(uint32_t *counts, int n)
{
    __shared__ uint32_t warp_total[SORT_WARPS];
    int each = (n + SORT_BLOCK - 1) / SORT_BLOCK, first = threadIdx.x * each, lane = threadIdx.x % WARP;
    int last = first + each < n ? first + each : n;
    uint32_t own = 0, before, total;

#pragma unroll 4
    for (int i = first; i < last; i++) own += counts[i];
    before = own;
    for (int d = 1; d < WARP; d *= 2) {
        uint32_t other = __shfl_up_sync(~0u, before, d);
        if (lane >= d) before += other;
    }
    if (lane == WARP - 1) warp_total[threadIdx.x / WARP] = before;
    __syncthreads();
    before -= own;
    for (int w = 0; w < (int)threadIdx.x / WARP; w++) before += warp_total[w];
    for (int i = first; i < last; i++) {
        total = counts[i];
        counts[i] = before;
        before += total;
    }
}

static __global__ void __launch_bounds__(SORT_BLOCK) sort_move(SortPass p)
{
    __shared__ uint16_t before[SORT_WARPS][DIGITS]; /* equal digits in the warps before, in this block */
    int64_t i = (int64_t)blockIdx.x * SORT_BLOCK + threadIdx.x;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    bool valid = i < p.n;
    uint32_t key = valid ? sort_key(p, i) : 0;
    int digit = valid ? sort_digit(p, key) : DIGITS;

    for (int k = lane; k < DIGITS; k += WARP) before[warp][k] = 0;
    __syncwarp();
    unsigned peers = __match_any_sync(~0u, digit);
    int rank = __popc(peers & ((1u << lane) - 1));
    if (valid && rank == 0) before[warp][digit] = (uint16_t)__popc(peers);
    __syncthreads();
    if (threadIdx.x < DIGITS) {
        unsigned sum = 0;
        for (int w = 0; w < SORT_WARPS; w++) {
            unsigned count = before[w][threadIdx.x];
            before[w][threadIdx.x] = (uint16_t)sum;
            sum += count;
        }
    }
    __syncthreads();
    if (!valid) return;
    uint32_t to = p.counts[digit * p.blocks + blockIdx.x] + before[warp][digit] + rank;
    p.keys[to] = key;
    p.order[to] = p.order_in ? p.order_in[i] : (uint32_t)i;
}

/* ---- Scratch and launching ------------------------------------------------------------ */

static inline int64_t sort_blocks(int64_t n)
{
    return (n + SORT_BLOCK - 1) / SORT_BLOCK;
}

/* Words of scratch for n tokens. */
static inline int64_t sort_words(int64_t n)
{
    return 4 * n + DIGITS * sort_blocks(n);
}

struct Sorted {
    const uint32_t *keys, *order;
}; /* [n], inside the scratch */

static Sorted sort_tokens(cudaStream_t s, const int32_t *tokens, int64_t n, int64_t vocab, uint32_t *scratch)
{
    SortPass p = {};
    unsigned blocks = (unsigned)sort_blocks(n);
    int side = 0;

    p.counts = scratch + 4 * n;
    p.keys_in = (const uint32_t *)tokens;
    p.n = n;
    p.vocab = (uint32_t)vocab;
    p.blocks = (int)blocks;
    do {
        p.keys = scratch + side * 2 * n;
        p.order = p.keys + n;
        sort_count<<<blocks, SORT_BLOCK, 0, s>>>(p);
        sort_places<<<1, SORT_BLOCK, 0, s>>>(p.counts, DIGITS * p.blocks);
        sort_move<<<blocks, SORT_BLOCK, 0, s>>>(p);
        p.keys_in = p.keys;
        p.order_in = p.order;
        p.shift += DIGIT_BITS;
        side = !side;
    } while (vocab >> p.shift);
    return { p.keys_in, p.order_in };
}

#endif
