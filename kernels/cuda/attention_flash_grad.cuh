/* attention_flash_grad.cuh - what the two backward kernels share.
 *
 * One owns blocks of queries and makes dq, the other blocks of keys and makes dk and dv. Each makes the
 * scores again, so that nothing is added to memory by two blocks: no atomics, the same bits always. */
#ifndef TIDE_CUDA_ATTENTION_FLASH_GRAD_CUH
#define TIDE_CUDA_ATTENTION_FLASH_GRAD_CUH
#include "kernels/cuda/attention_flash.cuh"

TideStatus flash_attention_dq(Device *d, const AttentionCall *c);
TideStatus flash_attention_dkv(Device *d, const AttentionCall *c);

/* s = x y^T: 16 rows of x, 8 * N rows of y. */
template <typename T, int DP, int N>
static __device__ __forceinline__ void multiply_rows(float (&s)[N][4], const T *x, const T *y, int row)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) s[n][i] = 0;
#pragma unroll
    for (int d = 0; d < DP; d += 16) {
        uint32_t a[4];
        left_factor<DP>(a, x, row, d);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            uint32_t b[4];
            right_rows<DP>(b, y, 8 * n, d);
            multiply<T>(s[n], a, b[0], b[1]);
            multiply<T>(s[n + 1], a, b[2], b[3]);
        }
    }
}

/* sum += p y, columns [col, col + 8 * D) of y. */
template <typename T, int DP, int N, int D>
static __device__ __forceinline__ void add_product(float (&sum)[D][4], const float (&p)[N][4], const T *y,
                                                   int col)
{
#pragma unroll
    for (int n = 0; n < N; n += 2) {
        uint32_t a[4];
        as_left_factor<T>(a, p[n], p[n + 1]);
#pragma unroll
        for (int d = 0; d < D; d += 2) {
            uint32_t b[4];
            right_columns<DP>(b, y, 8 * n, col + 8 * d);
            multiply<T>(sum[d], a, b[0], b[1]);
            multiply<T>(sum[d + 1], a, b[2], b[3]);
        }
    }
}

#endif
