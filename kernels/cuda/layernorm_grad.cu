/* layernorm_grad.cu - dx of every row, and per fixed block of rows a part of dweight and dbias that
 * a second kernel adds in block order. dx may lie in dy.
 *
 * A team of warps holds its sums of dweight and dbias in registers over all its rows. Rows that are
 * no packs, or too long for a team, take a loop over columns. */
#include "kernels/cuda/row_team.cuh"

/* At most two blocks for each multiprocessor of a large GPU, at least four rows for each team of a
 * warp; constants, so that bits do not depend on the device. */
constexpr int MOST_PARTS = 256, LEAST_ROWS = 32;

template <typename T> struct Job {
    T *dx;                      /* [rows, C]                      */
    float *parts;               /* [n_parts, 2, C]: dweight, dbias */
    const T *x, *dy, *residual; /* [rows, C]; residual may be NULL */
    const float *mean, *rstd;   /* [rows]                          */
    const T *weight;            /* [C]                             */
    int64_t rows, rows_per_part;
    int width;
};

static int64_t rows_per_part(int64_t rows)
{
    int64_t each = (rows + MOST_PARTS - 1) / MOST_PARTS;

    return each < LEAST_ROWS ? LEAST_ROWS : each;
}

static int64_t n_parts(int64_t rows)
{
    return (rows + rows_per_part(rows) - 1) / rows_per_part(rows);
}

static size_t scratch(const Node *, const Tensor *const *in, const Tensor *const *)
{
    return (size_t)(n_parts(shape_rows(in[0]->shape)) * 2 * shape_width(in[0]->shape)) * sizeof(float);
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

/* dx of a pack; dx holds the residual. */
template <typename T, int N>
__device__ __forceinline__ void slope_pack(float (&dx)[N], Pack<T, N> xs, Pack<T, N> dys, Pack<T, N> weights,
                                           Moments m, float mean_h, float mean_hx)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        float xhat = (to_float(xs.v[i]) - m.mean) * m.rstd;
        dx[i] += slope(xhat, to_float(dys.v[i]) * to_float(weights.v[i]), mean_h, mean_hx, m.rstd);
    }
}

/* Writes the block's part: the sums of its teams [teams, 2, C], in order. */
template <typename T> static __device__ void write_part(const Job<T> &j, const float *sums, int teams)
{
    float *part = j.parts + (int64_t)blockIdx.x * 2 * j.width;

    for (int i = threadIdx.x; i < 2 * j.width; i += BLOCK) {
        float sum = sums[i];
        for (int t = 1; t < teams; t++) sum += sums[t * 2 * j.width + i];
        part[i] = sum;
    }
}

/* The teams of a block take the rows of its part in turn. x and dy are read from shared memory twice,
 * because the sums of dweight and dbias take most registers. */
template <typename T, int W, int PACKS> static __global__ void __launch_bounds__(BLOCK, 2) by_teams(Job<T> j)
{
    extern __shared__ uint4 memory[]; /* [STAGES, FETCHED, PACKS, BLOCK] packs; at last the teams' sums */
    __shared__ float shared[2][BLOCK / WARP][2];
    constexpr int N = PACK<T>, STAGE = FETCHED * PACKS * BLOCK;
    Pack<T> *stages = reinterpret_cast<Pack<T> *>(memory), weights[PACKS] = {};
    Team<W> team = own_team<W>();
    int64_t first = blockIdx.x * j.rows_per_part;
    int64_t last = first + j.rows_per_part < j.rows ? first + j.rows_per_part : j.rows;
    float dw[PACKS][N] = {}, db[PACKS][N] = {}, per_width = 1.0f / (float)j.width;
    Moments next = {};
    int turn = 0;

    if (first + team.index < last) next = fetch<PACKS>(j, stages, first + team.index, team);
    async_commit();
    /* Where the sums leave registers for them: elsewhere the first cache has them. */
    constexpr bool KEEP = 2 * PACKS * N < 64;
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
        asm volatile("" ::: "memory"); /* or the compiler keeps the packs in registers */
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            int at = team.template column<N>(k);
            float dx[N] = {};
            if (at >= j.width) continue;
            if (j.residual) unpack(dx, fetched_pack(stage + RESIDUAL * PACKS * BLOCK, k));
            slope_pack(dx, fetched_pack(stage + X * PACKS * BLOCK, k),
                       fetched_pack(stage + DY * PACKS * BLOCK, k), weight(k), m, sum[0] * per_width,
                       sum[1] * per_width);
            store(j.dx + r * j.width + at, packed<T>(dx));
        }
    }
    async_wait<0>();
    __syncthreads(); /* the stages of all teams are free */
    float *sums = reinterpret_cast<float *>(memory);
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        float *own = sums + team.index * 2 * j.width + team.template column<N>(k);
        if (team.template column<N>(k) >= j.width) continue;
        store_floats(own, dw[k]);
        store_floats(own + j.width, db[k]);
    }
    __syncthreads();
    write_part(j, sums, team.COUNT);
}

/* ---- Any width: a block loops over the columns of a row ------------------------------- */

template <typename T> static __global__ void __launch_bounds__(BLOCK) by_columns(Job<T> j)
{
    __shared__ float shared[WARP + 1];
    float *dw = j.parts + (int64_t)blockIdx.x * 2 * j.width, *db = dw + j.width;
    int64_t first = blockIdx.x * j.rows_per_part;
    int64_t last = first + j.rows_per_part < j.rows ? first + j.rows_per_part : j.rows;

    for (int i = threadIdx.x; i < 2 * j.width; i += BLOCK) dw[i] = 0;
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
        }
    }
}

/* ---- The parts, in order ----------------------------------------------------------------- */

/* A slice of the parts for each warp: with MOST_PARTS all its loads are under way at once. */
constexpr int SLICES = 32;

/* What the sum of the parts becomes. */
struct Sum {
    void *to; /* [C]; NULL: nothing */
    TideType type;
    bool add; /* to what is there */
};

template <typename G> static __device__ void put(G *to, float sum, bool add)
{
    *to = from_float<G>(add ? to_float(*to) + sum : sum);
}

/* Sums of parts [n, 2, C] over n: slices of parts, then the slices. Blocks with y = 0 make dweight,
 * those with y = 1 dbias. */
static __global__ void __launch_bounds__(WARP *SLICES)
    add_parts(Sum weight, Sum bias, const float *parts, int n, int width)
{
    __shared__ float sums[SLICES][WARP];
    Sum out = blockIdx.y ? bias : weight;
    int i = blockIdx.x * WARP + threadIdx.x, each = (n + SLICES - 1) / SLICES;
    int first = threadIdx.y * each, last = first + each < n ? first + each : n;
    const float *from = parts + (int64_t)blockIdx.y * width + i;
    float sum = 0;

    if (!out.to) return; /* the whole block */
    if (i < width) {
#pragma unroll 8
        for (int p = first; p < last; p++) sum += from[(int64_t)p * 2 * width];
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || i >= width) return;
#pragma unroll
    for (int s = 1; s < SLICES; s++) sum += sums[s][threadIdx.x];
    switch (out.type) {
    case TIDE_F32: put((float *)out.to + i, sum, out.add); break;
    case TIDE_BF16: put((bf16 *)out.to + i, sum, out.add); break;
    case TIDE_F16: put((f16 *)out.to + i, sum, out.add); break;
    case TIDE_I32:
    case TIDE_TYPE_COUNT: break; /* not a gradient */
    }
}

static Sum sum_of(const KernelCall *c, int output)
{
    if (!c->out[output]) return { NULL, TIDE_F32, false };
    return { c->out[output], c->out_info[output]->type, c->in[output + 5] != NULL };
}

/* ---- Launching ----------------------------------------------------------------------------- */

/* True: launched. False: the device has too little shared memory. */
template <typename T, int W, int PACKS> static bool launch_teams(const KernelCall *c, const Job<T> &j)
{
    size_t bytes = (size_t)STAGES * FETCHED * PACKS * BLOCK * sizeof(Pack<T>); /* 72 or 96 KiB */

    static_assert(STAGES * FETCHED * sizeof(Pack<T>) >= 2 * PACK<T> * sizeof(float),
                  "the sums need the room");
    if (!resident_blocks(c, by_teams<T, W, PACKS>, BLOCK, bytes)) return false;
    by_teams<T, W, PACKS><<<(unsigned)n_parts(j.rows), BLOCK, bytes, cuda_stream(c)>>>(j);
    return true;
}

template <typename T, int W> static bool launch_width(const KernelCall *c, const Job<T> &j)
{
    return j.width / PACK<T> <= 3 * W * WARP ? launch_teams<T, W, 3>(c, j) : launch_teams<T, W, 4>(c, j);
}

template <typename T> static bool launch_packs(const KernelCall *c, const Job<T> &j)
{
    int packs = j.width / PACK<T>;

    if (!in_packs<T>(j.width) || packs > MOST_TEAM_PACKS) return false;
    if (packs <= WARP * MOST_PACKS) return launch_width<T, 1>(c, j);
    if (packs <= 2 * WARP * MOST_PACKS) return launch_width<T, 2>(c, j);
    return launch_width<T, 4>(c, j);
}

template <typename T> static void launch(const KernelCall *c)
{
    TideShape shape = c->in_info[0]->shape;
    Job<T> j = { (T *)c->out[0],          (float *)c->scratch,
                 (const T *)c->in[0],     (const T *)c->in[4],
                 (const T *)c->in[5],     (const float *)c->in[1],
                 (const float *)c->in[2], (const T *)c->in[3],
                 shape_rows(shape),       rows_per_part(shape_rows(shape)),
                 (int)shape_width(shape) };

    if (!launch_packs(c, j)) by_columns<T><<<(unsigned)n_parts(j.rows), BLOCK, 0, cuda_stream(c)>>>(j);
}

static void (*const launch_of[])(const KernelCall *) = { launch<float>, launch<bf16>, launch<f16> };

static TideStatus run(const KernelCall *c)
{
    TideShape shape = c->in_info[0]->shape;
    int width = (int)shape_width(shape), parts = (int)n_parts(shape_rows(shape));

    launch_of[c->out_info[0]->type](c);
    if (c->out[1] || c->out[2])
        add_parts<<<dim3(blocks_for(width, WARP), 2), dim3(WARP, SLICES), 0, cuda_stream(c)>>>(
            sum_of(c, 1), sum_of(c, 2), (const float *)c->scratch, parts, width);
    return cuda_launched(c);
}

const Kernel cuda_layernorm_grad = { .run = run, .scratch = scratch };
