/* cross_entropy_grad.cu - losses, and the gradient written over the logits. */
#include "kernels/cuda/cross_entropy.cuh"

static void (*const launch_of[])(const KernelCall *) = { cross_entropy_launch<float, true>,
                                                         cross_entropy_launch<bf16, true>,
                                                         cross_entropy_launch<f16, true> };

static TideStatus run(const KernelCall *c)
{
    launch_of[c->in_info[0]->type](c);
    return cuda_launched(c);
}

const Kernel cuda_cross_entropy_grad = { .run = run };
