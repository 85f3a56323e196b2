/* narrow.c - bf16 and f16 on the host, for files and for starting values. */
#include <string.h>
#include "runtime/tide.h"

enum { WORTH_THREADS = 1 << 16 }; /* numbers */

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t to_bf16(float x)
{
    uint32_t bits = bits_of(x);

    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u); /* NaN stays one */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Scaling by 2^-112 moves f16's exponents to where f32 has them, subnormals included. */
static float from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;

    if (rest >= 0x7c00u) return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    return float_of(sign | bits_of(float_of(rest << 13) * 0x1p112f));
}

static uint16_t to_f16(float x)
{
    uint32_t sign = bits_of(x) >> 16 & 0x8000u, rest = bits_of(x) & 0x7fffffffu;

    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 on: infinite */
    if (rest < 0x38800000u) { /* below 2^-14: adding 1/2 rounds to multiples of 2^-24 */
        uint32_t units = bits_of(float_of(rest) + 0.5f) - bits_of(0.5f);
        return (uint16_t)(sign | units);
    }
    rest += 0xfffu + (rest >> 13 & 1u);
    return (uint16_t)(sign | (rest - 0x38000000u) >> 13);
}

void tide_widen(TideType from_type, const void *from, int64_t n, float *to)
{
    const uint16_t *half = from;

    if (from_type == TIDE_F32)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
#pragma omp parallel for if (n > WORTH_THREADS)
        for (int64_t i = 0; i < n; i++)
            to[i] = from_type == TIDE_BF16 ? float_of((uint32_t)half[i] << 16) : from_f16(half[i]);
}

void tide_narrow(TideType to_type, const float *from, int64_t n, void *to)
{
    uint16_t *half = to;

    if (to_type == TIDE_F32)
        memcpy(to, from, (size_t)n * sizeof *from);
    else
#pragma omp parallel for if (n > WORTH_THREADS)
        for (int64_t i = 0; i < n; i++) half[i] = to_type == TIDE_BF16 ? to_bf16(from[i]) : to_f16(from[i]);
}
