/* add_layernorm.cu - the sum, its moments, its layernorm, in one pass. The sum may lie in b. */
#include "kernels/cuda/layernorm.cuh"

template <typename T> static void launch(const KernelCall *c)
{
    Rows<T> j = { (T *)c->out[0],
                  (T *)c->out[1],
                  (float *)c->out[2],
                  (float *)c->out[3],
                  (const T *)c->in[0],
                  (const T *)c->in[1],
                  (const T *)c->in[2],
                  (const T *)c->in[3],
                  shape_rows(c->in_info[0]->shape),
                  (int)shape_width(c->in_info[0]->shape) };

    rows_launch<T, ROWS_ADD>(c, j);
}

static void (*const launch_of[])(const KernelCall *) = { launch<float>, launch<bf16>, launch<f16> };

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type](c);
    return cuda_launched(c);
}

const Kernel cuda_add_layernorm = { .run = run };
