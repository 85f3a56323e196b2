/* linear.h - what the three kernels of a linear layer share: which rows take part. */
#ifndef TIDE_CUDA_LINEAR_H
#define TIDE_CUDA_LINEAR_H
#include "kernels/cuda/gemm.h"
#include "kernels/ops/shape.h"

/* Greatest power of two up to 256 that divides the start of a block of rows. All blocks of one size
 * count as equally aligned, the first too, so that they share an algorithm: hence `count`. */
static inline int32_t linear_alignment(TideRows rows, int64_t first, int64_t row_bytes)
{
    int64_t at = rows.count ? rows.count * row_bytes | first * row_bytes | 256 : 256;

    return (int32_t)(at & -at);
}

static inline size_t linear_scratch(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    (void)n;
    (void)in;
    (void)out;
    return GEMM_SCRATCH_BYTES;
}

static inline int64_t linear_row_bytes(const Tensor *t)
{
    return shape_width(t->shape) * (int64_t)type_bytes(t->type);
}
#endif
