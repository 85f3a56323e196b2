/* sgd.cu - parameter -= lr * scale * gradient; narrow parameters are rounded by chance. A norm that
 * is not finite leaves all as it was. */
#include "kernels/cuda/stochastic.cuh"

template <typename P, typename G> struct Job {
    P *p;
    const G *gradient;
    const TideStepInfo *info;
    const float *norm; /* [2] or NULL */
    int64_t n;
    int node;
};

template <int N, typename P, typename G>
__device__ __forceinline__ void update(const Job<P, G> &j, float rate, int64_t i)
{
    float g[N], w[N];

    load_floats(g, j.gradient + i);
    load_floats(w, j.p + i);
#pragma unroll
    for (int k = 0; k < N; k++) w[k] -= rate * g[k];
    store_by_chance(j.p, i, w, chance_of(j.info, j.node), CHANCE_PARAMETER);
}

template <typename P, typename G> static __global__ void __launch_bounds__(BLOCK) sgd(Job<P, G> j)
{
    int64_t i = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) * 4;

    if (j.norm && !isfinite(j.norm[0])) return;
    float rate = j.info->lr * (j.info->grad_scale * (j.norm ? j.norm[1] : 1.0f));
    if (i + 4 <= j.n)
        update<4>(j, rate, i);
    else
        for (; i < j.n; i++) update<1>(j, rate, i);
}

template <typename P, typename G> static void launch(const KernelCall *c)
{
    Job<P, G> j = { (P *)c->out[0],
                    (const G *)c->in[0],
                    (const TideStepInfo *)c->in[1],
                    (const float *)c->in[2],
                    shape_elements(c->in_info[0]->shape),
                    c->node->id };

    sgd<<<blocks_for(j.n, 4 * BLOCK), BLOCK, 0, cuda_stream(c)>>>(j);
}

/* By type of the parameters, whether gradients are f32 (else of the parameters' type). */
static void (*const launch_of[3][2])(const KernelCall *) = {
    { launch<float, float>, launch<float, float> },
    { launch<bf16, bf16>, launch<bf16, float> },
    { launch<f16, f16>, launch<f16, float> },
};

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type][c->in_info[0]->type == TIDE_F32](c);
    return cuda_launched(c);
}

const Kernel cuda_sgd = { .run = run };
