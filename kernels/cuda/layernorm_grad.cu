/* layernorm_grad.cu - dx of every row, and per fixed block of rows a part of dweight, dbias and, where
 * they are wanted, of the column sums of dx, which a second kernel adds in block order. dx may lie in dy.
 *
 * A team of warps holds its sums in registers over all its rows. Rows that are no packs, or too long for
 * a team, take a loop over columns. */
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/row_team.cuh"

/* At most two blocks for each multiprocessor of a large GPU, at least four rows for each team of a
 * warp; constants, so that bits do not depend on the device. */
constexpr int MOST_PARTS = 256, LEAST_ROWS = 32;

template <typename T> struct Job {
    T *dx;                      /* [rows, C]                      */
    float *parts;               /* [n_parts, sums, C]: dweight, dbias, column sums of dx */
    const T *x, *dy, *residual; /* [rows, C]; residual may be NULL */
    const float *mean, *rstd;   /* [rows]                          */
    const T *weight;            /* [C]                             */
    int64_t rows, rows_per_part;
    int width, sums; /* 2 or 3 */
};

/* Outputs of the node that are sums over rows. */
enum { DWEIGHT = 1, DBIAS, DSUM };

static int sums_of(const Tensor *const *out)
{
    return out[DSUM] ? 3 : 2;
}

static int64_t rows_per_part(int64_t rows)
{
    int64_t each = (rows + MOST_PARTS - 1) / MOST_PARTS;

    return each < LEAST_ROWS ? LEAST_ROWS : each;
}

static int64_t n_parts(int64_t rows)
{
    return (rows + rows_per_part(rows) - 1) / rows_per_part(rows);
}

static size_t scratch(const Node *, const Tensor *const *in, const Tensor *const *out)
{
    return (size_t)(n_parts(shape_rows(in[0]->shape)) * sums_of(out) * shape_width(in[0]->shape)) *
           sizeof(float);
}

/* dx = residual + rstd * (h - mean(h) - xhat * mean(h * xhat)), h = dy * weight. */
static __device__ __forceinline__ float slope(float xhat, float h, float mean_h, float mean_hx, float rstd)
{
    return rstd * (h - mean_h - xhat * mean_hx);
}

/* ---- A team a row ------------------------------------------------------------------- */

constexpr int X = 0, DY = 1, RESIDUAL = 2, FETCHED = 3, STAGES = 2;

/* What a lane knows of one row beside its packs. */
struct Moments {
    float mean, rstd;
};

/* Start to fetch the lane's packs of row r, and read its moments. */
template <int PACKS, int W, typename T>
__device__ __forceinline__ Moments fetch(const Job<T> &j, Pack<T> *stage, int64_t r, const Team<W> &team)
{
    int64_t row = r * j.width;

    fetch_row<PACKS>(stage + X * PACKS * BLOCK, j.x + row, team, j.width);
    fetch_row<PACKS>(stage + DY * PACKS * BLOCK, j.dy + row, team, j.width);
    if (j.residual) fetch_row<PACKS>(stage + RESIDUAL * PACKS * BLOCK, j.residual + row, team, j.width);
    return { j.mean[r], j.rstd[r] };
}

/* Adds a pack of a row to the lane's part of dweight and dbias, and to its sums of h and h * xhat. */
template <typename T, int N>
__device__ __forceinline__ void take_pack(float (&sum)[2], float (&dw)[N], float (&db)[N], Pack<T, N> xs,
                                          Pack<T, N> dys, Pack<T, N> weights, Moments m)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        float dy = to_float(dys.v[i]), xhat = (to_float(xs.v[i]) - m.mean) * m.rstd;
        float h = dy * to_float(weights.v[i]);
        sum[0] += h;
        sum[1] += h * xhat;
        dw[i] += dy * xhat;
        db[i] += dy;
    }
}

/* dx = residual + rstd * h + slope * (x - mean) + shift: the same, for one multiply-add a term. */
struct Line {
    float slope, shift;
};

static __device__ __forceinline__ Line line_of(const Moments &m, float mean_h, float mean_hx)
{
    return { -m.rstd * m.rstd * mean_hx, -m.rstd * mean_h };
}

/* dx of a pack; dx holds the residual. */
template <typename T, int N>
__device__ __forceinline__ void slope_pack(float (&dx)[N], Pack<T, N> xs, Pack<T, N> dys, Pack<T, N> weights,
                                           const Moments &m, const Line &line)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        float h = to_float(dys.v[i]) * to_float(weights.v[i]);
        dx[i] = fmaf(m.rstd, h, fmaf(line.slope, to_float(xs.v[i]) - m.mean, dx[i] + line.shift));
    }
}

/* Writes the block's part: the sums of its teams [teams, sums, C], in order. */
template <typename T> static __device__ void write_part(const Job<T> &j, const float *sums, int teams)
{
    int n = j.sums * j.width;
    float *part = j.parts + (int64_t)blockIdx.x * n;

    for (int i = threadIdx.x; i < n; i += BLOCK) {
        float sum = sums[i];
        for (int t = 1; t < teams; t++) sum += sums[t * n + i];
        part[i] = sum;
    }
}

/* The teams of a block take the rows of its part in turn. x and dy are read from shared memory twice,
 * because the sums of dweight and dbias take most registers. */
template <typename T, int W, int PACKS, bool SUM>
static __global__ void __launch_bounds__(BLOCK, 2) by_teams(Job<T> j)
{
    extern __shared__ uint4 memory[]; /* [STAGES, FETCHED, PACKS, BLOCK] packs; at last the teams' sums */
    __shared__ float shared[2][BLOCK / WARP][2];
    constexpr int N = PACK<T>, STAGE = FETCHED * PACKS * BLOCK;
    Pack<T> *stages = reinterpret_cast<Pack<T> *>(memory), weights[PACKS] = {};
    Team<W> team = own_team<W>();
    int64_t first = blockIdx.x * j.rows_per_part;
    int64_t last = first + j.rows_per_part < j.rows ? first + j.rows_per_part : j.rows;
    float dw[PACKS][N] = {}, db[PACKS][N] = {}, ds[PACKS][N] = {}, per_width = 1.0f / (float)j.width;
    Moments next = {};
    int turn = 0;

    if (first + team.index < last) next = fetch<PACKS>(j, stages, first + team.index, team);
    async_commit();
    /* Where the sums leave registers for them: elsewhere the first cache has them. */
    constexpr bool KEEP = (SUM ? 3 : 2) * PACKS * N < 64;
    auto weight = [&](int k) {
        if constexpr (KEEP) return weights[k];
        return load<N>(j.weight + team.template column<N>(k));
    };
#pragma unroll
    for (int k = 0; KEEP && k < PACKS; k++)
        if (team.template column<N>(k) < j.width) weights[k] = load<N>(j.weight + team.template column<N>(k));
    for (int64_t r = first + team.index; r < last; r += team.COUNT, turn ^= 1) {
        const Pack<T> *stage = stages + turn * STAGE;
        Moments m = next;
        float sum[2] = {};

        if (r + team.COUNT < last) next = fetch<PACKS>(j, stages + (turn ^ 1) * STAGE, r + team.COUNT, team);
        async_commit();
        async_wait<1>(); /* the row before that one */
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            if (team.template column<N>(k) >= j.width) continue;
            Pack<T> x = fetched_pack(stage + X * PACKS * BLOCK, k);
            Pack<T> dy = fetched_pack(stage + DY * PACKS * BLOCK, k);
            take_pack(sum, dw[k], db[k], x, dy, weight(k), m);
        }
        team_sums(sum, shared[turn], team);
        Line line = line_of(m, sum[0] * per_width, sum[1] * per_width);
        asm volatile("" ::: "memory"); /* or the compiler keeps the packs in registers */
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            int at = team.template column<N>(k);
            float dx[N] = {};
            if (at >= j.width) continue;
            if (j.residual) unpack(dx, fetched_pack(stage + RESIDUAL * PACKS * BLOCK, k));
            slope_pack(dx, fetched_pack(stage + X * PACKS * BLOCK, k),
                       fetched_pack(stage + DY * PACKS * BLOCK, k), weight(k), m, line);
            Pack<T> stored = packed<T>(dx);
            store(j.dx + r * j.width + at, stored);
#pragma unroll
            for (int i = 0; SUM && i < N; i++) ds[k][i] += to_float(stored.v[i]);
        }
    }
    async_wait<0>();
    __syncthreads(); /* the stages of all teams are free */
    float *sums = reinterpret_cast<float *>(memory);
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        float *own = sums + team.index * (SUM ? 3 : 2) * j.width + team.template column<N>(k);
        if (team.template column<N>(k) >= j.width) continue;
        store_floats(own, dw[k]);
        store_floats(own + j.width, db[k]);
        if (SUM) store_floats(own + 2 * j.width, ds[k]);
    }
    __syncthreads();
    write_part(j, sums, team.COUNT);
}

/* ---- Any width: a block loops over the columns of a row ------------------------------- */

template <typename T> static __global__ void __launch_bounds__(BLOCK) by_columns(Job<T> j)
{
    __shared__ float shared[WARP + 1];
    float *dw = j.parts + (int64_t)blockIdx.x * j.sums * j.width, *db = dw + j.width;
    float *ds = j.sums > 2 ? db + j.width : NULL;
    int64_t first = blockIdx.x * j.rows_per_part;
    int64_t last = first + j.rows_per_part < j.rows ? first + j.rows_per_part : j.rows;

    for (int i = threadIdx.x; i < j.sums * j.width; i += BLOCK) dw[i] = 0;
    __syncthreads(); /* the columns of a thread are other ones below */
    for (int64_t r = first; r < last; r++) {
        const T *x = j.x + r * j.width, *dy = j.dy + r * j.width;
        float mean = j.mean[r], rstd = j.rstd[r], mean_h = 0, mean_hx = 0;
        for (int i = threadIdx.x; i < j.width; i += BLOCK) {
            float h = to_float(dy[i]) * to_float(j.weight[i]);
            mean_h += h;
            mean_hx += h * ((to_float(x[i]) - mean) * rstd);
        }
        mean_h = block_sum(mean_h, shared) / (float)j.width;
        mean_hx = block_sum(mean_hx, shared) / (float)j.width;
        for (int i = threadIdx.x; i < j.width; i += BLOCK) {
            float dyi = to_float(dy[i]), xhat = (to_float(x[i]) - mean) * rstd;
            float dx = slope(xhat, dyi * to_float(j.weight[i]), mean_h, mean_hx, rstd);
            dw[i] += dyi * xhat;
            db[i] += dyi;
            if (j.residual) dx += to_float(j.residual[r * j.width + i]);
            j.dx[r * j.width + i] = from_float<T>(dx);
            if (ds) ds[i] += rounded<T>(dx);
        }
    }
}

/* ---- Launching ----------------------------------------------------------------------------- */

/* True: launched. False: the device has too little shared memory. */
template <typename T, int W, int PACKS, bool SUM>
static bool launch_teams(const KernelCall *c, const Job<T> &j)
{
    size_t bytes = (size_t)STAGES * FETCHED * PACKS * BLOCK * sizeof(Pack<T>); /* 24 KiB a pack */

    static_assert(STAGES * FETCHED * sizeof(Pack<T>) >= 3 * PACK<T> * sizeof(float),
                  "the sums need the room");
    if (!resident_blocks(c, by_teams<T, W, PACKS, SUM>, BLOCK, bytes)) return false;
    by_teams<T, W, PACKS, SUM><<<(unsigned)n_parts(j.rows), BLOCK, bytes, cuda_stream(c)>>>(j);
    return true;
}

/* Three sums leave registers for two packs only, so that more warps share a row. */
template <typename T> static bool launch_packs(const KernelCall *c, const Job<T> &j)
{
    int packs = j.width / PACK<T>;

    if (!in_packs<T>(j.width)) return false;
    if (j.sums == 2) {
        if (packs <= 3 * WARP) return launch_teams<T, 1, 3, false>(c, j);
        if (packs <= 4 * WARP) return launch_teams<T, 2, 2, false>(c, j);
        if (packs <= 6 * WARP) return launch_teams<T, 2, 3, false>(c, j);
        if (packs <= 8 * WARP) return launch_teams<T, 4, 2, false>(c, j);
        if (packs <= 12 * WARP) return launch_teams<T, 4, 3, false>(c, j);
        return packs <= 16 * WARP && launch_teams<T, 8, 2, false>(c, j);
    }
    if (packs <= 2 * WARP) return launch_teams<T, 1, 2, true>(c, j);
    if (packs <= 4 * WARP) return launch_teams<T, 2, 2, true>(c, j);
    if (packs <= 8 * WARP) return launch_teams<T, 4, 2, true>(c, j);
    return packs <= 16 * WARP && launch_teams<T, 8, 2, true>(c, j);
}

template <typename T> static void launch(const KernelCall *c)
{
    TideShape shape = c->in_info[0]->shape;
    Job<T> j = { (T *)c->out[0],          (float *)c->scratch,
                 (const T *)c->in[0],     (const T *)c->in[4],
                 (const T *)c->in[5],     (const float *)c->in[1],
                 (const float *)c->in[2], (const T *)c->in[3],
                 shape_rows(shape),       rows_per_part(shape_rows(shape)),
                 (int)shape_width(shape), sums_of(c->out_info) };

    if (!launch_packs(c, j)) by_columns<T><<<(unsigned)n_parts(j.rows), BLOCK, 0, cuda_stream(c)>>>(j);
}

static void (*const launch_of[])(const KernelCall *) = { launch<float>, launch<bf16>, launch<f16> };

static TideStatus run(const KernelCall *c)
{
    TideShape shape = c->in_info[0]->shape;
    ColumnSums sums = { { column_sum(c, DWEIGHT, 6), column_sum(c, DBIAS, 7), column_sum(c, DSUM, 8) } };

    launch_of[c->out_info[0]->type](c);
    if (sums.of[0].to || sums.of[1].to || sums.of[2].to)
        launch_add_parts(c, sums, sums_of(c->out_info), c->scratch, (int)n_parts(shape_rows(shape)),
                         (int)shape_width(shape));
    return cuda_launched(c);
}

const Kernel cuda_layernorm_grad = { .run = run, .scratch = scratch };
