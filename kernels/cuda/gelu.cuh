/* gelu.cuh - Phi and the slope of x * Phi(x), in the two forms of kernels/cpu/gelu.h. */
#ifndef TIDE_CUDA_GELU_CUH
#define TIDE_CUDA_GELU_CUH
#include "kernels/cuda/flat.cuh"

/* 0.5 (1 + tanh(u)) = 1 / (1 + e^-2u), without the cancellation of the left side. */
static __device__ __forceinline__ float phi_tanh(float x)
{
    float u = 0.7978845608f * (x + 0.044715f * x * x * x);

    return __fdividef(1.0f, 1.0f + __expf(-2.0f * u));
}

static __device__ __forceinline__ float slope_tanh(float x)
{
    float phi = phi_tanh(x), du = 0.7978845608f * (1.0f + 3.0f * 0.044715f * (x * x));

    return phi + x * (2.0f * phi * (1.0f - phi) * du);
}

/* Phi(x) and e^(-x^2 / 2), which the slope needs too. The tail is Abramowitz and Stegun's 7.1.26, a
 * polynomial times that power, whose error is below 1e-7: a third of the instructions of erff(). */
static __device__ __forceinline__ float2 phi_and_power(float x)
{
    float z = fabsf(x) * 0.70710678118f, t = __fdividef(1.0f, 1.0f + 0.3275911f * z), power = __expf(-z * z);
    float sum =
        0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f)));
    float tail = 0.5f * t * sum * power;

    return make_float2(x < 0 ? tail : 1.0f - tail, power);
}

static __device__ __forceinline__ float phi_erf(float x)
{
    return phi_and_power(x).x;
}

static __device__ __forceinline__ float slope_erf(float x)
{
    float2 p = phi_and_power(x);

    return p.x + x * (0.3989422804f * p.y);
}

#endif
