/* sum.cu - the sum of a tensor in double, by one block: what is summed is a loss for each row. */
#include "kernels/cuda/cuda_common.cuh"

constexpr int SUM_BLOCK = 1024;

static __global__ void __launch_bounds__(SUM_BLOCK) sum(float *total, const float *x, int64_t n, bool add)
{
    __shared__ double shared[WARP + 1];
    double part = 0;

    for (int64_t i = threadIdx.x; i < n; i += SUM_BLOCK) part += (double)x[i];
    part = block_sum(part, shared);
    if (threadIdx.x == 0) total[0] = (float)(add ? (double)total[0] + part : part);
}

static TideStatus run(const KernelCall *c)
{
    int64_t n = shape_elements(c->in_info[0]->shape);

    sum<<<1, SUM_BLOCK, 0, cuda_stream(c)>>>((float *)c->out[0], (const float *)c->in[0], n,
                                             c->in[1] != NULL);
    return cuda_launched(c);
}

const Kernel cuda_sum = { .run = run };
