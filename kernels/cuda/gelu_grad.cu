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
constexpr int MOST_PARTS = 128, SUM_WARPS = BLOCK / WARP, LEAST_ROWS = 4 * SUM_WARPS, IN_FLIGHT = 2;

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

/* A lane's columns, every SUM_WARPS-th row of a part; then the warps in order. */
template <typename T, int N, bool ERF> static __global__ void __launch_bounds__(BLOCK, 4) by_columns(Job<T> j)
{
    __shared__ float shared[SUM_WARPS][WARP * N];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, column = (blockIdx.x * WARP + lane) * N;
    int64_t first = blockIdx.y * j.rows_per_part, r = first + warp;
    int64_t last = first + j.rows_per_part < j.rows ? first + j.rows_per_part : j.rows;
    float sum[N] = {};

    for (; column < j.width && r < last; r += IN_FLIGHT * SUM_WARPS) {
        Pack<T, N> x[IN_FLIGHT] = {}, dy[IN_FLIGHT] = {};
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++) {
            int64_t at = (r + u * SUM_WARPS) * j.width + column;
            if (r + u * SUM_WARPS >= last) continue;
            x[u] = load<N>(j.x + at);
            dy[u] = load<N>(j.dy + at);
        }
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++)
            if (r + u * SUM_WARPS < last)
                store(j.dx + (r + u * SUM_WARPS) * j.width + column, gradient_pack<ERF>(sum, x[u], dy[u]));
    }
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

/* ---- Launching ---------------------------------------------------------------------------- */

template <typename T, int N> static void launch_sums(const KernelCall *c, bool erf)
{
    TideShape shape = c->in_info[0]->shape;
    Job<T> j = { (T *)c->out[0],         (float *)c->scratch, (const T *)c->in[0],
                 (const T *)c->in[1],    shape_rows(shape),   rows_per_part(shape_rows(shape)),
                 (int)shape_width(shape) };
    dim3 grid(blocks_for(j.width, WARP * N), (unsigned)n_parts(j.rows));
    ColumnSums sums = { { column_sum(c, 1, 2) } };

    if (erf)
        by_columns<T, N, true><<<grid, BLOCK, 0, cuda_stream(c)>>>(j);
    else
        by_columns<T, N, false><<<grid, BLOCK, 0, cuda_stream(c)>>>(j);
    launch_add_parts(c, sums, 1, c->scratch, (int)grid.y, j.width);
}

template <typename T> static void launch(const KernelCall *c)
{
    bool erf = ((const GeluAttr *)c->node->attr.bytes)->erf;

    if (c->out[1]) {
        if (in_packs<T>(shape_width(c->in_info[0]->shape)))
            launch_sums<T, PACK<T>>(c, erf);
        else
            launch_sums<T, 1>(c, erf);
    } else if (erf) {
        flat_launch<T, true>(c, c->in[0], c->in[1], GeluGrad<true>());
    } else {
        flat_launch<T, true>(c, c->in[0], c->in[1], GeluGrad<false>());
    }
}

static void (*const launch_of[])(const KernelCall *) = { launch<float>, launch<bf16>, launch<f16> };

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type](c);
    return cuda_launched(c);
}

const Kernel cuda_gelu_grad = { .run = run, .scratch = scratch };
