/* layernorm.cu - moments, then the row. */
#include "kernels/cuda/layernorm.cuh"

template <typename T> static void launch(const KernelCall *c)
{
    Rows<T> j = { NULL,
                  (T *)c->out[0],
                  (float *)c->out[1],
                  (float *)c->out[2],
                  (const T *)c->in[0],
                  NULL,
                  (const T *)c->in[1],
                  (const T *)c->in[2],
                  shape_rows(c->in_info[0]->shape),
                  (int)shape_width(c->in_info[0]->shape) };

    rows_launch<T, ROWS_FIRST>(c, j);
}

static void (*const launch_of[])(const KernelCall *) = { launch<float>, launch<bf16>, launch<f16> };

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type](c);
    return cuda_launched(c);
}

const Kernel cuda_layernorm = { .run = run };
