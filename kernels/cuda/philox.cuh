/* philox.cuh - the random words of kernels/cpu/philox.h on the device: the same seed, site, step,
 * micro-step and element give the same word. */
#ifndef TIDE_CUDA_PHILOX_CUH
#define TIDE_CUDA_PHILOX_CUH
#include "kernels/ops.h"

/* What the words of one site in one micro-step have in common. */
struct Philox {
    uint32_t key0, key1, site, step, micro;
};

/* Reads device memory: for kernels. */
static __device__ __forceinline__ Philox philox_of(const TideStepInfo *info, int site)
{
    return { (uint32_t)info->seed, (uint32_t)(info->seed >> 32), (uint32_t)site, (uint32_t)info->step,
             (uint32_t)info->micro };
}

/* The keys of the rounds, one after the other. */
constexpr int PHILOX_ROUNDS = 10;
struct PhiloxKeys {
    uint32_t first[PHILOX_ROUNDS], second[PHILOX_ROUNDS];
};

static __device__ __forceinline__ PhiloxKeys philox_keys(const Philox &p)
{
    PhiloxKeys keys;

#pragma unroll
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        keys.first[round] = p.key0 + (uint32_t)round * 0x9E3779B9u;
        keys.second[round] = p.key1 + (uint32_t)round * 0xBB67AE85u;
    }
    return keys;
}

/* The same in registers of the thread, where many blocks are made: else they are made again for each. */
static __device__ __forceinline__ PhiloxKeys philox_kept_keys(const Philox &p)
{
    PhiloxKeys keys = philox_keys(p);

#pragma unroll
    for (int round = 0; round < PHILOX_ROUNDS; round++)
        asm volatile("" : "+r"(keys.first[round]), "+r"(keys.second[round]));
    return keys;
}

/* The words of block low + 2^32 * high, high below 2^16. Blocks that share high share the products of
 * the first rounds that do not depend on low. */
static __device__ __forceinline__ uint4 philox_words(const Philox &p, const PhiloxKeys &keys, uint32_t low,
                                                     uint32_t high)
{
    uint32_t c0 = low, c1 = high ^ (p.micro << 16), c2 = p.site, c3 = p.step;

#pragma unroll
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t a = (uint64_t)c0 * 0xD2511F53u, b = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ keys.first[round];
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ keys.second[round];
        c3 = (uint32_t)a;
    }
    return make_uint4(c0, c1, c2, c3);
}

/* The words of elements 4 * block to 4 * block + 3, block below 2^48. */
static __device__ __forceinline__ uint4 philox_block(const Philox &p, uint64_t block)
{
    return philox_words(p, philox_keys(p), (uint32_t)block, (uint32_t)(block >> 32));
}

/* An element survives dropout of probability p if its word is at least this. */
static inline uint32_t philox_least(float p)
{
    double t = (double)p * 4294967296.0;

    return t >= 4294967295.0 ? 4294967295u : (uint32_t)t;
}

#endif
