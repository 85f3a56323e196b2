/* layernorm_grad.cu - dx of every row, and per fixed block of rows a part of dweight and dbias that
 * a second kernel adds in block order. dx may lie in dy.
 *
 * Where a row's packs have a thread each, the thread fetches its packs of the next rows into
 * shared memory while it computes on this one. Other widths take a loop over columns. */
#include "kernels/cuda/cuda_common.cuh"

/* Two blocks for each of an H200's 132 multiprocessors; a constant, so that bits do not depend on
 * the device. */
constexpr int MOST_PARTS = 264, LEAST_ROWS = 4, MOST_WARPS = 16;

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

/* ---- A thread for each pack of a row ------------------------------------------------ */

constexpr int X = 0, DY = 1, RESIDUAL = 2, FETCHED = 3;

/* Start to fetch this thread's packs of the rows from `first`, ROWS of them, none from `last` on. */
template <typename T, int ROWS>
__device__ __forceinline__ void fetch(const Job<T> &j, Pack<T> *stage, int64_t first, int64_t last)
{
    int at = threadIdx.x * PACK<T>;

#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int64_t row = (first + r) * j.width + at;
        Pack<T> *to = stage + r * FETCHED * blockDim.x + threadIdx.x;
        if (first + r >= last || at >= j.width) continue;
        async_copy16(to + X * blockDim.x, j.x + row);
        async_copy16(to + DY * blockDim.x, j.dy + row);
        if (j.residual) async_copy16(to + RESIDUAL * blockDim.x, j.residual + row);
    }
    async_commit();
}

/* What one thread holds of one row. */
template <typename T> struct Row {
    Pack<T> x, dy;
    float mean, rstd, sum_h, sum_hx;
};

/* The moments of the rows from `first`; they arrive while the rows before are computed. */
template <int ROWS, typename T>
__device__ __forceinline__ void load_moments(const Job<T> &j, int64_t first, int64_t last,
                                             float (&mean)[ROWS], float (&rstd)[ROWS])
{
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        mean[r] = first + r < last ? j.mean[first + r] : 0;
        rstd[r] = first + r < last ? j.rstd[first + r] : 0;
    }
}

/* Adds the row to the thread's part of dweight and dbias, and sums its h and h * xhat. */
template <typename T>
__device__ __forceinline__ void take_row(Row<T> &row, const float (&weight)[PACK<T>], float (&dw)[PACK<T>],
                                         float (&db)[PACK<T>])
{
    row.sum_h = row.sum_hx = 0;
#pragma unroll
    for (int k = 0; k < PACK<T>; k++) {
        float dy = to_float(row.dy.v[k]), xhat = (to_float(row.x.v[k]) - row.mean) * row.rstd,
              h = dy * weight[k];
        row.sum_h += h;
        row.sum_hx += h * xhat;
        dw[k] += dy * xhat;
        db[k] += dy;
    }
}

template <typename T>
__device__ __forceinline__ void write_row(const Job<T> &j, const Row<T> &row, const Pack<T> *residual,
                                          int64_t to, const float (&weight)[PACK<T>])
{
    float mean_h = row.sum_h / (float)j.width, mean_hx = row.sum_hx / (float)j.width;
    float dx[PACK<T>] = {};

    if (j.residual) unpack(dx, *residual);
#pragma unroll
    for (int k = 0; k < PACK<T>; k++) {
        float xhat = (to_float(row.x.v[k]) - row.mean) * row.rstd, h = to_float(row.dy.v[k]) * weight[k];
        dx[k] += slope(xhat, h, mean_h, mean_hx, row.rstd);
    }
    store(j.dx + to, packed<T>(dx));
}

/* Sums of ROWS rows over the block, in the order of warps. shared [ROWS][2][MOST_WARPS]; it may be
 * written again once the block has passed another barrier. */
template <typename T, int ROWS>
__device__ __forceinline__ void sum_rows(Row<T> (&row)[ROWS], float (*shared)[2][MOST_WARPS])
{
    int warp = threadIdx.x / WARP, warps = blockDim.x / WARP;

#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float h = warp_sum(row[r].sum_h), hx = warp_sum(row[r].sum_hx);
        if (threadIdx.x % WARP == 0) shared[r][0][warp] = h;
        if (threadIdx.x % WARP == 0) shared[r][1][warp] = hx;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        row[r].sum_h = row[r].sum_hx = 0;
        for (int w = 0; w < warps; w++) {
            row[r].sum_h += shared[r][0][w];
            row[r].sum_hx += shared[r][1][w];
        }
    }
}

template <typename T, int ROWS, int STAGES>
static __global__ void __launch_bounds__(MOST_WARPS *WARP) by_packs(Job<T> j)
{
    extern __shared__ uint4 memory[]; /* [STAGES][ROWS][FETCHED][threads] packs */
    __shared__ float sums[2][ROWS][2][MOST_WARPS];
    Pack<T> *stages = reinterpret_cast<Pack<T> *>(memory);
    int at = threadIdx.x * PACK<T>, stage_packs = ROWS * FETCHED * blockDim.x, turn = 0;
    bool active = at < j.width;
    int64_t first = blockIdx.x * j.rows_per_part;
    int64_t last = first + j.rows_per_part < j.rows ? first + j.rows_per_part : j.rows;
    float weight[PACK<T>] = {}, dw[PACK<T>] = {}, db[PACK<T>] = {}, mean[ROWS], rstd[ROWS];

    if (active) load_floats(weight, j.weight + at);
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) fetch<T, ROWS>(j, stages + s * stage_packs, first + s * ROWS, last);
    load_moments(j, first, last, mean, rstd);
    for (int64_t now = first; now < last; now += ROWS, turn++) {
        fetch<T, ROWS>(j, stages + (turn + STAGES - 1) % STAGES * stage_packs, now + (STAGES - 1) * ROWS,
                       last);
        Pack<T> *stage = stages + turn % STAGES * stage_packs + threadIdx.x;
        Row<T> row[ROWS] = {};
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            row[r].mean = mean[r];
            row[r].rstd = rstd[r];
        }
        load_moments(j, now + ROWS, last, mean, rstd);
        async_wait<STAGES - 1>(); /* this thread's own packs; no others are read */
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!active || now + r >= last) continue;
            row[r].x = stage[(r * FETCHED + X) * blockDim.x];
            row[r].dy = stage[(r * FETCHED + DY) * blockDim.x];
            take_row(row[r], weight, dw, db);
        }
        sum_rows(row, sums[turn % 2]);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (active && now + r < last)
                write_row(j, row[r], stage + (r * FETCHED + RESIDUAL) * blockDim.x, (now + r) * j.width + at,
                          weight);
    }
    float *part = j.parts + (int64_t)blockIdx.x * 2 * j.width + at;
    if (active) store_floats(part, dw);
    if (active) store_floats(part + j.width, db);
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

constexpr int SLICES = 8;

/* to[i] (+)= the sum over n parts of from[part * 2 * width + i]: slices of parts, then the slices. */
template <typename T>
static __global__ void __launch_bounds__(WARP *SLICES)
    add_parts(T *to, const float *from, int n, int width, bool add)
{
    __shared__ float sums[SLICES][WARP];
    int i = blockIdx.x * WARP + threadIdx.x, each = (n + SLICES - 1) / SLICES;
    int first = threadIdx.y * each, last = first + each < n ? first + each : n;
    float sum = 0;

#pragma unroll 8
    for (int p = first; p < last; p++) sum += i < width ? from[(int64_t)p * 2 * width + i] : 0;
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || i >= width) return;
    for (int s = 1; s < SLICES; s++) sum += sums[s][threadIdx.x];
    to[i] = from_float<T>(add ? to_float(to[i]) + sum : sum);
}

static void launch_parts(const KernelCall *c, int output, const float *parts)
{
    void *to = c->out[output];
    int width = (int)shape_width(c->in_info[0]->shape), n = (int)n_parts(shape_rows(c->in_info[0]->shape));
    bool add = c->in[output + 5] != NULL;
    dim3 block(WARP, SLICES);
    unsigned blocks = blocks_for(width, WARP);

    if (!to) return;
    switch (c->out_info[output]->type) {
    case TIDE_F32: add_parts<<<blocks, block, 0, cuda_stream(c)>>>((float *)to, parts, n, width, add); break;
    case TIDE_BF16: add_parts<<<blocks, block, 0, cuda_stream(c)>>>((bf16 *)to, parts, n, width, add); break;
    case TIDE_F16: add_parts<<<blocks, block, 0, cuda_stream(c)>>>((f16 *)to, parts, n, width, add); break;
    case TIDE_I32:
    case TIDE_TYPE_COUNT: break; /* not a gradient */
    }
}

/* ---- Launching ----------------------------------------------------------------------------- */

template <typename T, int ROWS, int STAGES> static void launch_packs(const KernelCall *c, const Job<T> &j)
{
    unsigned threads = blocks_for(j.width / PACK<T>, WARP) * WARP;
    size_t bytes = (size_t)STAGES * ROWS * FETCHED * threads * sizeof(Pack<T>); /* at most 48 KiB */

    /* With the static part it may pass the 48 KiB that a kernel has without asking. */
    cudaFuncSetAttribute(by_packs<T, ROWS, STAGES>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    by_packs<T, ROWS, STAGES><<<(unsigned)n_parts(j.rows), threads, bytes, cuda_stream(c)>>>(j);
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
    int packs = j.width / PACK<T>;

    if (!in_packs<T>(j.width) || packs > MOST_WARPS * WARP)
        by_columns<T><<<(unsigned)n_parts(j.rows), BLOCK, 0, cuda_stream(c)>>>(j);
    else if (packs <= 4 * WARP)
        launch_packs<T, 2, 4>(c, j);
    else if (packs <= 8 * WARP)
        launch_packs<T, 1, 4>(c, j);
    else
        launch_packs<T, 1, 2>(c, j);
}

static void (*const launch_of[])(const KernelCall *) = { launch<float>, launch<bf16>, launch<f16> };

static TideStatus run(const KernelCall *c)
{
    const float *parts = (const float *)c->scratch;

    launch_of[c->out_info[0]->type](c);
    launch_parts(c, 1, parts);
    launch_parts(c, 2, parts + shape_width(c->in_info[0]->shape));
    return cuda_launched(c);
}

const Kernel cuda_layernorm_grad = { .run = run, .scratch = scratch };
