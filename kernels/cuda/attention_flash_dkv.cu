/* attention_flash_dkv.cu - the gradients of keys and values on tensor cores.
 *
 * A block of warps owns 64 keys of one kv head and walks over the queries that see them, block by block
 * of BQ, head after head of those that share the keys: dv = sum of p do, dk = scale * sum of
 * p (dp - delta) q. Scores are made keys down, queries across, so that they are the left factor of
 * both sums as they lie. Four warps take 16 keys each; where a head is wide, SPLIT warps share them and
 * each sums its part of the columns. */
#include "kernels/cuda/attention_flash_grad.cuh"

enum { KEY_WARPS = 4, BN = KEY_WARPS * 16 };

template <int DP> struct Sizes {
    static constexpr int BQ = DP <= 64 ? 64 : DP <= 128 ? 32 : 16;
    static constexpr int STAGES = DP <= 128 ? 2 : 1; /* blocks of queries in shared memory */
    static constexpr int SPLIT = DP <= 128 ? 1 : 2;
    static constexpr int THREADS = KEY_WARPS * SPLIT * WARP;
    static constexpr size_t BYTES =
        (size_t)(2 * BN + 2 * STAGES * BQ) * PITCH<DP> * 2 + (size_t)(2 * STAGES * BQ) * sizeof(float);
};

/* Scores become probabilities as dropped, and dp in ds their gradients. lse, in units of log 2, and
 * delta: of BQ queries, the first of which is `query`. key: of the warp's first row. */
template <int N, bool DROPS>
static __device__ __forceinline__ void score_gradients(float (&p)[N][4], float (&ds)[N][4], const float *lse,
                                                       const float *delta, const Dropout &dropout,
                                                       const Flash &f, int key, int query)
{
    int lane = threadIdx.x % WARP, row = key + lane / 4, across = lane % 4 * 2;
    float scale = f.scale * LOG2_E;

#pragma unroll
    for (int n = 0; n < N; n++) {
        uint32_t w[4] = {};
        if (DROPS) words_by_key(w, dropout, key, query + 8 * n);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int at = across + 8 * n + i % 2;
            bool seen = row + i / 2 * 8 <= query + at && query + at < f.tokens;
            float whole = seen ? power_of_2(p[n][i] * scale - lse[at]) : 0.0f, dp = ds[n][i];
            float keep = DROPS ? (w[i] >= dropout.least ? f.keep_scale : 0.0f) : 1.0f;
            ds[n][i] = whole * (dp * keep - delta[at]);
            p[n][i] = whole * keep;
        }
    }
}

/* Where the queries of one step lie: head by head, each from the block that holds the first key. */
struct Step {
    int head, query;
};

template <int BQ> static __device__ __forceinline__ Step step_at(const Flash &f, int step, int first)
{
    int start = first / BQ, per_head = (f.tokens + BQ - 1) / BQ - start, group = f.heads / f.kv_heads;
    Step s = { (int)blockIdx.y * group + step / per_head, (start + step % per_head) * BQ };

    return s;
}

/* Start to fetch what a step needs: queries and d_o into tiles, lse and delta. */
template <typename T, int DP>
static __device__ __forceinline__ void fetch(T *q, T *d_o, float *lse, float *delta, const Flash &f, Step s)
{
    constexpr int BQ = Sizes<DP>::BQ, THREADS = Sizes<DP>::THREADS;
    int sequence = blockIdx.z, query = s.query + (int)threadIdx.x;
    int64_t rows = ((int64_t)sequence * f.heads + s.head) * f.tokens;
    const T *queries = (const T *)f.qkv + (int64_t)sequence * f.tokens * f.row + (int64_t)s.head * f.head_dim;
    const T *outputs =
        (const T *)f.d_o + (int64_t)sequence * f.tokens * f.o_row + (int64_t)s.head * f.head_dim;

    tile_load<BQ, DP, THREADS>(q, queries, f.row, s.query, f.tokens, f.head_dim);
    tile_load<BQ, DP, THREADS>(d_o, outputs, f.o_row, s.query, f.tokens, f.head_dim);
    if (threadIdx.x < BQ) {
        lse[threadIdx.x] = query < f.tokens ? f.lse[rows + query] * LOG2_E : 0.0f;
        delta[threadIdx.x] = query < f.tokens ? f.delta[rows + query] : 0.0f;
    }
    async_commit();
}

template <typename T, int DP, bool DROPS>
static __global__ void __launch_bounds__(Sizes<DP>::THREADS) flash_dkv(const Flash f)
{
    using S = Sizes<DP>;
    constexpr int BQ = S::BQ, STAGES = S::STAGES, THREADS = S::THREADS, TILE = BQ * PITCH<DP>;
    constexpr int COLUMNS = DP / S::SPLIT;
    extern __shared__ __align__(16) unsigned char shared[];
    T *k = (T *)shared, *v = k + BN * PITCH<DP>, *q = v + BN * PITCH<DP>, *d_o = q + STAGES * TILE;
    float *lse = (float *)(d_o + STAGES * TILE), *delta = lse + STAGES * BQ;
    int warp = (int)threadIdx.x / WARP, row = warp % KEY_WARPS * 16, col = warp / KEY_WARPS * COLUMNS;
    int sequence = blockIdx.z, first = (int)blockIdx.x * BN;
    int64_t keys_at =
        (int64_t)sequence * f.tokens * f.row + (int64_t)(f.heads + (int)blockIdx.y) * f.head_dim;
    int64_t values_at = keys_at + (int64_t)f.kv_heads * f.head_dim;
    int steps = ((f.tokens + BQ - 1) / BQ - first / BQ) * (f.heads / f.kv_heads);
    float dk[COLUMNS / 8][4] = {}, dv[COLUMNS / 8][4] = {};
    Dropout dropout = {};

    tile_load<BN, DP, THREADS>(k, (const T *)f.qkv + keys_at, f.row, first, f.tokens, f.head_dim);
    tile_load<BN, DP, THREADS>(v, (const T *)f.qkv + values_at, f.row, first, f.tokens, f.head_dim);
    fetch<T, DP>(q, d_o, lse, delta, f, step_at<BQ>(f, 0, first));
    for (int step = 0; step < steps; step++) {
        Step at = step_at<BQ>(f, step, first);
        int here = step % STAGES, ahead = (step + 1) % STAGES;
        float p[BQ / 8][4], ds[BQ / 8][4];

        if (STAGES == 2 && step + 1 < steps) {
            fetch<T, DP>(q + ahead * TILE, d_o + ahead * TILE, lse + ahead * BQ, delta + ahead * BQ, f,
                         step_at<BQ>(f, step + 1, first));
            async_wait<1>();
        } else {
            async_wait<0>();
        }
        __syncthreads();
        if (first + row <= at.query + BQ - 1) { /* any of the queries sees any of the warp's keys */
            if (DROPS) dropout = dropout_of(f, sequence, at.head);
            multiply_rows<T, DP>(p, k, q + here * TILE, row);
            multiply_rows<T, DP>(ds, v, d_o + here * TILE, row);
            score_gradients<BQ / 8, DROPS>(p, ds, lse + here * BQ, delta + here * BQ, dropout, f, first + row,
                                           at.query);
            add_product<T, DP>(dv, p, d_o + here * TILE, col);
            add_product<T, DP>(dk, ds, q + here * TILE, col);
        }
        __syncthreads();
        if (STAGES == 1 && step + 1 < steps)
            fetch<T, DP>(q, d_o, lse, delta, f, step_at<BQ>(f, step + 1, first));
    }
#pragma unroll
    for (int d = 0; d < COLUMNS / 8; d++) {
        put_result<DP>(k, row, col + 8 * d, dk[d], f.scale, f.scale);
        put_result<DP>(v, row, col + 8 * d, dv[d], 1.0f, 1.0f);
    }
    __syncthreads();
    tile_store<BN, DP, THREADS>((T *)f.out + keys_at, f.row, k, first, f.tokens, f.head_dim);
    tile_store<BN, DP, THREADS>((T *)f.out + values_at, f.row, v, first, f.tokens, f.head_dim);
}

/* ---- Launching ---------------------------------------------------------------------------- */

template <typename T, int DP> static TideStatus start_padded(Device *d, const AttentionCall *c)
{
    const AttentionShape *s = &c->s;
    dim3 grid(blocks_for(s->tokens, BN), (unsigned)s->kv_heads, (unsigned)s->batch);
    auto kernel = s->dropout ? flash_dkv<T, DP, true> : flash_dkv<T, DP, false>;

    return flash_launch(d, kernel, flash_of(c), grid, Sizes<DP>::THREADS, Sizes<DP>::BYTES, c->stream);
}

template <typename T> static TideStatus start(Device *d, const AttentionCall *c)
{
    if (c->s.head_dim <= 32) return start_padded<T, 32>(d, c);
    if (c->s.head_dim <= 64) return start_padded<T, 64>(d, c);
    if (c->s.head_dim <= 128) return start_padded<T, 128>(d, c);
    return start_padded<T, 256>(d, c);
}

TideStatus flash_attention_dkv(Device *d, const AttentionCall *c)
{
    return c->s.type == TIDE_BF16 ? start<bf16>(d, c) : start<f16>(d, c);
}
