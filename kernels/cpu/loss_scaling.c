/* loss_scaling.c - a few numbers of one step: no loop, no threads. */
#include <math.h>
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

static TideStepInfo info_of_update(TideStepInfo info, const TideScaling *s)
{
    info.grad_scale /= s->scale;
    if (s->late) {
        info.lr = info.late_lr;
        info.bias1 = info.late_bias1;
        info.bias2 = info.late_bias2;
    }
    return info;
}

static TideScaling next_scaling(TideScaling s, bool finite, const ScalingAttr *a)
{
    float grown = s.scale * a->growth, less = s.scale * a->backoff;

    s.used = s.scale;
    s.late = !finite;
    s.skipped += !finite;
    s.good = finite ? s.good + 1 : 0;
    if (!finite) s.scale = less > a->least ? less : a->least;
    if (s.good < a->interval) return s;
    s.good = 0;
    if (isfinite(grown)) s.scale = grown;
    return s;
}

static TideStatus run(const KernelCall *c)
{
    const ScalingAttr *a = (const void *)c->node->attr.bytes;
    const float *scaled = c->in[1];
    float *norm = c->out[0]; /* [2]: norm, factor */
    TideScaling *s = c->out[2];
    double true_norm = (double)scaled[0] / (double)s->scale, clip = (double)a->clip;

    norm[0] = (float)true_norm;
    norm[1] = clip > 0 && !(true_norm <= clip) ? (float)(clip / true_norm) : 1.0f;
    *(TideStepInfo *)c->out[1] = info_of_update(*(const TideStepInfo *)c->in[0], s);
    *s = next_scaling(*s, isfinite(scaled[0]), a);
    *(TideScaling *)c->out[3] = *s;
    return TIDE_OK;
}

const Kernel cpu_loss_scaling = { .run = run };
