/* gemm.h - products of matrices by cuBLASLt, planned once for each shape.
 *
 * Matrices are row-major: D [rows, cols] = A B, plus a bias for each column or beside a sum over
 * columns, in f32 whatever the storage. In cuBLASLt's column-major words every matrix is its own
 * transpose, so D' = B' A': its A is our B. */
#ifndef TIDE_CUDA_GEMM_H
#define TIDE_CUDA_GEMM_H
#include "kernels/cuda/cuda_libs.h"

/* Scratch of every GEMM node: what cuBLASLt may use, and partial sums of bias gradients. */
enum { GEMM_SCRATCH_BYTES = 32 << 20 };

typedef enum GemmEpilogue {
    GEMM_PLAIN,
    GEMM_BIAS,      /* bias [cols] is added to every row of D                         */
    GEMM_BIAS_GRAD, /* bias [rows] gets the sums of A, stored [inner, rows], over inner */
} GemmEpilogue;

/* D [rows, cols] (+)= op(A) [rows, inner] op(B) [inner, cols]. Packed rows. What is left out is zero,
 * so that two of them compare as bytes. */
typedef struct Gemm {
    int64_t rows, cols, inner;
    int32_t transpose_a, transpose_b;  /* A is stored [inner, rows], B [cols, inner]     */
    int32_t in, out, bias;             /* TideType of A and B, of D, of the bias         */
    int32_t add;                       /* D is added to                                  */
    int32_t add_bias;                  /* GEMM_BIAS_GRAD: the sums are added to the bias */
    int32_t epilogue;                  /* GemmEpilogue                                   */
    int32_t align_a, align_b, align_d; /* bytes that the addresses are multiples of      */
} Gemm;

typedef struct GemmCall {
    const void *a, *b;
    void *d;
    void *bias;    /* read for GEMM_BIAS, written for GEMM_BIAS_GRAD */
    void *scratch; /* [GEMM_SCRATCH_BYTES]                           */
    cudaStream_t stream;
} GemmCall;

/* Time candidates for this product on random numbers, unless the record names one, and keep the
 * fastest. Overwrites A, B, D and bias. */
TideStatus gemm_prepare(Device *d, const Gemm *g, const GemmCall *c);

/* Enqueue. Without a plan, one is built from the first heuristic. */
TideStatus gemm_run(Device *d, const Gemm *g, const GemmCall *c);

void gemm_plans_free(GemmPlan *list);

/* ---- gemm_bias.cu: epilogues that cuBLASLt refuses or does slower ------------------- */
#ifdef __cplusplus
extern "C" {
#endif

/* Every row of d [rows, cols] becomes the bias, so that a GEMM can be added to it: the same sum in
 * f32, rounded once. Types as in g. */
TideStatus gemm_bias_rows(Device *d, const Gemm *g, const GemmCall *c);

/* bias [rows] (+)= sums over the reduction of A, stored [inner, rows]: partial sums over fixed blocks
 * of the reduction in scratch, added in block order. */
TideStatus gemm_bias_sums(Device *d, const Gemm *g, const GemmCall *c);

#ifdef __cplusplus
}
#endif
#endif
