/* gemm_plan.h - a product that is ready to run, for the two files that make and choose it. */
#ifndef TIDE_CUDA_GEMM_PLAN_H
#define TIDE_CUDA_GEMM_PLAN_H
#include "kernels/cuda/gemm.h"

struct GemmPlan {
    Gemm g;
    GemmPlan *next;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, d; /* in cuBLASLt's order: its a is the caller's B */
    cublasLtMatmulAlgo_t algo;
    bool apart; /* the epilogue is a kernel of ours, before or after */
};

/* gemm.c: TIDE_OK, or a message that says what failed with the sizes of g. */
TideStatus gemm_check(Device *d, cublasStatus_t status, const char *what, const Gemm *g);

/* Does the library have this epilogue? It adds no bias gradients to others, and writes them in D's type. */
bool gemm_may_be_fused(const Gemm *g);

/* Tell the library which epilogue it is to run, for p->apart, and where its bias lies. */
TideStatus gemm_set_epilogue(Device *d, GemmPlan *p, const GemmCall *c);

/* Run p with its algorithm. */
TideStatus gemm_enqueue(Device *d, GemmPlan *p, const GemmCall *c);

/* gemm_search.c: set algo and apart of p: with timing the fastest, without the library's first proposal.
 * wish: of the user, for bias gradients; NULL: none. */
TideStatus gemm_choose(Device *d, GemmPlan *p, const GemmCall *c, const char *wish, bool timing);

#endif
