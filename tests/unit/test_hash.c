/* test_hash.c - the hash sees every bit, the length, and the order. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include "runtime/io/hash.h"

Test(hash, sees_every_bit_of_a_few_words)
{
    enum { N = 200 };
    unsigned char bytes[N] = { 0 };
    static uint64_t seen[8 * N + 1];
    size_t n = 0;

    seen[n++] = hash_more(0, bytes, N);
    for (size_t bit = 0; bit < 8 * (size_t)N; bit++) {
        bytes[bit / 8] = (unsigned char)(1u << bit % 8);
        seen[n++] = hash_more(0, bytes, N);
        bytes[bit / 8] = 0;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) cr_expect_neq(seen[i], seen[j], "%zu and %zu", i, j);
}

Test(hash, tells_lengths_of_zeros_apart)
{
    unsigned char zeros[300] = { 0 };

    for (size_t n = 1; n <= sizeof zeros; n++)
        cr_expect_neq(hash_more(0, zeros, n), hash_more(0, zeros, n - 1), "%zu", n);
}

/* Many pieces, more than one batch of them. */
Test(hash, sees_the_order_of_pieces_and_a_bit_anywhere)
{
    enum { PIECE = 1 << 20, N = 70 * PIECE + 13 };
    unsigned char *bytes = malloc(N);

    cr_assert(bytes);
    for (size_t i = 0; i < N; i++) bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    uint64_t plain = hash_more(7, bytes, N);
    cr_expect_eq(hash_more(7, bytes, N), plain, "the same bytes, the same hash");
    cr_expect_neq(hash_more(8, bytes, N), plain, "another start");
    for (size_t at = 0; at < N; at += 3 * PIECE + 1001) {
        bytes[at] ^= 4;
        cr_expect_neq(hash_more(7, bytes, N), plain, "byte %zu", at);
        bytes[at] ^= 4;
    }
    for (size_t i = 0; i < PIECE; i++) {
        unsigned char keep = bytes[i];
        bytes[i] = bytes[i + PIECE];
        bytes[i + PIECE] = keep;
    }
    cr_expect_neq(hash_more(7, bytes, N), plain, "two pieces changed places");
    free(bytes);
}
