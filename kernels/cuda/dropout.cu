/* dropout.cu - y = x * mask / (1 - p), the mask of the CPU kernel; y may be x. */
#include "kernels/cuda/flat.cuh"
#include "kernels/cuda/philox.cuh"

struct Dropout {
    const TideStepInfo *info;
    int site;
    uint32_t least;
    float scale;

    /* A pack starts at a multiple of 4 elements, so its words are whole Philox blocks. */
    template <int N> __device__ void operator()(int64_t first, float (&a)[N], const float (&)[N]) const
    {
        Philox p = philox_of(info, site);

#pragma unroll
        for (int i = 0; i < N; i += 4) {
            uint4 word = philox_block(p, (uint64_t)(first + i) / 4);
            a[i] = word.x >= least ? a[i] * scale : 0.0f;
            a[i + 1] = word.y >= least ? a[i + 1] * scale : 0.0f;
            a[i + 2] = word.z >= least ? a[i + 2] * scale : 0.0f;
            a[i + 3] = word.w >= least ? a[i + 3] * scale : 0.0f;
        }
    }
};

template <typename T> static void launch(const KernelCall *c)
{
    const DropoutAttr *a = (const DropoutAttr *)c->node->attr.bytes;
    Dropout f = { (const TideStepInfo *)c->in[1], a->site, philox_least(a->p), 1.0f / (1.0f - a->p) };

    flat_launch<T, false>(c, c->in[0], NULL, f);
}

static void (*const launch_of[])(const KernelCall *) = { launch<float>, launch<bf16>, launch<f16> };

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type](c);
    return cuda_launched(c);
}

const Kernel cuda_dropout = { .run = run };
