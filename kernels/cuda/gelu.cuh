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

static __device__ __forceinline__ float phi_erf(float x)
{
    return 0.5f * (1.0f + erff(x * 0.70710678118f));
}

static __device__ __forceinline__ float slope_erf(float x)
{
    return phi_erf(x) + x * (0.3989422804f * __expf(-0.5f * (x * x)));
}

#endif
