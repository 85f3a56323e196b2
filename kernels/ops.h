/* ops.h - the builders, and row numbers, that ops.def expands to.
 *
 * Shapes: B sequences of T positions, C channels wide; "rows" are the leading
 * dimensions of a tensor taken together. A tensor argument may be 0 where the
 * comment says so. Every builder returns its first output, or 0 after a mistake
 * (tide_program_check() tells), and names nodes after the current layer. */
#ifndef TIDE_OPS_H
#define TIDE_OPS_H
#include "runtime/op.h"
#ifdef __cplusplus
extern "C" {
#endif

/* What changes from step to step lives in device memory, so that a captured step replays
 * unchanged: an input tensor "info" of type i32 and shape [16] holds this struct. */
typedef struct TideStepInfo {
    uint64_t seed;         /* of dropout                                                       */
    int64_t  step;         /* steps before this one                                            */
    int32_t  micro;        /* micro-step inside the step                                       */
    int32_t  row;          /* sampling: the row whose logits are wanted                        */
    float    loss_scale;   /* d total / d row loss: 1 / valid targets of the whole step         */
    float    grad_scale;   /* the update multiplies gradients by it (1 without loss scaling)    */
    float    lr;           /* learning rate of this update                                     */
    float    bias1, bias2; /* 1 - beta^t of AdamW, t = step + 1                                */
    float    late_lr, late_bias1, late_bias2; /* loss_scaling: these three if the step before, whose end
                                               * the host does not know yet, was skipped       */
    int32_t  reserved[2];  /* fills the tensor                                                 */
} TideStepInfo;
enum { TIDE_INFO_WORDS = 16 };

/* A block of rows: rows [x_first, x_first + count) of the input become rows
 * [y_first, ...) of the output. count 0: all rows, which is what most calls want. */
typedef struct TideRows { int64_t count, x_first, y_first; } TideRows;

/* Causal attention over packed heads: qkv is [B, T, (heads + 2 kv_heads) * head_dim], queries
 * first, then keys, then values. head h reads kv head h / (heads / kv_heads). Dropout of
 * probability p on the probabilities, keyed by site. Sequences [first, first + count) only
 * (count 0: all) in attention_grad, whose output is then written block by block. The struct has
 * no padding, because its bytes are part of a program's hash. */
typedef struct TideAttention {
    int     heads, kv_heads, head_dim;
    float   dropout;
    int64_t count;
    int64_t site; /* what stands before it changes how long attention takes */
    int64_t first;
} TideAttention;

/* Cross entropy over the first `vocab` columns of logits (the rest is padding); a target of
 * `ignore` gives no loss and no gradient. The logits are rows [first, ...) of the batch. */
typedef struct TideClasses {
    int     vocab;
    int32_t ignore;
    int64_t first;
} TideClasses;

/* One flat weight-decay group. p -= lr * (mhat / (sqrt(vhat) + eps) + decay * p), decoupled
 * (Loshchilov and Hutter 2019). Gradients are multiplied by info.grad_scale and norm[1]. */
typedef struct TideAdamW {
    TideTensor parameter, gradient, m, v, norm, info; /* norm 0: no clipping */
    TideTensor master;                                /* f32 copy of narrower parameters; 0: none */
    float      beta1, beta2, eps, decay;
} TideAdamW;

/* Dynamic loss scaling (Micikevicius et al. 2018): gradients too small for f16 are computed times a
 * scale, which is doubled now and then and halved when one of them overflows; that step is skipped.
 * The scale of a step depends on how the one before ended, which the host learns late: it is device
 * state, an i32 tensor [8] that holds this struct. */
typedef struct TideScaling {
    float   scale;       /* of the next step's gradients                      */
    float   used;        /* of the newest step's                              */
    int32_t good;        /* steps with finite gradients since it changed      */
    int32_t late;        /* 1: the newest step was skipped, else 0            */
    int32_t skipped;     /* steps that were, in all                           */
    int32_t reserved[3]; /* fills the tensor                                  */
} TideScaling;
enum { TIDE_SCALING_WORDS = 8 };

/* One step of it, in an update: norm is that of the scaled gradients, not clipped. */
typedef struct TideLossScaling {
    TideTensor info, norm, scaling;
    float      growth, backoff, least; /* factors of the scale, and its floor                */
    float      clip;                   /* of the norm without the scale; 0: none             */
    int32_t    interval;               /* good steps in a row after which the scale grows    */
} TideLossScaling;

#define TIDE_OP(name, ...) OP_##name,
enum {
#include "kernels/ops.def"
    OP_COUNT
};
#undef TIDE_OP

#define TIDE_OP(name, ...) TideTensor tide_##name(TideGraph *g, __VA_ARGS__); extern const OpDesc op_##name;
#include "kernels/ops.def"
#undef TIDE_OP

/* Rows in each block, so that a block of rows of that width has at most about so many elements:
 * a multiple of 64 and at least 64, or all rows; a function of its arguments alone. */
int64_t  tide_block_rows(int64_t rows, int64_t width, int64_t elements);

/* A block of a linear layer written into rows [y_first, ..) of a larger y: y has the shape of `like`, but
 * as wide as the weight is high. y: of the blocks before this one, or 0 at the first; each
 * block continues it in place, so that y cannot be made again. Returns y. */
TideTensor tide_linear_into(TideGraph *g, TideTensor x, TideTensor weight, TideTensor bias, TideTensor like,
                            TideTensor y, TideRows rows);

/* The loss of a language model and its gradient, in chunks of rows so that the whole logits
 * [rows, vocab] never exist: per chunk the head's GEMM, the loss with its gradient written over
 * the logits, and the head's two gradients. weight is [padded vocab, C]. Without `train` only
 * the losses. Results: losses f32 [rows]; dx, the gradient of x (0 without train). */
typedef struct TideLoss { TideTensor losses, dx; } TideLoss;
TideLoss tide_linear_cross_entropy(TideGraph *g, TideTensor x, TideTensor weight, TideTensor targets,
                                   TideTensor info, TideClasses c, int64_t chunk_rows, bool train);
#ifdef __cplusplus
}
#endif
#endif
