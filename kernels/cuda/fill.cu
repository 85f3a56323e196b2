/* fill.cu - set every element to one value. */
#include "kernels/cuda/cuda_common.cuh"

template <typename T> static __global__ void fill(T *y, T value, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;

    if (i < n) y[i] = value;
}

template <typename T> static void launch(const KernelCall *c, T value)
{
    int64_t n = shape_elements(c->out_info[0]->shape);

    fill<T><<<blocks_for(n), BLOCK, 0, cuda_stream(c)>>>((T *)c->out[0], value, n);
}

static TideStatus run(const KernelCall *c)
{
    double value = ((const FillAttr *)c->node->attr.bytes)->value;

    if (value == 0) /* all bits are zero in every type */
        return cuda_check(c->device, cudaMemsetAsync(c->out[0], 0, c->out_info[0]->bytes, cuda_stream(c)),
                          c->node->name);
    switch (c->out_info[0]->type) {
    case TIDE_F32: launch(c, (float)value); break;
    case TIDE_BF16: launch(c, __float2bfloat16((float)value)); break;
    case TIDE_F16: launch(c, __float2half((float)value)); break;
    case TIDE_I32: launch(c, (int32_t)value); break;
    case TIDE_TYPE_COUNT: break;
    }
    return cuda_launched(c);
}

const Kernel cuda_fill = { .run = run };
