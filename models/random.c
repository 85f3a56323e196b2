/* random.c - Philox4x32-10 on the host. Its constants are the paper's. */
#include "models/random.h"
#include <math.h>

static void round_once(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t c0 = (uint32_t)(b >> 32) ^ c[1] ^ k0, c2 = (uint32_t)(a >> 32) ^ c[3] ^ k1;

    c[0] = c0;
    c[1] = (uint32_t)b;
    c[2] = c2;
    c[3] = (uint32_t)a;
}

/* Two normal numbers of two words (Box and Muller). The first uniform is above 0, so that
 * its logarithm is finite. Double inside, so that the float is the same with any libm. */
static void normal_pair(uint32_t a, uint32_t b, float *out)
{
    double radius = sqrt(-2.0 * log(((double)a + 0.5) * 0x1p-32));
    double angle = 6.283185307179586476925 * (double)b * 0x1p-32;

    out[0] = (float)(radius * cos(angle));
    out[1] = (float)(radius * sin(angle));
}

void random_words(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int i = 0; i < 4; i++) out[i] = counter[i];
    for (int i = 0; i < 10; i++) {
        round_once(out, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

uint64_t random_below(uint64_t key, const uint32_t counter[4], uint64_t n)
{
    uint32_t w[4];

    /* The remainder of 64 bits favours small results by n / 2^64: nothing for any text. */
    random_words(key, counter, w);
    return ((uint64_t)w[1] << 32 | w[0]) % n;
}

void random_normal(uint64_t key, uint64_t first, int64_t n, float deviation, float *out)
{
#pragma omp parallel for
    for (int64_t i = 0; i < n; i += 4) {
        uint64_t block = (first + (uint64_t)i) / 4;
        uint32_t w[4];
        float four[4];

        random_words(key, (uint32_t[4]){ (uint32_t)block, (uint32_t)(block >> 32), 0, 0 }, w);
        normal_pair(w[0], w[1], four);
        normal_pair(w[2], w[3], four + 2);
        for (int64_t j = 0; j < 4 && i + j < n; j++) out[i + j] = deviation * four[j];
    }
}

uint64_t random_key(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u ^ seed;

    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    /* FNV leaves neighbouring seeds close together; the finalizer of MurmurHash3 parts them. */
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}
