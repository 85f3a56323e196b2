/* philox.h - counter-based random words: Philox4x32-10 (Salmon et al. 2011).
 *
 * A word depends on (seed, site, step, micro-step, element) alone, so dropout replays exactly,
 * in any order, on any number of threads. Four consecutive elements share one counter block. */
#ifndef TIDE_PHILOX_H
#define TIDE_PHILOX_H
#include "kernels/ops.h"

/* What the words of one dropout site in one micro-step have in common. */
typedef struct Philox {
    uint32_t key[2];
    uint32_t site, step, micro;
} Philox;

static inline Philox philox_of(const TideStepInfo *info, int site)
{
    return (Philox){ { (uint32_t)info->seed, (uint32_t)(info->seed >> 32) },
                     (uint32_t)site,
                     (uint32_t)info->step,
                     (uint32_t)info->micro };
}

enum { PHILOX_LANES = 16, PHILOX_WORDS = 4 * PHILOX_LANES };

/* The words of elements [4 * block, 4 * block + PHILOX_WORDS). Counter: block number, low and high
 * (below 2^48; the high half of the second word counts micro-steps), site, step. */
static inline void philox_blocks(const Philox *p, uint64_t block, uint32_t *restrict out)
{
    uint32_t c[4][PHILOX_LANES], k0 = p->key[0], k1 = p->key[1];

#pragma omp simd
    for (int l = 0; l < PHILOX_LANES; l++) {
        c[0][l] = (uint32_t)(block + (uint64_t)l);
        c[1][l] = (uint32_t)((block + (uint64_t)l) >> 32) ^ (p->micro << 16);
        c[2][l] = p->site;
        c[3][l] = p->step;
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
#pragma omp simd
        for (int l = 0; l < PHILOX_LANES; l++) {
            uint32_t x = c[0][l], y = c[2][l];
            c[0][l] = (uint32_t)(((uint64_t)y * 0xCD9E8D57u) >> 32) ^ c[1][l] ^ k0;
            c[1][l] = y * 0xCD9E8D57u;
            c[2][l] = (uint32_t)(((uint64_t)x * 0xD2511F53u) >> 32) ^ c[3][l] ^ k1;
            c[3][l] = x * 0xD2511F53u;
        }
    }
#pragma omp simd
    for (int l = 0; l < PHILOX_LANES; l++)
        for (int w = 0; w < 4; w++) out[4 * l + w] = c[w][l];
}

/* The words of elements [first, first + n). */
static inline void philox_words(const Philox *p, uint64_t first, int64_t n, uint32_t *restrict out)
{
    uint32_t block[PHILOX_WORDS];

    for (int64_t done = 0; done < n;) {
        uint64_t element = first + (uint64_t)done;
        int64_t skip = (int64_t)(element % 4), take = PHILOX_WORDS - skip;
        philox_blocks(p, element / 4, block);
        if (take > n - done) take = n - done;
        for (int64_t i = 0; i < take; i++) out[done + i] = block[skip + i];
        done += take;
    }
}

/* An element survives dropout of probability p if its word is at least this. */
static inline uint32_t philox_threshold(float p)
{
    double t = (double)p * 4294967296.0;
    return t >= 4294967295.0 ? 4294967295u : (uint32_t)t;
}

#endif
