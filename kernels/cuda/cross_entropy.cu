/* cross_entropy.cu - the losses of rows of logits. */
#include "kernels/cuda/cross_entropy.cuh"

static void (*const launch_of[])(const KernelCall *) = { cross_entropy_launch<float, false>,
                                                         cross_entropy_launch<bf16, false>,
                                                         cross_entropy_launch<f16, false> };

static TideStatus run(const KernelCall *c)
{
    launch_of[c->in_info[0]->type](c);
    return cuda_launched(c);
}

const Kernel cuda_cross_entropy = { .run = run };
