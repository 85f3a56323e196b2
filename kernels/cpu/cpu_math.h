/* cpu_math.h - exp, tanh, erf for f32, without branches or calls, so that compilers turn loops
 * over them into vector code.
 *
 * Errors against double are below 2.5e-7 of the result (tests/unit/test_cpu_math.c). The
 * polynomials are minimax fits, made for this file, of what their comments say. */
#ifndef TIDE_CPU_MATH_H
#define TIDE_CPU_MATH_H
#include <math.h>
#include <stdint.h>
#include <string.h>

/* e^x: 0 below -87.33, infinite above 88.37, NaN for NaN. */
static inline float math_exp(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float t = x * 1.44269504f + shift, n = t - shift;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts: |r| <= ln 2 / 2 */
    float q = 0x1.6dbc68p-10f;                             /* (e^r - 1 - r) / r^2 */
    uint32_t bits;

    q = q * r + 0x1.124148p-7f;
    q = q * r + 0x1.555454p-5f;
    q = q * r + 0x1.555486p-3f;
    q = q * r + 0.5f;
    q = q * (r * r) + r + 1.0f;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits << 23) + 0x3f800000u; /* the low bits of t are n: this is 2^n */
    float two_n;
    memcpy(&two_n, &bits, sizeof two_n);
    float y = q * two_n;
    y = x < -87.33f ? 0.0f : y;
    return x > 88.37f ? INFINITY : y;
}

static inline float math_tanh(float x)
{
    float a = fabsf(x), u = x * x;
    float q = -0x1.79256cp-8f; /* (tanh(a) / a - 1) / a^2 as a polynomial in a^2, a <= 0.62 */

    q = q * u + 0x1.52dce2p-6f;
    q = q * u - 0x1.b85794p-5f;
    q = q * u + 0x1.1107f2p-3f;
    q = q * u - 0x1.555536p-2f;
    float near = x + x * (u * q);
    float far = copysignf(1.0f - 2.0f / (math_exp(2.0f * a) + 1.0f), x);
    return a < 0.6f ? near : far;
}

static inline float math_erf(float x)
{
    float a = fabsf(x), u = x * x, b = a > 4.0f ? 4.0f : a;
    float q = 0x1.496a32p-14f; /* erf(a) / a as a polynomial in a^2, a <= 1 */

    q = q * u - 0x1.a3f700p-11f;
    q = q * u + 0x1.5405b2p-8f;
    q = q * u - 0x1.b7f90ep-6f;
    q = q * u + 0x1.ce2cf8p-4f;
    q = q * u - 0x1.81273ep-2f;
    q = q * u + 0x1.20dd74p+0f;
    float near = x * q;

    float p = 0x1.6c067ep-16f; /* -log(1 - erf(b)), 1 <= b <= 4; beyond, erf is 1 in f32 */
    p = p * b - 0x1.ceeadep-12f;
    p = p * b + 0x1.1398f4p-8f;
    p = p * b - 0x1.9d0bd2p-6f;
    p = p * b + 0x1.bc18cep-4f;
    p = p * b + 0x1.4434f0p-1f;
    p = p * b + 0x1.212c2cp+0f;
    p = p * b - 0x1.8b3e9ap-13f;
    float far = copysignf(1.0f - math_exp(-p), x);
    return a < 1.0f ? near : far;
}

#endif
