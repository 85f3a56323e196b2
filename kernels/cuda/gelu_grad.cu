/* gelu_grad.cu - dx = dy * (Phi(x) + x * Phi'(x)); dx may be dy. */
#include "kernels/cuda/gelu.cuh"

template <bool ERF> struct GeluGrad {
    template <int N> __device__ void operator()(int64_t, float (&x)[N], const float (&dy)[N]) const
    {
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = dy[i] * (ERF ? slope_erf(x[i]) : slope_tanh(x[i]));
    }
};

template <typename T> static void launch(const KernelCall *c)
{
    if (((const GeluAttr *)c->node->attr.bytes)->erf)
        flat_launch<T, true>(c, c->in[0], c->in[1], GeluGrad<true>());
    else
        flat_launch<T, true>(c, c->in[0], c->in[1], GeluGrad<false>());
}

static void (*const launch_of[])(const KernelCall *) = { launch<float>, launch<bf16>, launch<f16> };

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type](c);
    return cuda_launched(c);
}

const Kernel cuda_gelu_grad = { .run = run };
