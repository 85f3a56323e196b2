/* gelu_grad.cu - dx = dy * (Phi(x) + x * Phi'(x)); dx may be dy. Where the bias behind x has a gradient,
 * the stored dx are summed over their rows while they pass. */
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/gelu.cuh"

enum { X, DY, DBIAS };

template <bool ERF> struct GeluGrad {
    template <int N> __device__ void operator()(int64_t, float (&x)[N], const float (&dy)[N]) const
    {
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = dy[i] * (ERF ? slope_erf(x[i]) : slope_tanh(x[i]));
    }
};

/* Blocks of threads: three waves at four blocks a multiprocessor of the largest GPUs. */
enum { BLOCKS = 1584, UNROLL = 2, MOST_SCRATCH = 16 << 20 };

template <typename T, int V, bool ERF>
static __global__ void __launch_bounds__(SUM_THREADS)
    grad_and_sums(T *dx, float *__restrict__ parts, const T *__restrict__ x, const T *dy, ColumnBlocks b)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int64_t col = ((int64_t)blockIdx.x * WARP + lane) * V;
    int64_t first = (int64_t)blockIdx.y * b.block_rows, end = min(first + b.block_rows, b.rows);
    float sum[V] = {};

    for (int64_t row = first + warp; col < b.cols && row < end; row += UNROLL * SUM_WARPS) {
        Pack<T, V> px[UNROLL], py[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (row + u * SUM_WARPS < end) {
                px[u] = load<V>(x + (row + u * SUM_WARPS) * b.cols + col);
                py[u] = load<V>(dy + (row + u * SUM_WARPS) * b.cols + col);
            }
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (row + u * SUM_WARPS < end) {
                float fx[V], fy[V];
                unpack(fx, px[u]);
                unpack(fy, py[u]);
                GeluGrad<ERF>()(0, fx, fy);
                Pack<T, V> out = packed<T>(fx);
                store<V>(dx + (row + u * SUM_WARPS) * b.cols + col, out);
#pragma unroll
                for (int i = 0; i < V; i++) sum[i] += to_float(out.v[i]);
            }
    }
    store_partial_sums<V>(parts, sum, b.cols);
}

static ColumnBlocks blocks_of(const Tensor *x, int v)
{
    return column_blocks(shape_rows(x->shape), shape_width(x->shape), v, BLOCKS, MOST_SCRATCH);
}

template <typename T, int V, bool ERF> static void launch_sums(const KernelCall *c)
{
    ColumnBlocks b = blocks_of(c->in_info[X], V);
    ColumnSum to = { c->out[1], (int32_t)c->out_info[1]->type, c->in_info[DBIAS] != NULL };

    grad_and_sums<T, V, ERF><<<b.grid, SUM_THREADS, 0, cuda_stream(c)>>>(
        (T *)c->out[0], (float *)c->scratch, (const T *)c->in[X], (const T *)c->in[DY], b);
    add_parts_to(to, (const float *)c->scratch, b, cuda_stream(c));
}

template <typename T, bool ERF> static void launch(const KernelCall *c)
{
    if (!c->out_info[1])
        flat_launch<T, true>(c, c->in[X], c->in[DY], GeluGrad<ERF>());
    else if (in_packs<T>(shape_width(c->in_info[X]->shape)))
        launch_sums<T, PACK<T>, ERF>(c);
    else
        launch_sums<T, 1, ERF>(c);
}

static void (*const launch_of[][2])(const KernelCall *) = { { launch<float, false>, launch<float, true> },
                                                            { launch<bf16, false>, launch<bf16, true> },
                                                            { launch<f16, false>, launch<f16, true> } };

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type][((const GeluAttr *)c->node->attr.bytes)->erf](c);
    return cuda_launched(c);
}

/* Partial sums f32 [blocks of rows, columns]. */
static size_t scratch(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    size_t bytes = 0;

    (void)n;
    if (!out[1]) return 0;
    for (int v = 1; v <= PACK<bf16>; v++) {
        ColumnBlocks b = blocks_of(in[X], v);
        size_t these = (size_t)b.grid.y * (size_t)b.cols * sizeof(float);
        if (these > bytes) bytes = these;
    }
    return bytes;
}

const Kernel cuda_gelu_grad = { .run = run, .scratch = scratch };
