/* hash.h - a fingerprint of many bytes, as fast as memory gives them. */
#ifndef TIDE_HASH_H
#define TIDE_HASH_H
#include <stddef.h>
#include <stdint.h>

/* Go on from a hash (0: a new one) with n more bytes. A function of the bytes, where they are cut into
 * calls, and nothing else: any number of threads gives the same (words are read as a little-endian machine
 * has them). Finds accidents, not attacks. */
uint64_t hash_more(uint64_t hash, const void *bytes, size_t n);

#endif
