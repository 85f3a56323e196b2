/* params.c - flat tensors come into being with their first view, so that no group is empty. */
#include "models/params.h"
#include "runtime/base.h"

static const char *const group_names[] = { [GROUP_DECAY] = "decay", [GROUP_PLAIN] = "plain" };

typedef struct FlatSpec {
    const char *what;
    TideKind kind;
    TideType type;
} FlatSpec;

static TideTensor flat_of(const Params *s, int group, FlatSpec spec)
{
    char name[64];

    snprintf(name, sizeof name, "%s.%s", spec.what, group_names[group]);
    return tide_flat(s->program, name, spec.kind, spec.type);
}

static ParamGroup group_new(const Params *s, int group)
{
    const ParamTypes *t = &s->types;
    ParamGroup g = { .parameter = flat_of(s, group, (FlatSpec){ "parameters", TIDE_PARAMETER, t->parameter }),
                     .gradient = flat_of(s, group, (FlatSpec){ "gradients", TIDE_GRADIENT, t->gradient }),
                     .m = flat_of(s, group, (FlatSpec){ "m", TIDE_STATE, t->moment }),
                     .v = flat_of(s, group, (FlatSpec){ "v", TIDE_STATE, t->moment }) };

    if (t->master) g.master = flat_of(s, group, (FlatSpec){ "masters", TIDE_STATE, TIDE_F32 });
    return g;
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

Params params_new(TideProgram *p, ParamTypes types, bool accumulate)
{
    Params s = { .program = p, .types = types, .accumulate = accumulate };

    s.loss_flat = tide_flat(p, "loss_sum.flat", TIDE_STATE, TIDE_F32);
    s.loss = view(&s, s.loss_flat, "loss_sum", (TideShape){ 1, { 1 } });
    return s;
}

void params_add_scaling(Params *s)
{
    TideTensor flat = tide_flat(s->program, "loss_scaling.flat", TIDE_STATE, TIDE_I32);

    s->scaling = view(s, flat, "loss_scaling", (TideShape){ 1, { TIDE_SCALING_WORDS } });
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
    if (g->master.id) view_of(s, g->master, name, "master", shape);
    tide_set_gradient(s->program, parameter, gradient, s->accumulate);
    return parameter;
}
