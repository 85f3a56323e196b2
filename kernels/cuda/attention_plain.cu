/* attention_plain.cu - causal attention for what tensor cores do not serve: f32, and odd widths of a
 * head. A warp owns one row: 32 scores at a time, one a lane, then the columns of the result. Also
 * delta, which every backward of ours needs. */
#include "kernels/cuda/attention_flash.cuh"

enum { WARPS = 4, THREADS = WARPS * WARP, MOST_DIM = 256, MOST_COLUMNS = MOST_DIM / WARP };

/* A row that all lanes read, in f32. */
template <typename T> static __device__ __forceinline__ void share_row(float *to, const T *from, int n)
{
    for (int d = threadIdx.x % WARP; d < n; d += WARP) to[d] = to_float(from[d]);
}

/* Rows start at multiples of V elements, V divides n. */
template <int V, typename T> static __device__ __forceinline__ float dot(const float *x, const T *y, int n)
{
    float sum = 0;

    for (int d = 0; d < n; d += V) {
        float part[V];
        load_floats<V>(part, y + d);
#pragma unroll
        for (int i = 0; i < V; i++) sum = fmaf(x[d + i], part[i], sum);
    }
    return sum;
}

/* sum += factor * row, a lane every 32nd column. */
template <typename T>
static __device__ __forceinline__ void add_row(float (&sum)[MOST_COLUMNS], float factor, const T *row, int n)
{
#pragma unroll
    for (int c = 0; c < MOST_COLUMNS; c++) {
        int d = c * WARP + (int)threadIdx.x % WARP;
        if (d < n) sum[c] = fmaf(factor, to_float(row[d]), sum[c]);
    }
}

template <typename T>
static __device__ __forceinline__ void put_row(T *to, const float (&sum)[MOST_COLUMNS], float factor, int n)
{
#pragma unroll
    for (int c = 0; c < MOST_COLUMNS; c++) {
        int d = c * WARP + (int)threadIdx.x % WARP;
        if (d < n) to[d] = from_float<T>(sum[c] * factor);
    }
}

/* What a probability is multiplied with. */
static __device__ __forceinline__ float keep_of(const Flash &f, const Dropout &d, int query, int key)
{
    if (!f.info) return 1.0f;
    return d.word(query, key) >= d.least ? f.keep_scale : 0.0f;
}

/* The warp's item of blockIdx.x, and what it is of: [sequences, heads, tokens]. */
struct Item {
    int sequence, head, token;
};

static __device__ __forceinline__ Item item_at(int64_t i, int heads, int tokens)
{
    Item at = { (int)(i / tokens / heads), (int)(i / tokens % heads), (int)(i % tokens) };

    return at;
}

template <typename T> static __device__ __forceinline__ const T *row_of(const Flash &f, Item at, int head)
{
    return (const T *)f.qkv + ((int64_t)at.sequence * f.tokens + at.token) * f.row +
           (int64_t)head * f.head_dim;
}

/* ---- Forward ---------------------------------------------------------------------------- */

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS) plain(const Flash f, int64_t items)
{
    __shared__ float shared[WARPS][MOST_DIM];
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, n = f.head_dim;
    int64_t item = (int64_t)blockIdx.x * WARPS + warp;
    float o[MOST_COLUMNS] = {}, most = -INFINITY, sum = 0;
    Dropout dropout = {};

    if (item >= items) return;
    Item at = item_at(item, f.heads, f.tokens);
    int kv_head = f.heads + at.head / (f.heads / f.kv_heads);
    if (f.info) dropout = dropout_of(f, at.sequence, at.head);
    share_row(shared[warp], row_of<T>(f, at, at.head), n);
    __syncwarp();
    for (int first = 0; first <= at.token; first += WARP) {
        Item key = { at.sequence, at.head, first + lane };
        const T *values = row_of<T>(f, { at.sequence, at.head, first }, kv_head + f.kv_heads);
        bool seen = key.token <= at.token;
        float s = seen ? f.scale * dot<V>(shared[warp], row_of<T>(f, key, kv_head), n) : -INFINITY;
        float top = fmaxf(most, warp_max(s)), shrink = expf(most - top), p = expf(s - top);
        float kept = seen ? p * keep_of(f, dropout, at.token, key.token) : 0.0f;
        int count = min(WARP, at.token - first + 1);

        most = top;
        sum = sum * shrink + p;
#pragma unroll
        for (int c = 0; c < MOST_COLUMNS; c++) o[c] *= shrink;
        for (int j = 0; j < count; j++) add_row(o, __shfl_sync(~0u, kept, j), values + (int64_t)j * f.row, n);
    }
    sum = warp_sum(sum);
    T *to = (T *)f.out + ((int64_t)at.sequence * f.tokens + at.token) * f.o_row + (int64_t)at.head * n;
    put_row(to, o, 1.0f / sum, n);
    if (lane == 0) f.lse_out[item] = most + logf(sum);
}

/* ---- Backward ----------------------------------------------------------------------------- */

/* delta of a row: the sum of o * do. Warps go over heads first, so that they read o in order. */
template <typename T>
static __global__ void __launch_bounds__(THREADS) delta_rows(const Flash f, int64_t items)
{
    int64_t item = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    float sum = 0;

    if (item >= items) return;
    const T *o = (const T *)f.o + item * f.head_dim, *d_o = (const T *)f.d_o + item * f.head_dim;
    int64_t row = item / f.heads, head = item % f.heads;
    for (int d = threadIdx.x % WARP; d < f.head_dim; d += WARP)
        sum = fmaf(to_float(o[d]), to_float(d_o[d]), sum);
    sum = warp_sum(sum);
    float *delta = (float *)f.delta + (row / f.tokens * f.heads + head) * f.tokens + row % f.tokens;
    if (threadIdx.x % WARP == 0) *delta = sum;
}

template <typename T> static __device__ __forceinline__ const T *d_o_of(const Flash &f, Item at)
{
    return (const T *)f.d_o + ((int64_t)at.sequence * f.tokens + at.token) * f.o_row +
           (int64_t)at.head * f.head_dim;
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS) plain_dq(const Flash f, int64_t items)
{
    __shared__ float shared[WARPS][2][MOST_DIM];
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, n = f.head_dim;
    int64_t item = (int64_t)blockIdx.x * WARPS + warp;
    float dq[MOST_COLUMNS] = {};
    Dropout dropout = {};

    if (item >= items) return;
    Item at = item_at(item, f.heads, f.tokens);
    int kv_head = f.heads + at.head / (f.heads / f.kv_heads);
    if (f.info) dropout = dropout_of(f, at.sequence, at.head);
    share_row(shared[warp][0], row_of<T>(f, at, at.head), n);
    share_row(shared[warp][1], d_o_of<T>(f, at), n);
    __syncwarp();
    for (int first = 0; first <= at.token; first += WARP) {
        Item key = { at.sequence, at.head, first + lane };
        const T *keys = row_of<T>(f, { at.sequence, at.head, first }, kv_head);
        int count = min(WARP, at.token - first + 1);
        float ds = 0;

        if (key.token <= at.token) {
            float s = f.scale * dot<V>(shared[warp][0], row_of<T>(f, key, kv_head), n);
            float dp = dot<V>(shared[warp][1], row_of<T>(f, key, kv_head + f.kv_heads), n);
            ds = expf(s - f.lse[item]) * (dp * keep_of(f, dropout, at.token, key.token) - f.delta[item]);
        }
        for (int j = 0; j < count; j++) add_row(dq, __shfl_sync(~0u, ds, j), keys + (int64_t)j * f.row, n);
    }
    put_row((T *)f.out + (row_of<T>(f, at, at.head) - (const T *)f.qkv), dq, f.scale, n);
}

/* One query head's share of dk and dv of a key. k and v of it are in shared memory. */
template <typename T, int V>
static __device__ __forceinline__ void add_queries(float (&dk)[MOST_COLUMNS], float (&dv)[MOST_COLUMNS],
                                                   const float (*kv)[MOST_DIM], const Flash &f, Item key)
{
    int lane = threadIdx.x % WARP, n = f.head_dim;
    int64_t rows = ((int64_t)key.sequence * f.heads + key.head) * f.tokens;
    Dropout dropout = {};

    if (f.info) dropout = dropout_of(f, key.sequence, key.head);
    for (int first = key.token; first < f.tokens; first += WARP) {
        Item start = { key.sequence, key.head, first }, query = { key.sequence, key.head, first + lane };
        int count = min(WARP, f.tokens - first);
        float ds = 0, p = 0;

        if (query.token < f.tokens) {
            float s = f.scale * dot<V>(kv[0], row_of<T>(f, query, key.head), n);
            float dp = dot<V>(kv[1], d_o_of<T>(f, query), n);
            float keep = keep_of(f, dropout, query.token, key.token);
            p = expf(s - f.lse[rows + query.token]);
            ds = p * (dp * keep - f.delta[rows + query.token]);
            p *= keep;
        }
        for (int i = 0; i < count; i++) {
            add_row(dv, __shfl_sync(~0u, p, i), d_o_of<T>(f, start) + (int64_t)i * f.o_row, n);
            add_row(dk, __shfl_sync(~0u, ds, i), row_of<T>(f, start, key.head) + (int64_t)i * f.row, n);
        }
    }
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS) plain_dkv(const Flash f, int64_t items)
{
    __shared__ float shared[WARPS][2][MOST_DIM];
    int warp = threadIdx.x / WARP, n = f.head_dim, group = f.heads / f.kv_heads;
    int64_t item = (int64_t)blockIdx.x * WARPS + warp;
    float dk[MOST_COLUMNS] = {}, dv[MOST_COLUMNS] = {};

    if (item >= items) return;
    Item at = item_at(item, f.kv_heads, f.tokens);
    const T *k = row_of<T>(f, at, f.heads + at.head), *v = k + (int64_t)f.kv_heads * n;
    share_row(shared[warp][0], k, n);
    share_row(shared[warp][1], v, n);
    __syncwarp();
    for (int h = 0; h < group; h++)
        add_queries<T, V>(dk, dv, shared[warp], f, { at.sequence, at.head * group + h, at.token });
    put_row((T *)f.out + (k - (const T *)f.qkv), dk, f.scale, n);
    put_row((T *)f.out + (v - (const T *)f.qkv), dv, 1.0f, n);
}

/* ---- Launching ------------------------------------------------------------------------------ */

typedef void (*Rows)(const Flash f, int64_t items);

/* A kernel for each storage type, reading one number at a time or four. */
static TideStatus start(Device *d, const AttentionCall *c, const Rows (*kernels)[2], int64_t heads)
{
    const AttentionShape *s = &c->s;
    int64_t items = s->batch * heads * s->tokens;

    kernels[s->type][s->head_dim % 4 == 0]<<<blocks_for(items, WARPS), THREADS, 0, c->stream>>>(flash_of(c),
                                                                                                items);
    return cuda_check(d, cudaGetLastError(), "attention");
}

TideStatus plain_attention(Device *d, const AttentionCall *c)
{
    static const Rows kernels[][2] = { { plain<float, 1>, plain<float, 4> },
                                       { plain<bf16, 1>, plain<bf16, 4> },
                                       { plain<f16, 1>, plain<f16, 4> } };

    return start(d, c, kernels, c->s.heads);
}

TideStatus plain_attention_grad(Device *d, const AttentionCall *c)
{
    static const Rows dq[][2] = { { plain_dq<float, 1>, plain_dq<float, 4> },
                                  { plain_dq<bf16, 1>, plain_dq<bf16, 4> },
                                  { plain_dq<f16, 1>, plain_dq<f16, 4> } };
    static const Rows dkv[][2] = { { plain_dkv<float, 1>, plain_dkv<float, 4> },
                                   { plain_dkv<bf16, 1>, plain_dkv<bf16, 4> },
                                   { plain_dkv<f16, 1>, plain_dkv<f16, 4> } };

    TRY(start(d, c, dq, c->s.heads));
    return start(d, c, dkv, c->s.kv_heads);
}

TideStatus attention_delta(Device *d, const AttentionCall *c)
{
    static const Rows delta[][2] = { { delta_rows<float>, delta_rows<float> },
                                     { delta_rows<bf16>, delta_rows<bf16> },
                                     { delta_rows<f16>, delta_rows<f16> } };

    return start(d, c, delta, c->s.heads);
}
