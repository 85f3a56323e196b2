/* gelu_grad.cu - dx = dy * (Phi(x) + x * Phi'(x)); dx may be dy. Where they are wanted, the column sums of
 * dx besides: per fixed block of rows a part, which a second kernel adds in block order. */
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/gelu.cuh"

template <bool ERF> struct GeluGrad {
    template <int N> __device__ void operator()(int64_t, float (&x)[N], const float (&dy)[N]) const
    {
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = dy[i] * (ERF ? slope_erf(x[i]) : slope_tanh(x[i]));
    }
};

/* ---- With column sums ------------------------------------------------------------------ */

/* So many parts that blocks of a few columns keep a large GPU busy; constants, so that bits do not depend
 * on the device. */
constexpr int MOST_PARTS = 128, SUM_WARPS = BLOCK / WARP, LEAST_ROWS = 4 * SUM_WARPS, STAGES = 3;

template <typename T> struct Job {
    T *dx;
    float *parts;    /* [n_parts, C] */
    const T *x, *dy; /* [rows, C]    */
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

static size_t scratch(const Node *, const Tensor *const *in, const Tensor *const *out)
{
    if (!out[1]) return 0;
    return (size_t)(n_parts(shape_rows(in[0]->shape)) * shape_width(in[0]->shape)) * sizeof(float);
}

/* N elements of dx, added to sum as they are stored. */
template <bool ERF, typename T, int N>
__device__ __forceinline__ Pack<T, N> gradient_pack(float (&sum)[N], Pack<T, N> x, Pack<T, N> dy)
{
    float fx[N], fdy[N];

    unpack(fx, x);
    unpack(fdy, dy);
    GeluGrad<ERF>()(0, fx, fdy);
    Pack<T, N> dx = packed<T>(fx);
#pragma unroll
    for (int i = 0; i < N; i++) sum[i] += to_float(dx.v[i]);
    return dx;
}

/* What a lane takes: its columns of every SUM_WARPS-th row of a part. */
template <typename T> struct Share {
    int64_t first, last; /* rows; the lane's first one, and the end of the part */
    int column;
};

template <int N, typename T> __device__ __forceinline__ Share<T> own_share(const Job<T> &j)
{
    int64_t first = blockIdx.y * j.rows_per_part, last = first + j.rows_per_part;
    int column = (blockIdx.x * WARP + threadIdx.x % WARP) * N;

    if (last > j.rows) last = j.rows;
    return { column < j.width ? first + threadIdx.x / WARP : last, last, column };
}

/* The block's part: the warps' sums in order. */
template <int N, typename T> static __device__ void write_part(const Job<T> &j, const float (&sum)[N])
{
    __shared__ float shared[SUM_WARPS][WARP * N];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;

#pragma unroll
    for (int i = 0; i < N; i++) shared[warp][i * WARP + lane] = sum[i];
    __syncthreads();
    for (int i = threadIdx.x; i < WARP * N; i += BLOCK) {
        int to = (blockIdx.x * WARP + i / N) * N + i % N, from = i % N * WARP + i / N;
        float total = 0;
#pragma unroll
        for (int w = 0; w < SUM_WARPS; w++) total += shared[w][from];
        if (to < j.width) j.parts[blockIdx.y * (int64_t)j.width + to] = total;
    }
}

/* Packs of the next rows are on their way to shared memory while one is worked on; each thread reads what
 * it fetched itself. */
template <typename T, bool ERF> static __global__ void __launch_bounds__(BLOCK, 6) by_packs(Job<T> j)
{
    __shared__ Pack<T> stage[STAGES][2][BLOCK];
    constexpr int N = PACK<T>;
    Share<T> own = own_share<N>(j);
    float sum[N] = {};
    int turn = 0;
    auto fetch = [&](int64_t r, int to) {
        int64_t at = r * j.width + own.column;
        if (r < own.last) async_copy16(&stage[to][0][threadIdx.x], j.x + at);
        if (r < own.last) async_copy16(&stage[to][1][threadIdx.x], j.dy + at);
        async_commit();
    };

    for (int s = 0; s + 1 < STAGES; s++) fetch(own.first + s * SUM_WARPS, s);
    for (int64_t r = own.first; r < own.last; r += SUM_WARPS, turn = turn + 1 == STAGES ? 0 : turn + 1) {
        fetch(r + (STAGES - 1) * SUM_WARPS, turn ? turn - 1 : STAGES - 1); /* what was read last */
        async_wait<STAGES - 1>();
        Pack<T> x = stage[turn][0][threadIdx.x], dy = stage[turn][1][threadIdx.x];
        store(j.dx + r * j.width + own.column, gradient_pack<ERF>(sum, x, dy));
    }
    write_part(j, sum);
}

/* Any width: a column a lane. */
template <typename T, bool ERF> static __global__ void __launch_bounds__(BLOCK) by_columns(Job<T> j)
{
    Share<T> own = own_share<1>(j);
    float sum[1] = {};

#pragma unroll 4
    for (int64_t r = own.first; r < own.last; r += SUM_WARPS) {
        int64_t at = r * j.width + own.column;
        store(j.dx + at, gradient_pack<ERF>(sum, load<1>(j.x + at), load<1>(j.dy + at)));
    }
    write_part(j, sum);
}

/* ---- Launching ---------------------------------------------------------------------------- */

template <typename T, bool ERF> static void launch_sums(const KernelCall *c)
{
    TideShape shape = c->in_info[0]->shape;
    Job<T> j = { (T *)c->out[0],         (float *)c->scratch, (const T *)c->in[0],
                 (const T *)c->in[1],    shape_rows(shape),   rows_per_part(shape_rows(shape)),
                 (int)shape_width(shape) };
    int columns = WARP * (in_packs<T>(j.width) ? PACK<T> : 1);
    dim3 grid(blocks_for(j.width, columns), (unsigned)n_parts(j.rows));
    ColumnSums sums = { { column_sum(c, 1, 2) } };

    if (in_packs<T>(j.width))
        by_packs<T, ERF><<<grid, BLOCK, 0, cuda_stream(c)>>>(j);
    else
        by_columns<T, ERF><<<grid, BLOCK, 0, cuda_stream(c)>>>(j);
    launch_add_parts(c, sums, 1, c->scratch, (int)grid.y, j.width);
}

template <typename T, bool ERF> static void launch_form(const KernelCall *c)
{
    if (c->out[1])
        launch_sums<T, ERF>(c);
    else
        flat_launch<T, true>(c, c->in[0], c->in[1], GeluGrad<ERF>());
}

template <typename T> static void launch(const KernelCall *c)
{
    if (((const GeluAttr *)c->node->attr.bytes)->erf)
        launch_form<T, true>(c);
    else
        launch_form<T, false>(c);
}

static void (*const launch_of[])(const KernelCall *) = { launch<float>, launch<bf16>, launch<f16> };

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type](c);
    return cuda_launched(c);
}

const Kernel cuda_gelu_grad = { .run = run, .scratch = scratch };
