/* tokens.c - windows and samples of tokens, and their order. */
#include "models/random.h"
#include "models/text/tokens.h"
#include "runtime/base.h"

int32_t token_at(Tokens s, int64_t i)
{
    switch (s.bytes) {
    case 1: return ((const uint8_t *)s.at)[i];
    case 2: return ((const uint16_t *)s.at)[i];
    default: return (int32_t)((const uint32_t *)s.at)[i];
    }
}

int64_t part_tokens(Part p)
{
    int64_t n = 0;

    for (int i = 0; i < p.n; i++) n += p.shards[i].n;
    return n;
}

void tokens_window(Tokens s, int64_t start, int64_t seq, int32_t *tokens, int32_t *targets)
{
    assert(start >= 0 && start + seq < s.n);
    for (int64_t i = 0; i < seq; i++) tokens[i] = token_at(s, start + i);
    for (int64_t i = 0; i < seq; i++) targets[i] = token_at(s, start + i + 1);
}

void tokens_features(Tokens s, int64_t start, int64_t width, float *x, int32_t *target)
{
    assert(start >= 0 && start + width < s.n);
    for (int64_t i = 0; i < width; i++) x[i] = (float)token_at(s, start + i) / 128 - 1;
    *target = token_at(s, start + width);
}

/* ---- Windows -------------------------------------------------------------- */

static int64_t windows_of(Tokens s, int64_t length)
{
    return s.n < length ? 0 : s.n - length + 1;
}

int64_t part_windows(Part p, int64_t length)
{
    int64_t n = 0;

    for (int i = 0; i < p.n; i++) n += windows_of(p.shards[i], length);
    return n;
}

Place part_window(Part p, int64_t length, int64_t i)
{
    int shard = 0;

    assert(i >= 0 && i < part_windows(p, length));
    while (i >= windows_of(p.shards[shard], length)) i -= windows_of(p.shards[shard++], length);
    return (Place){ p.shards[shard], i };
}

Place part_random(Part p, int64_t length, uint64_t seed, int64_t step, int64_t row)
{
    const uint32_t counter[4] = { (uint32_t)row, (uint32_t)((uint64_t)row >> 32), (uint32_t)step,
                                  (uint32_t)((uint64_t)step >> 32) };
    uint64_t n = (uint64_t)part_windows(p, length);

    return part_window(p, length, (int64_t)random_below(random_key(seed, "windows"), counter, n));
}

Place part_even(Part p, int64_t length, int64_t i, int64_t count)
{
    int64_t last = part_windows(p, length) - 1;

    assert(i < count);
    return part_window(p, length, count > 1 ? (int64_t)((double)last * (double)i / (double)(count - 1)) : 0);
}

/* ---- Samples -------------------------------------------------------------- */

static int64_t samples_of(Tokens s, int64_t length)
{
    return s.n < 1 ? 0 : (s.n - 1) / length;
}

int64_t part_samples(Part p, int64_t length)
{
    int64_t n = 0;

    for (int i = 0; i < p.n; i++) n += samples_of(p.shards[i], length);
    return n;
}

Place part_sample(Part p, int64_t length, uint64_t seed, int64_t epoch, int64_t i)
{
    int64_t k = shuffled(random_key(seed, "samples"), epoch, i, part_samples(p, length));
    int shard = 0;

    while (k >= samples_of(p.shards[shard], length)) k -= samples_of(p.shards[shard++], length);
    return (Place){ p.shards[shard], k * length };
}

/* One pass of the network over numbers of 2 * half bits: four rounds, each of which adds to one half what
 * Philox makes of the other. Can be undone, so it is a permutation. */
static uint64_t feistel(uint64_t key, int64_t round, uint64_t x, int half)
{
    uint64_t mask = ((uint64_t)1 << half) - 1, left = x >> half, right = x & mask;

    for (uint32_t i = 0; i < 4; i++) {
        uint32_t w[4],
            counter[4] = { (uint32_t)right, i, (uint32_t)round, (uint32_t)((uint64_t)round >> 32) };
        random_words(key, counter, w);
        uint64_t mixed = left ^ (w[0] & mask);
        left = right;
        right = mixed;
    }
    return left << half | right;
}

int64_t shuffled(uint64_t key, int64_t round, int64_t i, int64_t n)
{
    int half = 1;
    uint64_t x = (uint64_t)i;

    assert(i >= 0 && i < n && n < (int64_t)1 << 62);
    while ((uint64_t)n > (uint64_t)1 << 2 * half) half++;
    do x = feistel(key, round, x, half);
    while (x >= (uint64_t)n);
    return (int64_t)x;
}

DataPosition position_next(DataPosition at, int64_t samples)
{
    at.step++;
    if (!samples) return at;
    at.sample++;
    if (at.sample < samples) return at;
    at.sample = 0;
    at.epoch++;
    return at;
}
