/* scale_loss.c - one number of the step's info times the scale. */
#include "kernels/cpu/cpu_kernels.h"

static TideStatus run(const KernelCall *c)
{
    const TideScaling *scaling = c->in[1];
    TideStepInfo *info = c->out[0];

    *info = *(const TideStepInfo *)c->in[0];
    info->loss_scale *= scaling->scale;
    return TIDE_OK;
}

const Kernel cpu_scale_loss = { .run = run };
