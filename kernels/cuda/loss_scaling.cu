/* loss_scaling.cu - a few numbers of one step, by one thread: the host need not know how it ended. */
#include "kernels/cuda/cuda_common.cuh"

static __device__ TideStepInfo info_of_update(TideStepInfo info, const TideScaling &s)
{
    info.grad_scale /= s.scale;
    if (s.late) {
        info.lr = info.late_lr;
        info.bias1 = info.late_bias1;
        info.bias2 = info.late_bias2;
    }
    return info;
}

static __device__ TideScaling next_scaling(TideScaling s, bool finite, const ScalingAttr &a)
{
    float grown = s.scale * a.growth, less = s.scale * a.backoff;

    s.used = s.scale;
    s.late = !finite;
    s.skipped += !finite;
    s.good = finite ? s.good + 1 : 0;
    if (!finite) s.scale = less > a.least ? less : a.least;
    if (s.good < a.interval) return s;
    s.good = 0;
    if (isfinite(grown)) s.scale = grown;
    return s;
}

/* norm, scaled [2]: norm and factor of clipping, without and with the scale. */
static __global__ void loss_scaling(float *norm, TideStepInfo *update, TideScaling *state,
                                    TideScaling *report, const TideStepInfo *info, const float *scaled,
                                    ScalingAttr a)
{
    TideScaling s = *state;
    double true_norm = (double)scaled[0] / (double)s.scale, clip = (double)a.clip;

    norm[0] = (float)true_norm;
    norm[1] = clip > 0 && !(true_norm <= clip) ? (float)(clip / true_norm) : 1.0f;
    *update = info_of_update(*info, s);
    s = next_scaling(s, isfinite(scaled[0]), a);
    *state = s;
    *report = s;
}

static TideStatus run(const KernelCall *c)
{
    loss_scaling<<<1, 1, 0, cuda_stream(c)>>>(
        (float *)c->out[0], (TideStepInfo *)c->out[1], (TideScaling *)c->out[2], (TideScaling *)c->out[3],
        (const TideStepInfo *)c->in[0], (const float *)c->in[1], *(const ScalingAttr *)c->node->attr.bytes);
    return cuda_launched(c);
}

const Kernel cuda_loss_scaling = { .run = run };
