/* select_row.cu - copy the row that the step asks for. */
#include "kernels/cuda/cuda_common.cuh"

/* y [C], x [rows, C] */
template <typename T>
static __global__ void select_row(T *y, const T *x, const TideStepInfo *info, int64_t rows, int64_t width)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x, row = info->row;

    row = row < 0 ? 0 : row > rows - 1 ? rows - 1 : row;
    if (i < width) y[i] = x[row * width + i];
}

template <typename T> static void launch(const KernelCall *c)
{
    int64_t rows = shape_rows(c->in_info[0]->shape), width = shape_width(c->in_info[0]->shape);

    select_row<T><<<blocks_for(width), BLOCK, 0, cuda_stream(c)>>>(
        (T *)c->out[0], (const T *)c->in[0], (const TideStepInfo *)c->in[1], rows, width);
}

static void (*const launch_of[])(const KernelCall *) = { launch<float>, launch<bf16>, launch<f16> };

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type](c);
    return cuda_launched(c);
}

const Kernel cuda_select_row = { .run = run };
