/* cast.cu - y = x or y += x in y's type, four elements a thread. */
#include "kernels/cuda/cuda_common.cuh"

/* y and x [n] */
template <int N, typename Y, typename X>
__device__ __forceinline__ void cast_part(Y *y, const X *x, int64_t i, bool add)
{
    float v[N], sum[N] = {};

    load_floats(v, x + i);
    if (add) load_floats(sum, y + i);
#pragma unroll
    for (int k = 0; k < N; k++) v[k] += sum[k];
    store_floats(y + i, v);
}

template <typename Y, typename X>
static __global__ void __launch_bounds__(BLOCK) cast(Y *y, const X *x, int64_t n, bool add)
{
    int64_t i = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) * 4;

    if (i + 4 <= n)
        cast_part<4>(y, x, i, add);
    else
        for (; i < n; i++) cast_part<1>(y, x, i, add);
}

template <typename Y, typename X> static void launch(const KernelCall *c)
{
    int64_t n = shape_elements(c->out_info[0]->shape);

    cast<<<blocks_for(n, 4 * BLOCK), BLOCK, 0, cuda_stream(c)>>>((Y *)c->out[0], (const X *)c->in[0], n,
                                                                 c->in[1] != NULL);
}

/* By type of y, then of x. */
static void (*const launch_of[3][3])(const KernelCall *) = {
    { launch<float, float>, launch<float, bf16>, launch<float, f16> },
    { launch<bf16, float>, launch<bf16, bf16>, launch<bf16, f16> },
    { launch<f16, float>, launch<f16, bf16>, launch<f16, f16> },
};

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type][c->in_info[0]->type](c);
    return cuda_launched(c);
}

const Kernel cuda_cast = { .run = run };
