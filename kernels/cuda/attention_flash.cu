/* attention_flash.cu - causal attention on tensor cores, score by score in registers.
 *
 * A block of four warps owns BM queries of one head, a warp 16 or 32 of them, and walks over blocks of
 * BN keys up to its diagonal: running maximum and sum of each row, and o scaled to the newest maximum.
 * Keys are fetched while the last block's values are used, values while scores are made. */
#include "kernels/cuda/attention_flash.cuh"

enum { WARPS = 4, THREADS = WARPS * WARP };

template <int DP> struct Sizes {
    static constexpr int M = DP <= 64 ? 2 : 1; /* 16-row tiles of a warp */
    static constexpr int BM = WARPS * 16 * M, BN = DP <= 128 ? 64 : 32;
    static constexpr size_t BYTES = (size_t)(BM + 2 * BN) * PITCH<DP> * 2;
};

/* What a warp carries from block to block of keys. Of row i of tile m, lane quads share maximum and sum:
 * [m][0] is row lane/4, [m][1] row lane/4 + 8. sum holds this lane's columns only. */
template <int DP> struct Rows {
    float o[Sizes<DP>::M][DP / 8][4];
    float most[Sizes<DP>::M][2], sum[Sizes<DP>::M][2];
};

/* s = q k^T for the warp's rows. */
template <typename T, int DP, int N>
static __device__ __forceinline__ void make_scores(float (&s)[Sizes<DP>::M][N][4], const T *q, const T *k,
                                                   int row)
{
    constexpr int M = Sizes<DP>::M;

#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) s[m][n][i] = 0;
#pragma unroll
    for (int d = 0; d < DP; d += 16) {
        uint32_t a[M][4];
#pragma unroll
        for (int m = 0; m < M; m++) left_factor<DP>(a[m], q, row + 16 * m, d);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            uint32_t b[4];
            right_rows<DP>(b, k, 8 * n, d);
#pragma unroll
            for (int m = 0; m < M; m++) {
                multiply<T>(s[m][n], a[m], b[0], b[1]);
                multiply<T>(s[m][n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* Scores of keys after the query become minus infinity. query, key: of the tile's corner. */
template <int N> static __device__ __forceinline__ void mask(float (&s)[N][4], int query, int key)
{
    int lane = threadIdx.x % WARP, row = query + lane / 4, col = key + lane % 4 * 2;

#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (col + 8 * n + i % 2 > row + i / 2 * 8) s[n][i] = -INFINITY;
}

static __device__ __forceinline__ float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

static __device__ __forceinline__ float quad_sum(float x)
{
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

/* Scores of one tile of rows become exp(score - maximum); o and sum move to the new maximum. */
template <int N, int D>
static __device__ __forceinline__ void soften(float (&s)[N][4], float (&o)[D][4], float (&most)[2],
                                              float (&sum)[2], float scale)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = most[half];
#pragma unroll
        for (int n = 0; n < N; n++) top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        top = quad_max(top);
        float shrink = power_of_2((most[half] - top) * scale), part = 0;
        most[half] = top;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++)
                part += s[n][i] = power_of_2((s[n][i] - top) * scale);
        sum[half] = sum[half] * shrink + part;
#pragma unroll
        for (int d = 0; d < D; d++) {
            o[d][2 * half] *= shrink;
            o[d][2 * half + 1] *= shrink;
        }
    }
}

template <int N>
static __device__ __forceinline__ void drop(float (&s)[N][4], const Dropout &dropout, int query, int key)
{
#pragma unroll
    for (int n = 0; n < N; n++) {
        uint32_t w[4];
        words_by_query(w, dropout, query, key + 8 * n);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (w[i] < dropout.least) s[n][i] = 0;
    }
}

/* o += p v. */
template <typename T, int DP, int N>
static __device__ __forceinline__ void add_values(Rows<DP> &r, const float (&p)[Sizes<DP>::M][N][4],
                                                  const T *v)
{
    constexpr int M = Sizes<DP>::M;

#pragma unroll
    for (int n = 0; n < N; n += 2) {
        uint32_t a[M][4];
#pragma unroll
        for (int m = 0; m < M; m++) as_left_factor<T>(a[m], p[m][n], p[m][n + 1]);
#pragma unroll
        for (int d = 0; d < DP / 8; d += 2) {
            uint32_t b[4];
            right_columns<DP>(b, v, 8 * n, 8 * d);
#pragma unroll
            for (int m = 0; m < M; m++) {
                multiply<T>(r.o[m][d], a[m], b[0], b[1]);
                multiply<T>(r.o[m][d + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* o / sum into the tile, lse to memory. lse: of the head's first query. */
template <typename T, int DP>
static __device__ __forceinline__ void finish(Rows<DP> &r, T *tile, float *lse, int row, int first,
                                              const Flash &f)
{
    int lane = threadIdx.x % WARP;
    float keep = f.info ? f.keep_scale : 1.0f;

#pragma unroll
    for (int m = 0; m < Sizes<DP>::M; m++) {
        float scale[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = quad_sum(r.sum[m][half]);
            int query = first + row + 16 * m + lane / 4 + 8 * half;
            scale[half] = keep / sum;
            if (lane % 4 == 0 && query < f.tokens) lse[query] = r.most[m][half] * f.scale + logf(sum);
        }
#pragma unroll
        for (int d = 0; d < DP / 8; d++)
            put_result<DP>(tile, row + 16 * m, 8 * d, r.o[m][d], scale[0], scale[1]);
    }
}

template <typename T, int DP, bool DROPS>
static __global__ void __launch_bounds__(THREADS) flash(const Flash f)
{
    constexpr int M = Sizes<DP>::M, BM = Sizes<DP>::BM, BN = Sizes<DP>::BN;
    extern __shared__ __align__(16) unsigned char shared[];
    T *q = (T *)shared, *k = q + BM * PITCH<DP>, *v = k + BN * PITCH<DP>;
    int head = blockIdx.y, sequence = blockIdx.z, first = (int)(gridDim.x - 1 - blockIdx.x) * BM;
    int kv_head = head / (f.heads / f.kv_heads), row = (int)threadIdx.x / WARP * 16 * M;
    const T *qkv = (const T *)f.qkv + (int64_t)sequence * f.tokens * f.row;
    const T *keys = qkv + (int64_t)(f.heads + kv_head) * f.head_dim;
    const T *values = keys + (int64_t)f.kv_heads * f.head_dim;
    int blocks = (min(first + BM, f.tokens) + BN - 1) / BN;
    float scale = f.scale * LOG2_E;
    Dropout dropout = {};
    Rows<DP> r = {};

    if (DROPS) dropout = dropout_of(f, sequence, head);
#pragma unroll
    for (int m = 0; m < M; m++) r.most[m][0] = r.most[m][1] = -INFINITY;
    tile_load<BM, DP, THREADS>(q, qkv + (int64_t)head * f.head_dim, f.row, first, f.tokens, f.head_dim);
    tile_load<BN, DP, THREADS>(k, keys, f.row, 0, f.tokens, f.head_dim);
    async_commit();
    tile_load<BN, DP, THREADS>(v, values, f.row, 0, f.tokens, f.head_dim);
    async_commit();
    for (int block = 0; block < blocks; block++) {
        int key = block * BN;
        bool seen = key <= first + row + 16 * M - 1; /* by any of the warp's queries */
        float s[M][BN / 8][4];

        async_wait<1>();
        __syncthreads();
        if (seen) make_scores<T, DP>(s, q, k, row);
        __syncthreads();
        if (block + 1 < blocks) tile_load<BN, DP, THREADS>(k, keys, f.row, key + BN, f.tokens, f.head_dim);
        async_commit();
        if (seen) {
#pragma unroll
            for (int m = 0; m < M; m++) {
                int query = first + row + 16 * m;
                if (key + BN - 1 > query) mask(s[m], query, key);
                soften(s[m], r.o[m], r.most[m], r.sum[m], scale);
                if (DROPS) drop(s[m], dropout, query, key);
            }
        }
        async_wait<1>();
        __syncthreads();
        if (seen) add_values<T, DP>(r, s, v);
        __syncthreads();
        if (block + 1 < blocks) tile_load<BN, DP, THREADS>(v, values, f.row, key + BN, f.tokens, f.head_dim);
        async_commit();
    }
    float *lse = f.lse_out + ((int64_t)sequence * f.heads + head) * f.tokens;
    T *o = (T *)f.out + (int64_t)sequence * f.tokens * f.o_row + (int64_t)head * f.head_dim;
    finish<T, DP>(r, q, lse, row, first, f); /* q is read by its own warp only */
    __syncthreads();
    tile_store<BM, DP, THREADS>(o, f.o_row, q, first, f.tokens, f.head_dim);
}

/* ---- Launching ---------------------------------------------------------------------------- */

template <typename T, int DP> static TideStatus start_padded(Device *d, const AttentionCall *c)
{
    const AttentionShape *s = &c->s;
    dim3 grid(blocks_for(s->tokens, Sizes<DP>::BM), (unsigned)s->heads, (unsigned)s->batch);
    auto kernel = s->dropout ? flash<T, DP, true> : flash<T, DP, false>;

    return flash_launch(d, kernel, flash_of(c), grid, THREADS, Sizes<DP>::BYTES, c->stream);
}

template <typename T> static TideStatus start(Device *d, const AttentionCall *c)
{
    if (c->s.head_dim <= 32) return start_padded<T, 32>(d, c);
    if (c->s.head_dim <= 64) return start_padded<T, 64>(d, c);
    if (c->s.head_dim <= 128) return start_padded<T, 128>(d, c);
    return start_padded<T, 256>(d, c);
}

bool flash_attention_serves(const AttentionShape *s)
{
    return (s->type == TIDE_BF16 || s->type == TIDE_F16) && s->head_dim % 8 == 0 && s->head_dim <= 256 &&
           s->heads <= 65535 && s->batch <= 65535;
}

TideStatus flash_attention(Device *d, const AttentionCall *c)
{
    return c->s.type == TIDE_BF16 ? start<bf16>(d, c) : start<f16>(d, c);
}
