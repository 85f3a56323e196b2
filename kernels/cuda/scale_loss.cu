/* scale_loss.cu - one number of the step's info times the scale. */
#include "kernels/cuda/cuda_common.cuh"

static __global__ void scale_loss(TideStepInfo *out, const TideStepInfo *in, const TideScaling *scaling)
{
    TideStepInfo info = *in;

    info.loss_scale *= scaling->scale;
    *out = info;
}

static TideStatus run(const KernelCall *c)
{
    scale_loss<<<1, 1, 0, cuda_stream(c)>>>((TideStepInfo *)c->out[0], (const TideStepInfo *)c->in[0],
                                            (const TideScaling *)c->in[1]);
    return cuda_launched(c);
}

const Kernel cuda_scale_loss = { .run = run };
