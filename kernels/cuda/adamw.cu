/* adamw.cu - one pass over parameters, gradients and moments, four elements a thread.
 *
 * With a master, the parameter is the master rounded to nearest; without one, a narrow parameter is
 * rounded by chance, and so are narrow moments. A norm that is not finite leaves all as it was. */
#include "kernels/cuda/stochastic.cuh"

/* P, G, S: types of parameters, gradients, moments. */
template <typename P, typename G, typename S> struct Job {
    P *p;
    S *m, *v;
    float *master; /* or NULL */
    const G *gradient;
    const TideStepInfo *info;
    const float *norm; /* [2] or NULL */
    AdamWAttr a;
    int64_t n; /* elements of each */
    int node;
};

/* What all elements of a step have in common. */
struct Step {
    float lr, scale, rate1, rate2, shrink;
};

template <typename P, typename G, typename S> __device__ __forceinline__ Step step_of(const Job<P, G, S> &j)
{
    const TideStepInfo *info = j.info;

    return { info->lr, info->grad_scale * (j.norm ? j.norm[1] : 1.0f), 1.0f / info->bias1, 1.0f / info->bias2,
             info->lr * j.a.decay };
}

template <int N, typename P, typename G, typename S>
__device__ __forceinline__ void update(const Job<P, G, S> &j, const Step &s, int64_t i)
{
    float g[N], m[N], v[N], w[N];

    load_floats(g, j.gradient + i);
    load_floats(m, j.m + i);
    load_floats(v, j.v + i);
    if (j.master)
        load_floats(w, j.master + i);
    else
        load_floats(w, j.p + i);
#pragma unroll
    for (int k = 0; k < N; k++) {
        g[k] *= s.scale;
        m[k] = j.a.beta1 * m[k] + (1.0f - j.a.beta1) * g[k];
        v[k] = j.a.beta2 * v[k] + (1.0f - j.a.beta2) * (g[k] * g[k]);
        w[k] -= s.lr * (m[k] * s.rate1) / (sqrtf(v[k] * s.rate2) + j.a.eps) + s.shrink * w[k];
    }
    Philox p = chance_of(j.info, j.node);
    store_by_chance(j.m, i, m, p, CHANCE_M);
    store_by_chance(j.v, i, v, p, CHANCE_V);
    if (j.master) {
        store_floats(j.master + i, w);
        store_floats(j.p + i, w);
    } else {
        store_by_chance(j.p, i, w, p, CHANCE_PARAMETER);
    }
}

template <typename P, typename G, typename S>
static __global__ void __launch_bounds__(BLOCK) adamw(Job<P, G, S> j)
{
    int64_t i = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) * 4;

    if (j.norm && !isfinite(j.norm[0])) return;
    Step s = step_of(j);
    if (i + 4 <= j.n)
        update<4>(j, s, i);
    else
        for (; i < j.n; i++) update<1>(j, s, i);
}

template <typename P, typename G, typename S> static void launch(const KernelCall *c)
{
    Job<P, G, S> j = { (P *)c->out[0],
                       (S *)c->out[1],
                       (S *)c->out[2],
                       (float *)c->out[3],
                       (const G *)c->in[0],
                       (const TideStepInfo *)c->in[1],
                       (const float *)c->in[2],
                       *(const AdamWAttr *)c->node->attr.bytes,
                       shape_elements(c->in_info[0]->shape),
                       c->node->id };

    adamw<<<blocks_for(j.n, 4 * BLOCK), BLOCK, 0, cuda_stream(c)>>>(j);
}

/* By type of the parameters, whether gradients are f32 (else of the parameters' type), whether moments
 * are bf16 (else f32). */
static void (*const launch_of[3][2][2])(const KernelCall *) = {
    { { launch<float, float, float>, launch<float, float, bf16> },
      { launch<float, float, float>, launch<float, float, bf16> } },
    { { launch<bf16, bf16, float>, launch<bf16, bf16, bf16> },
      { launch<bf16, float, float>, launch<bf16, float, bf16> } },
    { { launch<f16, f16, float>, launch<f16, f16, bf16> },
      { launch<f16, float, float>, launch<f16, float, bf16> } },
};

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type][c->in_info[0]->type == TIDE_F32][c->out_info[1]->type == TIDE_BF16](c);
    return cuda_launched(c);
}

const Kernel cuda_adamw = { .run = run };
