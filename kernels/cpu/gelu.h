/* gelu.h - the two forms of Phi that gelu.c and gelu_grad.c share. */
#ifndef TIDE_CPU_GELU_H
#define TIDE_CPU_GELU_H
#include "kernels/cpu/cpu_math.h"

enum { GELU_BLOCK = 4096 }; /* elements that one thread takes at a time */

/* (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), which keeps its relative precision for u far below 0.
 * u = sqrt(2 / pi) * (x + 0.044715 x^3). */
static inline float phi_tanh(float x)
{
    float u = 0.7978845608f * (x + 0.044715f * (x * x * x));
    return 1.0f / (1.0f + math_exp(-2.0f * u));
}

static inline float phi_erf(float x)
{
    return 0.5f + 0.5f * math_erf(0.7071067812f * x);
}

#endif
