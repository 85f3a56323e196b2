/* params.c - flat tensors come into being with their first view, so that no group is empty. */
#include "models/params.h"
#include "runtime/base.h"

static const char *const group_names[] = { [GROUP_DECAY] = "decay", [GROUP_PLAIN] = "plain" };

static TideTensor flat(const Params *s, const char *what, int group, TideKind kind)
{
    char name[64];

    snprintf(name, sizeof name, "%s.%s", what, group_names[group]);
    return tide_flat(s->program, name, kind, TIDE_F32);
}

static ParamGroup group_new(const Params *s, int group)
{
    return (ParamGroup){ .parameter = flat(s, "parameters", group, TIDE_PARAMETER),
                         .gradient = flat(s, "gradients", group, TIDE_GRADIENT),
                         .m = flat(s, "m", group, TIDE_STATE),
                         .v = flat(s, "v", group, TIDE_STATE) };
}

static TideTensor view(const Params *s, TideTensor of, const char *name, TideShape shape)
{
    return tide_flat_view(s->program, of, name, shape);
}

static TideTensor view_of(const Params *s, TideTensor of, const char *name, const char *what, TideShape shape)
{
    char text[128];

    snprintf(text, sizeof text, "%s.%s", name, what);
    return view(s, of, text, shape);
}

Params params_new(TideProgram *p, bool accumulate)
{
    Params s = { .program = p, .accumulate = accumulate };

    s.loss_flat = tide_flat(p, "loss_sum.flat", TIDE_STATE, TIDE_F32);
    s.loss = view(&s, s.loss_flat, "loss_sum", (TideShape){ 1, { 1 } });
    return s;
}

TideTensor params_add(Params *s, const char *name, TideShape shape)
{
    int group = shape.n > 1 ? GROUP_DECAY : GROUP_PLAIN;
    ParamGroup *g = &s->group[group];

    if (!g->parameter.id) *g = group_new(s, group);
    TideTensor parameter = view(s, g->parameter, name, shape);
    TideTensor gradient = view_of(s, g->gradient, name, "grad", shape);
    view_of(s, g->m, name, "m", shape);
    view_of(s, g->v, name, "v", shape);
    tide_set_gradient(s->program, parameter, gradient, s->accumulate);
    return parameter;
}
