/* hash.c - pieces of fixed size are hashed by themselves, on as many threads as there are, and their
 * hashes are taken in, in their order. Within a piece eight chains of multiplications run side by side,
 * because one alone waits four cycles for each product. */
#include "runtime/io/hash.h"
#include <string.h>

enum { LANES = 8, STRIDE = LANES * sizeof(uint64_t), PIECE = 1 << 20, BATCH = 64 };

static const uint64_t odd = 0x9e3779b97f4a7c15u; /* 2^64 over the golden ratio */

/* For a fixed hash a one-to-one map of words, and the other way round. High bits go down before the product
 * carries bits up, so that a change of any one bit is never undone by a few bits of the next word. */
static uint64_t take(uint64_t hash, uint64_t word)
{
    hash ^= word;
    return (hash ^ hash >> 32) * odd;
}

/* The finalizer of MurmurHash3: every bit of the result depends on every bit of h. */
static uint64_t finish(uint64_t h)
{
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

static void take_stride(uint64_t lane[LANES], const unsigned char *from)
{
    uint64_t word[LANES];

    memcpy(word, from, STRIDE);
    for (int i = 0; i < LANES; i++) lane[i] = take(lane[i], word[i]);
}

/* The last stride is filled up with zeros; the length tells them from zeros that are there. */
static uint64_t hash_piece(const unsigned char *bytes, size_t n)
{
    uint64_t lane[LANES], hash = n;
    unsigned char tail[STRIDE] = { 0 };
    size_t at = 0;

    for (uint64_t i = 0; i < LANES; i++) lane[i] = i;
    for (; at + STRIDE <= n; at += STRIDE) take_stride(lane, bytes + at);
    if (at < n) {
        memcpy(tail, bytes + at, n - at);
        take_stride(lane, tail);
    }
    for (int i = 0; i < LANES; i++) hash = take(hash, lane[i]);
    return finish(hash);
}

uint64_t hash_more(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *from = bytes;
    size_t pieces = (n + PIECE - 1) / PIECE;
    uint64_t of[BATCH];

    for (size_t first = 0; first < pieces; first += BATCH) {
        int here = (int)(pieces - first < BATCH ? pieces - first : BATCH);
#pragma omp parallel for
        for (int i = 0; i < here; i++) {
            size_t at = (first + (size_t)i) * PIECE;
            of[i] = hash_piece(from + at, n - at < PIECE ? n - at : PIECE);
        }
        for (int i = 0; i < here; i++) hash = finish(take(hash, of[i]));
    }
    return hash;
}
