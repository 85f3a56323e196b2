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

/* Blocks that are two whole waves on a large GPU, two to a multiprocessor, with rows to sum in each;
 * constants, so that bits do not depend on the device. */
constexpr int BLOCKS = 528, MOST_THREADS = 512, LEAST_ROWS = 32, IN_FLIGHT = 4;

/* A block takes a part of the rows and, of a wide matrix, a part of the columns; a thread N columns, so that
 * blocks read whole rows in their order and no thread needs another one's sums. */
typedef struct Parts {
    int64_t rows_each;
    int n, columns, threads; /* parts of the rows, of the columns; threads of a block */
} Parts;

static Parts parts_of(TideShape shape, int per_thread)
{
    int64_t packs = (shape_width(shape) + per_thread - 1) / per_thread, rows = shape_rows(shape);
    int64_t columns = (packs + MOST_THREADS - 1) / MOST_THREADS, wish = (BLOCKS + columns - 1) / columns;
    int64_t warps = ((packs + columns - 1) / columns + WARP - 1) / WARP;
    int64_t each = (rows + wish - 1) / wish;

    if (each < LEAST_ROWS) each = LEAST_ROWS;
    return { each, (int)((rows + each - 1) / each), (int)columns, (int)warps * WARP };
}

/* Columns of a thread: a pack, where the width allows it. */
template <typename T> static int columns_of_a_thread(int64_t width)
{
    return in_packs<T>(width) ? PACK<T> : 1;
}

static size_t scratch(const Node *, const Tensor *const *in, const Tensor *const *out)
{
    int64_t width = shape_width(in[0]->shape);
    int each = in[0]->type == TIDE_F32 ? columns_of_a_thread<float>(width) : columns_of_a_thread<bf16>(width);

    if (!out[1]) return 0;
    return (size_t)(parts_of(in[0]->shape, each).n * width) * sizeof(float);
}

template <typename T> struct Job {
    T *dx;
    float *parts;    /* [parts of the rows, C] */
    const T *x, *dy; /* [rows, C]              */
    int64_t rows, rows_each;
    int width;
};

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

template <typename T, int N, bool ERF>
static __global__ void __launch_bounds__(MOST_THREADS, 2) by_columns(Job<T> j)
{
    int column = (blockIdx.x * blockDim.x + threadIdx.x) * N;
    int64_t r = blockIdx.y * j.rows_each, last = r + j.rows_each < j.rows ? r + j.rows_each : j.rows;
    const T *x = j.x + r * j.width + column, *dy = j.dy + r * j.width + column;
    T *dx = j.dx + r * j.width + column;
    float sum[N] = {};

    if (column >= j.width) return;
    for (; r + IN_FLIGHT <= last; r += IN_FLIGHT) {
        Pack<T, N> px[IN_FLIGHT], py[IN_FLIGHT];
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++) {
            px[u] = load<N>(x + u * (int64_t)j.width);
            py[u] = load<N>(dy + u * (int64_t)j.width);
        }
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++)
            store(dx + u * (int64_t)j.width, gradient_pack<ERF>(sum, px[u], py[u]));
        x += IN_FLIGHT * (int64_t)j.width;
        dy += IN_FLIGHT * (int64_t)j.width;
        dx += IN_FLIGHT * (int64_t)j.width;
    }
    for (; r < last; r++) {
        store(dx, gradient_pack<ERF>(sum, load<N>(x), load<N>(dy)));
        x += j.width;
        dy += j.width;
        dx += j.width;
    }
    store_floats(j.parts + blockIdx.y * (int64_t)j.width + column, sum);
}

/* ---- Launching ---------------------------------------------------------------------------- */

template <typename T, int N> static void launch_sums(const KernelCall *c, bool erf)
{
    TideShape shape = c->in_info[0]->shape;
    Parts p = parts_of(shape, N);
    Job<T> j = { (T *)c->out[0],      (float *)c->scratch, (const T *)c->in[0],
                 (const T *)c->in[1], shape_rows(shape),   p.rows_each,
                 (int)shape_width(shape) };
    dim3 grid((unsigned)p.columns, (unsigned)p.n);
    ColumnSums sums = { { column_sum(c, 1, 2) } };

    if (erf)
        by_columns<T, N, true><<<grid, p.threads, 0, cuda_stream(c)>>>(j);
    else
        by_columns<T, N, false><<<grid, p.threads, 0, cuda_stream(c)>>>(j);
    launch_add_parts(c, sums, 1, c->scratch, p.n, j.width);
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
