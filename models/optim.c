/* optim.c - the update graph, whole flats at a time.
 *
 * The sum of the losses lives in a persistent tensor that the micro-steps add to. The update
 * copies it to an output of its own before it sets it to zero, because outputs are copied to
 * the host when a graph ends. */
#include "models/optim.h"
#include "runtime/base.h"

_Static_assert(sizeof(TideStepInfo) == TIDE_INFO_WORDS * sizeof(int32_t), "a host writes the whole input");

enum { SCALE_FACTOR = 2 }; /* by which the scale of the loss grows and shrinks */

static TideTensor grad_norm(TideGraph *g, const Params *s, TideTensor info, float clip)
{
    TideTensor grads[GROUP_COUNT];
    int n = 0;

    for (int i = 0; i < GROUP_COUNT; i++)
        if (s->group[i].gradient.id) grads[n++] = s->group[i].gradient;
    return tide_grad_norm(g, grads, n, info, clip);
}

/* The norm, with or without loss scaling. Returns the info that the updates read. */
static TideTensor norm_of(Model *m, const Params *s)
{
    const ModelConfig *c = &m->config;
    TideGraph *g = m->update;

    if (!s->scaling.id) {
        m->norm = tide_name(g, grad_norm(g, s, m->update_info, c->clip), "norm");
        return m->update_info;
    }
    TideTensor scaled = tide_name(g, grad_norm(g, s, m->update_info, 0), "scaled_norm");
    m->norm = tide_loss_scaling(g, (TideLossScaling){ .info = m->update_info,
                                                      .norm = scaled,
                                                      .scaling = s->scaling,
                                                      .growth = SCALE_FACTOR,
                                                      .backoff = 1.0f / SCALE_FACTOR,
                                                      .least = model_least_scale(),
                                                      .clip = c->clip,
                                                      .interval = c->scale_interval });
    m->scaling = s->scaling;
    m->scaling_after = graph_sibling(g, m->norm, 3);
    tide_output(g, m->scaling_after);
    tide_name(g, m->norm, "norm");
    tide_name(g, m->scaling_after, "loss_scaling");
    return graph_sibling(g, m->norm, 1);
}

static void update_group(TideGraph *g, const Model *m, const ParamGroup *group, TideTensor info, float decay)
{
    const ModelConfig *c = &m->config;

    tide_adamw(g, (TideAdamW){ .parameter = group->parameter,
                               .gradient = group->gradient,
                               .m = group->m,
                               .v = group->v,
                               .master = group->master,
                               .norm = m->norm,
                               .info = info,
                               .beta1 = c->beta1,
                               .beta2 = c->beta2,
                               .eps = c->eps,
                               .decay = decay });
}

/* What micro-steps add to must be zero when the next step begins. */
static void clear(TideGraph *g, const Params *s)
{
    for (int i = 0; i < GROUP_COUNT; i++)
        if (s->group[i].gradient.id) tide_fill(g, s->group[i].gradient, 0);
    tide_fill(g, s->loss, 0);
}

void optim_adamw(Model *m, const Params *s)
{
    TideGraph *g = m->update;
    const float decay[] = { [GROUP_DECAY] = m->config.weight_decay, [GROUP_PLAIN] = 0 };

    graph_phase(g, PHASE_UPDATE);
    m->update_info = tide_input(g, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } });
    m->loss = tide_name(g, tide_sum(g, s->loss, (TideTensor){ 0 }, false), "loss");
    TideTensor info = norm_of(m, s);
    for (int i = 0; i < GROUP_COUNT; i++)
        if (s->group[i].parameter.id) update_group(g, m, &s->group[i], info, decay[i]);
    if (s->accumulate) clear(g, s);
    tide_output(g, m->loss);
    tide_output(g, m->norm);
}
