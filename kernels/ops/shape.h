/* shape.h - what shape inference in this folder asks of shapes, and the attributes that no public
 * struct of ops.h holds. Kernels of every backend include it too. */
#ifndef TIDE_OPS_SHAPE_H
#define TIDE_OPS_SHAPE_H
#include "kernels/ops.h"

/* Elements of the last dimension, and of all the leading ones together ("rows"). */
static inline int64_t shape_width(TideShape s)
{
    return s.n ? s.dim[s.n - 1] : 1;
}

static inline int64_t shape_rows(TideShape s)
{
    int64_t rows = 1;

    for (int i = 0; i + 1 < s.n; i++) rows *= s.dim[i];
    return rows;
}

/* Bytes of so many rows, 0 of a tensor that was left out. */
static inline double rows_bytes(const Tensor *t, int64_t rows)
{
    return t ? (double)rows * (double)shape_width(t->shape) * (double)type_bytes(t->type) : 0;
}

static inline bool shape_equal(TideShape a, TideShape b)
{
    bool equal = a.n == b.n;

    for (int i = 0; equal && i < a.n; i++) equal = a.dim[i] == b.dim[i];
    return equal;
}

static inline bool is_vector(const Tensor *t, int64_t n)
{
    return t->shape.n == 1 && t->shape.dim[0] == n;
}

static inline bool is_float(const Tensor *t)
{
    return t->type != TIDE_I32;
}

/* The input that every op which changes from step to step reads: a TideStepInfo. */
static inline bool is_info(const Tensor *t)
{
    return t->type == TIDE_I32 && is_vector(t, TIDE_INFO_WORDS);
}

/* A TideScaling. */
static inline bool is_scaling(const Tensor *t)
{
    return t->type == TIDE_I32 && is_vector(t, TIDE_SCALING_WORDS);
}

/* Make t a tensor of one dimension. */
static inline void infer_vector(Tensor *t, TideType type, int64_t n)
{
    t->type = type;
    t->shape = (TideShape){ 1, { n } };
}

/* Make t look like another tensor. */
static inline void infer_like(Tensor *t, const Tensor *other)
{
    t->type = other->type;
    t->shape = other->shape;
}

/* A block of rows of a tensor of this shape; n_dims 0: the block is a tensor of its own. A TideShape would
 * have padding, whose bytes are part of a program's hash. */
typedef struct BlockAttr {
    TideRows rows;
    int64_t n_dims, dim[TIDE_MAX_DIMS];
} BlockAttr;

static inline BlockAttr block_of(TideRows rows, TideShape whole)
{
    BlockAttr a = { .rows = rows, .n_dims = whole.n };

    for (int i = 0; i < whole.n; i++) a.dim[i] = whole.dim[i];
    return a;
}

static inline TideShape block_whole(const BlockAttr *a)
{
    TideShape whole = { .n = (int)a->n_dims };

    for (int i = 0; i < TIDE_MAX_DIMS; i++) whole.dim[i] = a->dim[i];
    return whole;
}
typedef struct GeluAttr { bool erf; } GeluAttr;
typedef struct CastAttr {
    TideType type;
} CastAttr;
typedef struct FillAttr {
    double value;
} FillAttr;
typedef struct DropoutAttr {
    float p;
    int site;
} DropoutAttr;
typedef struct NormAttr {
    float clip;
} NormAttr; /* 0: no clipping */
typedef struct ScalingAttr {
    float growth, backoff, least, clip;
    int32_t interval;
} ScalingAttr;
typedef struct AdamWAttr {
    float beta1, beta2, eps, decay;
} AdamWAttr;

#endif
