/* cpu_gemm.h - matrix products for the CPU kernels. */
#ifndef TIDE_CPU_GEMM_H
#define TIDE_CPU_GEMM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* c = a * b, or c += a * b, or c = a * b + bias; row-major.
 * a is [m, k], or [k, m] if transposed; b is [k, n], or [n, k] if transposed. */
typedef struct Gemm {
    bool a_transposed, b_transposed, add;
    int64_t m, n, k;
    const float *a, *b, *bias; /* bias [n] or NULL; not together with add */
    float *c;
    int64_t lda, ldb, ldc; /* elements from row to row                */
} Gemm;

/* Once before the first product: OpenBLAS on one thread, with the kernels of this processor. */
void gemm_setup(void);
/* Version and processor kind of OpenBLAS. Borrowed from it. */
const char *gemm_versions(void);

/* The product is cut into tiles by its shape alone, so that the bits do not depend on the number of
 * threads that run them. */
void gemm(const Gemm *g);

#endif
