/* layernorm.cuh - the rows of layernorm, shared by every op that makes or remakes one: the same code
 * gives the same bits.
 *
 * A row lies in the registers of a team of warps where it fits, so that it is read once; a long row,
 * or one that is no packs, is shared by a block and read again from the cache. */
#ifndef TIDE_CUDA_LAYERNORM_CUH
#define TIDE_CUDA_LAYERNORM_CUH
#include "kernels/cuda/row_team.cuh"

enum RowsMode {
    ROWS_FIRST, /* y = layernorm(a), and the moments             */
    ROWS_ADD,   /* sum = a + b, y = layernorm(sum), the moments  */
    ROWS_AGAIN, /* y from a and the moments that are there       */
};

template <typename T> struct Rows {
    T *sum, *y;             /* [rows, C]; sum may be b           */
    float *mean, *rstd;     /* [rows]                            */
    const T *a, *b;         /* [rows, C]                         */
    const T *weight, *bias; /* [C]; bias may be NULL             */
    int64_t rows;
    int width;
};

/* Every step rounds once, written out so that no compiler contracts it differently elsewhere. */
static __device__ __forceinline__ float normalised(float x, float mean, float rstd, float weight, float bias)
{
    return __fmaf_rn(__fmul_rn(__fsub_rn(x, mean), rstd), weight, bias);
}

/* y of the pack x. */
template <typename T, int N>
__device__ __forceinline__ Pack<T, N> normalised_pack(Pack<T, N> x, Pack<T, N> weights, Pack<T, N> biases,
                                                      float mean, float rstd)
{
    float v[N], weight[N], bias[N];

    unpack(v, x);
    unpack(weight, weights);
    unpack(bias, biases);
#pragma unroll
    for (int k = 0; k < N; k++) v[k] = normalised(v[k], mean, rstd, weight[k], bias[k]);
    return packed<T>(v);
}

/* Zeros where there is no bias. */
template <int N, typename T> __device__ __forceinline__ Pack<T, N> bias_pack(const Rows<T> &j, int i)
{
    Pack<T, N> none = {};

    return j.bias ? load<N>(j.bias + i) : none;
}

/* a + b, rounded to what is stored: the layernorm is defined on that. */
template <typename T, int N> __device__ __forceinline__ Pack<T, N> add_packs(Pack<T, N> a, Pack<T, N> b)
{
    float x[N], y[N];

    unpack(x, a);
    unpack(y, b);
#pragma unroll
    for (int k = 0; k < N; k++) x[k] = __fadd_rn(x[k], y[k]);
    return packed<T>(x);
}

template <typename T, int N> __device__ __forceinline__ float pack_sum(Pack<T, N> x)
{
    float sum = 0;

#pragma unroll
    for (int k = 0; k < N; k++) sum += to_float(x.v[k]);
    return sum;
}

template <typename T, int N> __device__ __forceinline__ float pack_squares(Pack<T, N> x, float mean)
{
    float sum = 0;

#pragma unroll
    for (int k = 0; k < N; k++) sum += (to_float(x.v[k]) - mean) * (to_float(x.v[k]) - mean);
    return sum;
}

static __device__ __forceinline__ float rstd_of(float squares, int width)
{
    return 1.0f / sqrtf(squares / (float)width + 1e-5f);
}

/* ---- One team a row, up to PACKS packs a lane ------------------------------------------ */

constexpr int ROWS_STAGES = 2, ROWS_EACH = 4; /* rows that a team takes at least, where there are as many */

template <RowsMode MODE> constexpr int ROWS_INPUTS = MODE == ROWS_ADD ? 2 : 1;

/* Start to fetch the lane's packs of row r; also its moments, where they are there. */
template <RowsMode MODE, int PACKS, int W, typename T>
__device__ __forceinline__ float2 rows_fetch(const Rows<T> &j, Pack<T> *stage, int64_t r, const Team<W> &team)
{
    fetch_row<PACKS>(stage, j.a + r * j.width, team, j.width);
    if constexpr (MODE == ROWS_ADD) fetch_row<PACKS>(stage + PACKS * BLOCK, j.b + r * j.width, team, j.width);
    float2 moments = {};
    if constexpr (MODE == ROWS_AGAIN) moments = make_float2(j.mean[r], j.rstd[r]);
    return moments;
}

/* The moments of the row whose packs are x. */
template <int PACKS, int W, typename T>
__device__ __forceinline__ float2 row_moments(const Pack<T> (&x)[PACKS], float (*shared)[BLOCK / WARP][1],
                                              const Team<W> &team, int width)
{
    float sum[1] = {}, squares[1] = {};

#pragma unroll
    for (int k = 0; k < PACKS; k++)
        if (team.template column<PACK<T>>(k) < width) sum[0] += pack_sum(x[k]);
    team_sums(sum, shared[0], team);
    float mean = sum[0] / (float)width;
#pragma unroll
    for (int k = 0; k < PACKS; k++)
        if (team.template column<PACK<T>>(k) < width) squares[0] += pack_squares(x[k], mean);
    team_sums(squares, shared[1], team);
    return make_float2(mean, rstd_of(squares[0], width));
}

template <typename T, int W, int PACKS, RowsMode MODE>
static __global__ void __launch_bounds__(BLOCK, PACKS > 3 ? 3 : 4) rows_by_team(Rows<T> j)
{
    extern __shared__ uint4 memory[]; /* [ROWS_STAGES, inputs, PACKS, BLOCK] packs */
    __shared__ float shared[2][BLOCK / WARP][1];
    constexpr int N = PACK<T>, STAGE = ROWS_INPUTS<MODE> * PACKS * BLOCK;
    Pack<T> *stages = reinterpret_cast<Pack<T> *>(memory);
    Team<W> team = own_team<W>();
    int64_t first = (int64_t)blockIdx.x * team.COUNT + team.index, step = (int64_t)gridDim.x * team.COUNT;
    float2 next = {};
    int turn = 0;

    if (first < j.rows) next = rows_fetch<MODE, PACKS>(j, stages, first, team);
    async_commit();
    for (int64_t r = first; r < j.rows; r += step, turn ^= 1) {
        const Pack<T> *stage = stages + turn * STAGE;
        int64_t row = r * j.width;
        float2 moments = next;
        Pack<T> x[PACKS];
        if (r + step < j.rows) next = rows_fetch<MODE, PACKS>(j, stages + (turn ^ 1) * STAGE, r + step, team);
        async_commit();
        async_wait<1>(); /* the row before that one */
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            int at = team.template column<N>(k);
            if (at >= j.width) continue;
            x[k] = fetched_pack(stage, k);
            if constexpr (MODE == ROWS_ADD) {
                x[k] = add_packs(x[k], fetched_pack(stage + PACKS * BLOCK, k));
                store(j.sum + row + at, x[k]);
            }
        }
        if constexpr (MODE != ROWS_AGAIN) {
            moments = row_moments(x, shared, team, j.width);
            if (team.lane == 0) j.mean[r] = moments.x;
            if (team.lane == 0) j.rstd[r] = moments.y;
        }
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            int at = team.template column<N>(k);
            if (at >= j.width) continue;
            /* The first cache has them; registers for them would be missing elsewhere. */
            Pack<T> weight = load<N>(j.weight + at), bias = bias_pack<N>(j, at);
            store(j.y + row + at, normalised_pack(x[k], weight, bias, moments.x, moments.y));
        }
    }
}

/* ---- One block a row --------------------------------------------------------------- */

template <typename T, int N, RowsMode MODE>
static __global__ void __launch_bounds__(BLOCK) rows_by_block(Rows<T> j)
{
    __shared__ float shared[WARP + 1];
    int64_t r = blockIdx.x, row = r * j.width;
    const T *x = MODE == ROWS_ADD ? j.sum : j.a;
    float mean = 0, rstd = 0;

    if constexpr (MODE == ROWS_AGAIN) {
        mean = j.mean[r];
        rstd = j.rstd[r];
    } else {
        for (int i = threadIdx.x * N; i < j.width; i += BLOCK * N) {
            Pack<T, N> p = load<N>(j.a + row + i);
            if constexpr (MODE == ROWS_ADD) {
                p = add_packs(p, load<N>(j.b + row + i));
                store(j.sum + row + i, p); /* read again below, by this thread */
            }
            mean += pack_sum(p);
        }
        mean = block_sum(mean, shared) / (float)j.width;
        for (int i = threadIdx.x * N; i < j.width; i += BLOCK * N)
            rstd += pack_squares(load<N>(x + row + i), mean);
        rstd = rstd_of(block_sum(rstd, shared), j.width);
        if (threadIdx.x == 0) j.mean[r] = mean;
        if (threadIdx.x == 0) j.rstd[r] = rstd;
    }
    for (int i = threadIdx.x * N; i < j.width; i += BLOCK * N)
        store(j.y + row + i,
              normalised_pack(load<N>(x + row + i), load<N>(j.weight + i), bias_pack<N>(j, i), mean, rstd));
}

/* ---- Launching ---------------------------------------------------------------------- */

/* True: launched. False: the device has too little shared memory. */
template <typename T, int W, int PACKS, RowsMode MODE>
static bool rows_launch_teams(const KernelCall *c, const Rows<T> &j)
{
    size_t bytes = (size_t)ROWS_STAGES * ROWS_INPUTS<MODE> * PACKS * BLOCK * sizeof(Pack<T>);
    unsigned most = resident_blocks(c, rows_by_team<T, W, PACKS, MODE>, BLOCK, bytes);
    unsigned wanted = blocks_for(j.rows, ROWS_EACH * Team<W>::COUNT), blocks = wanted < most ? wanted : most;

    if (!most) return false;
    rows_by_team<T, W, PACKS, MODE><<<blocks, BLOCK, bytes, cuda_stream(c)>>>(j);
    return true;
}

template <typename T, RowsMode MODE> static bool rows_launch_packs(const KernelCall *c, const Rows<T> &j)
{
    int packs = j.width / PACK<T>;

    if (!in_packs<T>(j.width)) return false;
    if (packs <= 3 * WARP) return rows_launch_teams<T, 1, 3, MODE>(c, j);
    if (packs <= 4 * WARP) return rows_launch_teams<T, 2, 2, MODE>(c, j);
    if (packs <= 6 * WARP) return rows_launch_teams<T, 2, 3, MODE>(c, j);
    if (packs <= 8 * WARP) return rows_launch_teams<T, 4, 2, MODE>(c, j);
    if (packs <= 12 * WARP) return rows_launch_teams<T, 4, 3, MODE>(c, j);
    return packs <= 16 * WARP && rows_launch_teams<T, 4, 4, MODE>(c, j);
}

template <typename T, RowsMode MODE> static void rows_launch(const KernelCall *c, const Rows<T> &j)
{
    if (rows_launch_packs<T, MODE>(c, j)) return;
    if (in_packs<T>(j.width))
        rows_by_block<T, PACK<T>, MODE><<<(unsigned)j.rows, BLOCK, 0, cuda_stream(c)>>>(j);
    else
        rows_by_block<T, 1, MODE><<<(unsigned)j.rows, BLOCK, 0, cuda_stream(c)>>>(j);
}

#endif
