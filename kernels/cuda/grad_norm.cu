/* grad_norm.cu - the global norm: sums of squares over fixed blocks of each gradient, added in order
 * in double. */
#include "kernels/cuda/cuda_common.cuh"

constexpr int NORM_BLOCK = 1024, IN_FLIGHT = 8;
constexpr int64_t PART = 1 << 15; /* elements of a block */

static int64_t n_parts(const Tensor *x)
{
    return (shape_elements(x->shape) + PART - 1) / PART;
}

static size_t scratch(const Node *n, const Tensor *const *in, const Tensor *const *)
{
    int64_t parts = 0;

    for (int i = 1; i < n->n_in; i++) parts += n_parts(in[i]);
    return (size_t)parts * sizeof(double);
}

/* A pack is summed in f32, which holds its squares well; packs are added in double. */
template <typename T> __device__ __forceinline__ double pack_squares(Pack<T> pack)
{
    float v[PACK<T>], sum = 0;

    unpack(v, pack);
#pragma unroll
    for (int k = 0; k < PACK<T>; k++) sum += v[k] * v[k];
    return (double)sum;
}

/* The packs of x [PART] that fall to this thread, in order, IN_FLIGHT of them under way. */
template <typename T> __device__ __forceinline__ double whole_part(const T *x)
{
    constexpr int N = PACK<T>, STEP = IN_FLIGHT * BLOCK * N;
    double sum = 0;

    static_assert(PART % STEP == 0, "a part is whole steps");
    for (const T *at = x + threadIdx.x * N; at < x + PART; at += STEP) {
        Pack<T> packs[IN_FLIGHT];
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++) packs[u] = load<N>(at + u * BLOCK * N);
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++) sum += pack_squares(packs[u]);
    }
    return sum;
}

/* The same of a part that ends early. */
template <typename T> static __device__ double short_part(const T *x, int64_t n)
{
    constexpr int N = PACK<T>;
    int64_t whole = n - n % N;
    double sum = 0;

    for (int64_t i = threadIdx.x * N; i < whole; i += BLOCK * N) sum += pack_squares(load<N>(x + i));
    if (whole + threadIdx.x < n) {
        double last = (double)to_float(x[whole + threadIdx.x]);
        sum += last * last;
    }
    return sum;
}

template <typename T>
static __global__ void __launch_bounds__(BLOCK) squares(double *part, const T *x, int64_t n)
{
    __shared__ double shared[WARP + 1];
    int64_t first = blockIdx.x * PART;
    double sum = first + PART <= n ? whole_part(x + first) : short_part(x + first, n - first);

    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

/* out [2]: the norm and the factor that clips it. One block. */
static __global__ void __launch_bounds__(NORM_BLOCK)
    finish(float *out, const double *part, int64_t n, const TideStepInfo *info, float clip)
{
    __shared__ double shared[WARP + 1];
    double sum = 0;

    for (int64_t i = threadIdx.x; i < n; i += NORM_BLOCK) sum += part[i];
    double norm = sqrt(block_sum(sum, shared)) * (double)info->grad_scale;
    if (threadIdx.x) return;
    out[0] = (float)norm;
    out[1] = clip > 0 && !(norm <= (double)clip) ? (float)((double)clip / norm)
                                                 : 1.0f; /* also where it is no number */
}

template <typename T> static void launch(const KernelCall *c, int i, double *part)
{
    squares<T><<<(unsigned)n_parts(c->in_info[i]), BLOCK, 0, cuda_stream(c)>>>(
        part, (const T *)c->in[i], shape_elements(c->in_info[i]->shape));
}

static void (*const launch_of[])(const KernelCall *, int, double *) = { launch<float>, launch<bf16>,
                                                                        launch<f16> };

static TideStatus run(const KernelCall *c)
{
    double *part = (double *)c->scratch;
    const NormAttr *a = (const NormAttr *)c->node->attr.bytes;
    int64_t n = 0;

    for (int i = 1; i < c->node->n_in; i++) {
        launch_of[c->in_info[i]->type](c, i, part + n);
        n += n_parts(c->in_info[i]);
    }
    finish<<<1, NORM_BLOCK, 0, cuda_stream(c)>>>((float *)c->out[0], part, n, (const TideStepInfo *)c->in[0],
                                                 a->clip);
    return cuda_launched(c);
}

const Kernel cuda_grad_norm = { .run = run, .scratch = scratch };
