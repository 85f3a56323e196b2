/* attention_flash_dq.cu - the gradient of queries on tensor cores.
 *
 * A block of four warps owns 64 queries of one head, a warp 16 of them, and walks over blocks of BN
 * keys up to its diagonal: dq = scale * sum over keys of p (dp - delta) k. */
#include "kernels/cuda/attention_flash_grad.cuh"

enum { WARPS = 4, THREADS = WARPS * WARP, BM = WARPS * 16 };

template <int DP> struct Sizes {
    static constexpr int BN = DP <= 64 ? 64 : DP <= 128 ? 32 : 16;
    static constexpr int STAGES = DP <= 128 ? 2 : 1; /* blocks of keys in shared memory */
    static constexpr size_t BYTES = (size_t)(2 * BM + 2 * STAGES * BN) * PITCH<DP> * 2;
};

/* Scores become their gradients: dp comes in ds. stats: log2 of the sum of exp(score), and delta, of
 * rows lane/4 and lane/4 + 8. */
template <int N, bool DROPS>
static __device__ __forceinline__ void score_gradients(float (&s)[N][4], float (&ds)[N][4],
                                                       const float (&stats)[2][2], const Dropout &dropout,
                                                       const Flash &f, int query, int key)
{
    int lane = threadIdx.x % WARP, row = query + lane / 4, col = key + lane % 4 * 2;
    float scale = f.scale * LOG2_E;

#pragma unroll
    for (int n = 0; n < N; n++) {
        uint32_t w[4] = {};
        if (DROPS) words_by_query(w, dropout, query, key + 8 * n);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool seen = col + 8 * n + i % 2 <= row + i / 2 * 8;
            float p = seen ? power_of_2(s[n][i] * scale - stats[i / 2][0]) : 0.0f;
            float dp = ds[n][i];
            if (DROPS) dp = w[i] >= dropout.least ? dp * f.keep_scale : 0.0f;
            ds[n][i] = p * (dp - stats[i / 2][1]);
        }
    }
}

template <typename T, int DP, bool DROPS>
static __global__ void __launch_bounds__(THREADS) flash_dq(const Flash f)
{
    constexpr int BN = Sizes<DP>::BN, STAGES = Sizes<DP>::STAGES, TILE = BN * PITCH<DP>;
    extern __shared__ __align__(16) unsigned char shared[];
    T *q = (T *)shared, *d_o = q + BM * PITCH<DP>, *k = d_o + BM * PITCH<DP>, *v = k + STAGES * TILE;
    int head = blockIdx.y, sequence = blockIdx.z, first = (int)(gridDim.x - 1 - blockIdx.x) * BM;
    int kv_head = head / (f.heads / f.kv_heads), row = (int)threadIdx.x / WARP * 16,
        lane = threadIdx.x % WARP;
    const T *queries = (const T *)f.qkv + (int64_t)sequence * f.tokens * f.row + (int64_t)head * f.head_dim;
    const T *keys = queries + (int64_t)(f.heads + kv_head - head) * f.head_dim;
    const T *values = keys + (int64_t)f.kv_heads * f.head_dim;
    const T *outputs = (const T *)f.d_o + (int64_t)sequence * f.tokens * f.o_row + (int64_t)head * f.head_dim;
    int64_t rows = ((int64_t)sequence * f.heads + head) * f.tokens;
    int blocks = (min(first + BM, f.tokens) + BN - 1) / BN;
    float dq[DP / 8][4] = {}, stats[2][2];
    Dropout dropout = {};

    if (DROPS) dropout = dropout_of(f, sequence, head);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int query = first + row + lane / 4 + 8 * half;
        stats[half][0] = query < f.tokens ? f.lse[rows + query] * LOG2_E : 0.0f;
        stats[half][1] = query < f.tokens ? f.delta[rows + query] : 0.0f;
    }
    tile_load<BM, DP, THREADS>(q, queries, f.row, first, f.tokens, f.head_dim);
    tile_load<BM, DP, THREADS>(d_o, outputs, f.o_row, first, f.tokens, f.head_dim);
    tile_load<BN, DP, THREADS>(k, keys, f.row, 0, f.tokens, f.head_dim);
    tile_load<BN, DP, THREADS>(v, values, f.row, 0, f.tokens, f.head_dim);
    async_commit();
    for (int block = 0; block < blocks; block++) {
        int key = block * BN, here = block % STAGES * TILE, ahead = (block + 1) % STAGES * TILE;
        float s[BN / 8][4], ds[BN / 8][4];

        if (STAGES == 2) {
            if (block + 1 < blocks) {
                tile_load<BN, DP, THREADS>(k + ahead, keys, f.row, key + BN, f.tokens, f.head_dim);
                tile_load<BN, DP, THREADS>(v + ahead, values, f.row, key + BN, f.tokens, f.head_dim);
            }
            async_commit();
        }
        async_wait<STAGES - 1>();
        __syncthreads();
        if (key <= first + row + 15) { /* seen by any of the warp's queries */
            multiply_rows<T, DP>(s, q, k + here, row);
            multiply_rows<T, DP>(ds, d_o, v + here, row);
            score_gradients<BN / 8, DROPS>(s, ds, stats, dropout, f, first + row, key);
            add_product<T, DP>(dq, ds, k + here, 0);
        }
        __syncthreads();
        if (STAGES == 1 && block + 1 < blocks) {
            tile_load<BN, DP, THREADS>(k, keys, f.row, key + BN, f.tokens, f.head_dim);
            tile_load<BN, DP, THREADS>(v, values, f.row, key + BN, f.tokens, f.head_dim);
            async_commit();
        }
    }
#pragma unroll
    for (int d = 0; d < DP / 8; d++) put_result<DP>(q, row, 8 * d, dq[d], f.scale, f.scale);
    __syncthreads();
    tile_store<BM, DP, THREADS>((T *)f.out + (queries - (const T *)f.qkv), f.row, q, first, f.tokens,
                                f.head_dim);
}

/* ---- Launching ---------------------------------------------------------------------------- */

template <typename T, int DP> static TideStatus start_padded(Device *d, const AttentionCall *c)
{
    const AttentionShape *s = &c->s;
    dim3 grid(blocks_for(s->tokens, BM), (unsigned)s->heads, (unsigned)s->batch);
    auto kernel = s->dropout ? flash_dq<T, DP, true> : flash_dq<T, DP, false>;

    return flash_launch(d, kernel, flash_of(c), grid, THREADS, Sizes<DP>::BYTES, c->stream);
}

template <typename T> static TideStatus start(Device *d, const AttentionCall *c)
{
    if (c->s.head_dim <= 32) return start_padded<T, 32>(d, c);
    if (c->s.head_dim <= 64) return start_padded<T, 64>(d, c);
    if (c->s.head_dim <= 128) return start_padded<T, 128>(d, c);
    return start_padded<T, 256>(d, c);
}

TideStatus flash_attention_dq(Device *d, const AttentionCall *c)
{
    return c->s.type == TIDE_BF16 ? start<bf16>(d, c) : start<f16>(d, c);
}

TideStatus flash_attention_grad(Device *d, const AttentionCall *c)
{
    TRY(flash_attention_dq(d, c));
    return flash_attention_dkv(d, c);
}
