/* random.h - numbers that depend on what they are for and on nothing else.
 *
 * Philox4x32-10 (Salmon et al. 2011) is a function from a key and a counter to 128 bits, so a
 * starting weight or the offset of a window can be had in any order, by any thread, again. */
#ifndef TIDE_RANDOM_H
#define TIDE_RANDOM_H
#include <stdint.h>

/* Four random words of key and counter. Cannot fail. */
void     random_words(uint64_t key, const uint32_t counter[4], uint32_t out[4]);
/* A number below n > 0, every one equally likely to within n / 2^64. */
uint64_t random_below(uint64_t key, const uint32_t counter[4], uint64_t n);
/* Write values first .. first + n - 1 of the endless sequence of normal numbers of mean 0 and that
 * deviation that belongs to key; first is a multiple of 4. On all threads; any number gives equal bits. */
void     random_normal(uint64_t key, uint64_t first, int64_t n, float deviation, float *out);
/* A key for what is called name under a seed (FNV-1a, then mixed). */
uint64_t random_key(uint64_t seed, const char *name);

#endif
