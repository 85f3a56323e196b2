/* gelu.cu - y = x * Phi(x); y may be x. */
#include "kernels/cuda/gelu.cuh"

template <bool ERF> struct Gelu {
    template <int N> __device__ void operator()(int64_t, float (&x)[N], const float (&)[N]) const
    {
#pragma unroll
        for (int i = 0; i < N; i++) x[i] *= ERF ? phi_erf(x[i]) : phi_tanh(x[i]);
    }
};

template <typename T> static void launch(const KernelCall *c)
{
    if (((const GeluAttr *)c->node->attr.bytes)->erf)
        flat_launch<T, false>(c, c->in[0], NULL, Gelu<true>());
    else
        flat_launch<T, false>(c, c->in[0], NULL, Gelu<false>());
}

static void (*const launch_of[])(const KernelCall *) = { launch<float>, launch<bf16>, launch<f16> };

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type](c);
    return cuda_launched(c);
}

const Kernel cuda_gelu = { .run = run };
