/* attention_flash.cuh - what the flash kernels share: tiles in shared memory, products of 16-bit
 * tiles on tensor cores with f32 sums, and dropout of a tile of probabilities.
 *
 * A tile of scores lies in registers as mma.sync m16n8k16 leaves it: lane l holds, of 16 rows and 8
 * columns, rows l/4 and l/4 + 8, columns 2 * (l%4) and the next. Two such tiles side by side are,
 * rounded to 16 bits, the left factor of the next product. */
#ifndef TIDE_CUDA_ATTENTION_FLASH_CUH
#define TIDE_CUDA_ATTENTION_FLASH_CUH
#include "kernels/cuda/attention_engines.h"
#include "kernels/cuda/cuda_common.cuh"
#include "kernels/cuda/philox.cuh"

/* One call, by value. Rows of qkv are `row` elements long, those of o `o_row`. */
struct Flash {
    const void *qkv, *o, *d_o;
    const float *lse, *delta; /* [batch, heads, tokens] */
    void *out;
    float *lse_out;
    const TideStepInfo *info;
    int64_t first, row, o_row;
    int tokens, heads, kv_heads, head_dim, site;
    float scale, keep_scale; /* of scores; of probabilities that survive */
    uint32_t least;          /* a probability survives if its word is at least this */
};

static inline Flash flash_of(const AttentionCall *c)
{
    const AttentionShape *s = &c->s;
    Flash f = {};

    f.qkv = c->qkv;
    f.o = c->o;
    f.d_o = c->d_o;
    f.lse = c->lse;
    f.delta = (const float *)c->scratch;
    f.out = c->out;
    f.lse_out = c->lse_out;
    f.info = c->info;
    f.first = c->first;
    f.row = (int64_t)(s->heads + 2 * s->kv_heads) * s->head_dim;
    f.o_row = (int64_t)s->heads * s->head_dim;
    f.tokens = (int)s->tokens;
    f.heads = s->heads;
    f.kv_heads = s->kv_heads;
    f.head_dim = s->head_dim;
    f.site = c->site;
    f.scale = 1.0f / sqrtf((float)s->head_dim);
    f.keep_scale = 1.0f / (1.0f - c->dropout);
    f.least = philox_least(c->dropout);
    return f;
}

constexpr float LOG2_E = 1.44269504f;

/* 2^x in one instruction, 0 for minus infinity; off by at most 2^-22 of the result. */
static __device__ __forceinline__ float power_of_2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* ---- Tiles in shared memory ----------------------------------------------------------- */

/* Rows of DP elements and 16 bytes more, so that eight rows start in different banks. */
template <int DP> constexpr int PITCH = DP + 8;

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Start to copy rows [first, first + ROWS) of a matrix into a tile; what lies outside of `rows` rows or
 * `cols` columns becomes zero. */
template <int ROWS, int DP, int THREADS, typename T>
static __device__ __forceinline__ void tile_load(T *tile, const T *from, int64_t pitch, int first, int rows,
                                                 int cols)
{
    constexpr int PACKS = DP / 8;

#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * PACKS; i += THREADS) {
        int r = i / PACKS, c = i % PACKS * 8;
        bool inside = first + r < rows && c < cols;
        const T *source = inside ? from + (int64_t)(first + r) * pitch + c : from;
        asm volatile(
            "cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(tile + r * PITCH<DP> + c)),
            "l"(source), "r"(inside ? 16 : 0));
    }
}

/* Rows of a tile to rows of a matrix, in 16-byte stores. */
template <int ROWS, int DP, int THREADS, typename T>
static __device__ __forceinline__ void tile_store(T *to, int64_t pitch, const T *tile, int first, int rows,
                                                  int cols)
{
    constexpr int PACKS = DP / 8;

    for (int i = threadIdx.x; i < ROWS * PACKS; i += THREADS) {
        int r = i / PACKS, c = i % PACKS * 8;
        if (first + r < rows && c < cols)
            *(uint4 *)(to + (int64_t)(first + r) * pitch + c) = *(const uint4 *)(tile + r * PITCH<DP> + c);
    }
}

/* ---- Fragments --------------------------------------------------------------------------- */

static __device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)));
}

static __device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)));
}

/* Left factor: 16 rows and 16 columns of a tile. */
template <int DP, typename T>
static __device__ __forceinline__ void left_factor(uint32_t (&a)[4], const T *tile, int row, int col)
{
    int lane = threadIdx.x % WARP;

    load_matrices(a, tile + (row + lane % 16) * PITCH<DP> + col + lane / 16 * 8);
}

/* Right factor, when the product runs along the tile's rows (x times its transpose): 16 rows of the
 * tile are two tiles of 8 columns, b[0..1] and b[2..3]; 16 of its columns are summed over. */
template <int DP, typename T>
static __device__ __forceinline__ void right_rows(uint32_t (&b)[4], const T *tile, int row, int col)
{
    int lane = threadIdx.x % WARP;

    load_matrices(b, tile + (row + lane % 8 + lane / 16 * 8) * PITCH<DP> + col + lane / 8 % 2 * 8);
}

/* Right factor, when the sum runs along the tile's rows: 16 of them are summed over, 16 columns are two
 * tiles of 8, b[0..1] and b[2..3]. */
template <int DP, typename T>
static __device__ __forceinline__ void right_columns(uint32_t (&b)[4], const T *tile, int row, int col)
{
    int lane = threadIdx.x % WARP;

    load_matrices_transposed(b, tile + (row + lane % 16) * PITCH<DP> + col + lane / 16 * 8);
}

template <typename T>
static __device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                uint32_t b1);

template <>
__device__ __forceinline__ void multiply<bf16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void multiply<f16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <typename T> static __device__ __forceinline__ uint32_t pair(float low, float high)
{
    T both[2] = { from_float<T>(low), from_float<T>(high) };

    return *(const uint32_t *)both;
}

/* Two neighbouring tiles of a result as the left factor of the next product. */
template <typename T>
static __device__ __forceinline__ void as_left_factor(uint32_t (&a)[4], const float (&x)[4],
                                                      const float (&y)[4])
{
    a[0] = pair<T>(x[0], x[1]);
    a[1] = pair<T>(x[2], x[3]);
    a[2] = pair<T>(y[0], y[1]);
    a[3] = pair<T>(y[2], y[3]);
}

/* A 16 x 8 result, scaled, into a tile. row, col: of its corner. */
template <int DP, typename T>
static __device__ __forceinline__ void put_result(T *tile, int row, int col, const float (&c)[4],
                                                  float low_scale, float high_scale)
{
    int lane = threadIdx.x % WARP, at = (row + lane / 4) * PITCH<DP> + col + lane % 4 * 2;

    *(uint32_t *)(tile + at) = pair<T>(c[0] * low_scale, c[1] * low_scale);
    *(uint32_t *)(tile + at + 8 * PITCH<DP>) = pair<T>(c[2] * high_scale, c[3] * high_scale);
}

/* ---- Dropout --------------------------------------------------------------------------------- */

/* Probability (query, key) of a head is element (head * tokens + query) * tokens + key of its site. */
struct Dropout {
    Philox philox;
    uint64_t head; /* number of the sequence * heads + head */
    uint32_t least;
    int tokens;

    __device__ __forceinline__ uint64_t element(int query, int key) const
    {
        return (head * (uint64_t)tokens + (uint64_t)query) * (uint64_t)tokens + (uint64_t)key;
    }

    __device__ __forceinline__ uint32_t word(int query, int key) const
    {
        uint64_t e = element(query, key);
        uint4 w = philox_block(philox, e / 4);
        uint32_t low = e % 2 ? w.y : w.x, high = e % 2 ? w.w : w.z;

        return e % 4 < 2 ? low : high;
    }
};

static __device__ __forceinline__ Dropout dropout_of(const Flash &f, int sequence, int head)
{
    Dropout d = { philox_of(f.info, f.site), (uint64_t)((f.first + sequence) * f.heads + head), f.least,
                  f.tokens };

    return d;
}

/* The words of a tile of scores, queries down, keys across; query, key: of its corner. Where a row of
 * scores is whole blocks of four words, a pair of lanes makes one block for each of its two rows and
 * they trade halves. */
static __device__ __forceinline__ void words_by_query(uint32_t (&w)[4], const Dropout &d, int query, int key)
{
    int lane = threadIdx.x % WARP, odd = lane % 2, row = query + lane / 4, col = key + lane % 4 * 2;

    if (d.tokens % 4) {
#pragma unroll
        for (int i = 0; i < 4; i++) w[i] = d.word(row + i / 2 * 8, col + i % 2);
        return;
    }
    uint4 mine = philox_block(d.philox, d.element(row + 8 * odd, col - 2 * odd) / 4);
    uint32_t x = __shfl_xor_sync(~0u, odd ? mine.x : mine.z, 1);
    uint32_t y = __shfl_xor_sync(~0u, odd ? mine.y : mine.w, 1);
    w[0] = odd ? x : mine.x;
    w[1] = odd ? y : mine.y;
    w[2] = odd ? mine.z : x;
    w[3] = odd ? mine.w : y;
}

/* Swap the words of two lanes that differ in one bit, so that after both bits word c of lane r is word
 * r of lane c. */
static __device__ __forceinline__ void trade(uint32_t &low, uint32_t &high, bool upper, int mask)
{
    uint32_t got = __shfl_xor_sync(~0u, upper ? low : high, mask);

    if (upper)
        low = got;
    else
        high = got;
}

/* The same for a tile with keys down, queries across: four lanes, whose rows are four keys of one block,
 * make the blocks of two queries and two groups of keys, and transpose them. */
static __device__ __forceinline__ void words_by_key(uint32_t (&w)[4], const Dropout &d, int key, int query)
{
    int lane = threadIdx.x % WARP, r = lane / 4 % 4, row = key + lane / 4, col = query + lane % 4 * 2;

    if (d.tokens % 4) {
#pragma unroll
        for (int i = 0; i < 4; i++) w[i] = d.word(col + i % 2, row + i / 2 * 8);
        return;
    }
    uint4 mine = philox_block(d.philox, d.element(col + r % 2, row - r + r / 2 * 8) / 4);
    w[0] = mine.x;
    w[1] = mine.y;
    w[2] = mine.z;
    w[3] = mine.w;
    trade(w[0], w[1], r % 2, 4);
    trade(w[2], w[3], r % 2, 4);
    trade(w[0], w[2], r / 2, 8);
    trade(w[1], w[3], r / 2, 8);
}

/* ---- Launching ---------------------------------------------------------------------------------- */

/* Let a kernel take this much shared memory, launch it, and say what went wrong. */
template <typename Kernel>
static TideStatus flash_launch(Device *d, Kernel *kernel, const Flash &f, dim3 grid, int threads,
                               size_t bytes, cudaStream_t stream)
{
    TRY(cuda_check(d, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                   "shared memory of attention"));
    kernel<<<grid, threads, bytes, stream>>>(f);
    return cuda_check(d, cudaGetLastError(), "attention");
}

#endif
