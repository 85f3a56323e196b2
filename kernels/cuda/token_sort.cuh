/* token_sort.cuh - positions of tokens in the order of their token, equal tokens in order of position.
 *
 * A stable radix sort by digits of at most 9 bits: a first kernel counts the first digits of each block
 * of positions, and one kernel a digit sums the counts before its own to places, moves, and counts the
 * next digits where it moves to. Only integers, so the result is the one there is. A token outside the
 * vocabulary sorts behind all others, as token `vocab`.
 *
 * These kernels wait for memory and use a few multiprocessors; the blocks behind theirs do other work
 * that the caller has. */
#ifndef TIDE_CUDA_TOKEN_SORT_CUH
#define TIDE_CUDA_TOKEN_SORT_CUH
#include "kernels/cuda/cuda_common.cuh"

constexpr int SORT_BLOCK = 1024, SORT_WARPS = SORT_BLOCK / WARP, MOST_BITS = 9, MOST_DIGITS = 1 << MOST_BITS;

/* One pass. order_in NULL: the first, whose keys are the tokens in order. */
struct SortPass {
    uint32_t *keys, *order;             /* [n]                                                */
    uint32_t *counts, *next_counts;     /* [blocks, digits], for this pass and the next or NULL */
    const uint32_t *keys_in, *order_in; /* [n]                                                */
    int64_t n;
    uint32_t vocab;
    int shift, bits, blocks, passes;
};

static __device__ __forceinline__ uint32_t sort_key(const SortPass &p, int64_t i)
{
    uint32_t key = p.keys_in[i];

    return key < p.vocab ? key : p.vocab; /* a negative token is a large key */
}

static __device__ __forceinline__ int sort_digit(const SortPass &p, uint32_t key, int shift)
{
    return (int)(key >> shift) & ((1 << p.bits) - 1);
}

/* Counts the first digits of a block, and clears its part of what later passes count in. */
static __device__ void count_digits(const SortPass &p)
{
    __shared__ unsigned count[MOST_DIGITS];
    int64_t i = (int64_t)blockIdx.x * SORT_BLOCK + threadIdx.x;
    int digits = 1 << p.bits;

    if (threadIdx.x < digits) count[threadIdx.x] = 0;
    __syncthreads();
    if (i < p.n) atomicAdd(&count[sort_digit(p, sort_key(p, i), 0)], 1u);
    __syncthreads();
    if (threadIdx.x >= digits) return;
    for (int pass = 0; pass < p.passes; pass++)
        p.counts[((int64_t)pass * p.blocks + blockIdx.x) * digits + threadIdx.x] =
            pass ? 0 : count[threadIdx.x];
}

/* What stands before x in the order of threads; all SORT_BLOCK of them call. */
static __device__ __forceinline__ uint32_t sum_before(uint32_t x, uint32_t *shared)
{
    int lane = threadIdx.x % WARP;
    uint32_t sum = x;

#pragma unroll
    for (int d = 1; d < WARP; d *= 2) {
        uint32_t other = __shfl_up_sync(~0u, sum, d);
        if (lane >= d) sum += other;
    }
    if (lane == WARP - 1) shared[threadIdx.x / WARP] = sum;
    __syncthreads();
    for (int w = 0; w < (int)threadIdx.x / WARP; w++) sum += shared[w];
    return sum - x;
}

/* place [digits]: where this block's first position with that digit goes. Half the threads sum the
 * counts of the even blocks, half those of the odd ones. */
static __device__ void find_places(const SortPass &p, uint32_t *place)
{
    __shared__ uint32_t total[2][MOST_DIGITS], before[2][MOST_DIGITS], shared[SORT_WARPS];
    int digits = 1 << p.bits, digit = threadIdx.x % MOST_DIGITS, half = threadIdx.x / MOST_DIGITS;
    uint32_t all = 0, mine = 0;

    if (digit < digits) {
#pragma unroll 8
        for (int b = half; b < p.blocks; b += 2) {
            uint32_t count = p.counts[(int64_t)b * digits + digit];
            all += count;
            mine += b < (int)blockIdx.x ? count : 0;
        }
    }
    total[half][digit] = all;
    before[half][digit] = mine;
    __syncthreads();
    uint32_t sum = half ? 0 : total[0][digit] + total[1][digit], lower = sum_before(sum, shared);
    if (!half) place[digit] = lower + before[0][digit] + before[1][digit];
    __syncthreads();
}

/* Lanes of the warp that hold the same value, this one included. */
static __device__ __forceinline__ unsigned lanes_like(int value)
{
    return __match_any_sync(~0u, value);
}

static __device__ void move_block(const SortPass &p)
{
    __shared__ uint32_t place[MOST_DIGITS];
    __shared__ uint16_t before[SORT_WARPS][MOST_DIGITS]; /* equal digits in the warps before, in this block */
    int64_t i = (int64_t)blockIdx.x * SORT_BLOCK + threadIdx.x;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    bool valid = i < p.n;
    uint32_t key = valid ? sort_key(p, i) : 0, order = valid && p.order_in ? p.order_in[i] : (uint32_t)i;
    int digit = valid ? sort_digit(p, key, p.shift) : MOST_DIGITS;

    for (int k = lane; k < MOST_DIGITS; k += WARP) before[warp][k] = 0;
    __syncwarp();
    unsigned peers = lanes_like(digit);
    int rank = __popc(peers & ((1u << lane) - 1));
    if (valid && rank == 0) before[warp][digit] = (uint16_t)__popc(peers);
    find_places(p, place);
    if (threadIdx.x < MOST_DIGITS) {
        unsigned sum = 0;
        for (int w = 0; w < SORT_WARPS; w++) {
            unsigned count = before[w][threadIdx.x];
            before[w][threadIdx.x] = (uint16_t)sum;
            sum += count;
        }
    }
    __syncthreads();
    uint32_t to = valid ? place[digit] + before[warp][digit] + rank : 0;
    if (valid) p.keys[to] = key;
    if (valid) p.order[to] = order;
    if (!p.next_counts) return; /* the same for the whole block */
    int bin = valid ? (int)(to / SORT_BLOCK << p.bits) + sort_digit(p, key, p.shift + p.bits) : -1;
    peers = lanes_like(bin);
    if (valid && (peers & ((1u << lane) - 1)) == 0) atomicAdd(&p.next_counts[bin], (unsigned)__popc(peers));
}

/* Blocks behind those of the sort: work(block) for blocks from first_work on. */
template <typename W>
static __global__ void __launch_bounds__(SORT_BLOCK) sort_count(SortPass p, W work, int64_t first_work)
{
    if ((int)blockIdx.x < p.blocks)
        count_digits(p);
    else
        work(first_work + blockIdx.x - p.blocks);
}

template <typename W>
static __global__ void __launch_bounds__(SORT_BLOCK) sort_move(SortPass p, W work, int64_t first_work)
{
    if ((int)blockIdx.x < p.blocks)
        move_block(p);
    else
        work(first_work + blockIdx.x - p.blocks);
}

/* ---- Scratch and launching ------------------------------------------------------------ */

static inline int64_t sort_blocks(int64_t n)
{
    return (n + SORT_BLOCK - 1) / SORT_BLOCK;
}

/* How many passes keys up to vocab take, and the bits of each. */
static inline int sort_passes(int64_t vocab, int *bits)
{
    int all = 1, passes;

    while (vocab >> all) all++;
    passes = (all + MOST_BITS - 1) / MOST_BITS;
    *bits = (all + passes - 1) / passes;
    return passes;
}

/* Words of scratch for n tokens. */
static inline int64_t sort_words(int64_t n, int64_t vocab)
{
    int bits, passes = sort_passes(vocab, &bits);

    return 4 * n + (int64_t)passes * (sort_blocks(n) << bits);
}

struct Sorted {
    const uint32_t *keys, *order;
}; /* [n], inside the scratch */

/* Sorts, and has work(0) to work(n_work - 1) done by blocks of SORT_BLOCK beside it. */
template <typename W>
static Sorted sort_tokens(cudaStream_t s, const int32_t *tokens, int64_t n, int64_t vocab, uint32_t *scratch,
                          const W &work, int64_t n_work)
{
    SortPass p = {};
    int64_t blocks = sort_blocks(n), done = 0;

    p.passes = sort_passes(vocab, &p.bits);
    p.counts = scratch + 4 * n;
    p.keys_in = (const uint32_t *)tokens;
    p.n = n;
    p.vocab = (uint32_t)vocab;
    p.blocks = (int)blocks;
    for (int launch = 0; launch <= p.passes; launch++) {
        int64_t share = (n_work - done) / (p.passes + 1 - launch);
        unsigned all = (unsigned)(blocks + share);
        if (launch == 0) {
            sort_count<<<all, SORT_BLOCK, 0, s>>>(p, work, done);
        } else {
            p.keys = scratch + (launch - 1) % 2 * 2 * n;
            p.order = p.keys + n;
            p.next_counts = launch < p.passes ? p.counts + (blocks << p.bits) : NULL;
            sort_move<<<all, SORT_BLOCK, 0, s>>>(p, work, done);
            p.keys_in = p.keys;
            p.order_in = p.order;
            p.counts = p.next_counts;
            p.shift += p.bits;
        }
        done += share;
    }
    return { p.keys_in, p.order_in };
}

#endif
