/* mlp.c - a deep classifier: equal hidden layers with a GELU each, and a head.
 *
 * x is [batch, width], whatever the caller makes of it; the program fills it with the last `width`
 * bytes of a text and asks for the byte that follows. It has no sequence: seq is 1. */
#include <math.h>
#include <stdlib.h>
#include "models/family.h"
#include "models/layers.h"

typedef struct Mlp {
    Affine *hidden; /* [layers], owned */
    TideTensor head;
} Mlp;

static void declare_parameters(Mlp *mlp, const ModelConfig *c, Params *s)
{
    char name[32];

    for (int i = 0; i < c->layers; i++) {
        snprintf(name, sizeof name, "hidden.%d", i);
        mlp->hidden[i] = affine_new(s, name, (TideShape){ 2, { c->width, c->width } }, !c->no_bias);
    }
    mlp->head = params_add(s, "head.weight", (TideShape){ 2, { c->padded_vocab, c->width } });
}

static TideTensor forward(TideGraph *g, const Mlp *mlp, const ModelConfig *c, TideTensor x)
{
    char name[32];

    if (c->dtype != TIDE_F32) x = tide_name(g, tide_cast(g, x, (TideTensor){ 0 }, c->dtype, false), "x.cast");
    for (int i = 0; i < c->layers; i++) {
        snprintf(name, sizeof name, "block%d", i);
        tide_layer_begin(g, name);
        x = tide_linear(g, x, mlp->hidden[i].weight, mlp->hidden[i].bias, (TideRows){ 0 });
        x = tide_gelu(g, tide_name(g, x, "fc"), c->gelu_erf);
        x = tide_name(g, x, "gelu");
        tide_layer_end(g);
    }
    return x;
}

typedef struct Inputs {
    TideTensor x, targets, info;
} Inputs;

static Inputs inputs_new(TideGraph *g, const ModelConfig *c)
{
    return (Inputs){ .x = tide_input(g, "x", TIDE_F32, (TideShape){ 2, { c->batch, c->width } }),
                     .targets = tide_input(g, "targets", TIDE_I32, (TideShape){ 1, { c->batch } }),
                     .info = tide_input(g, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } }) };
}

static Head head_of(TideGraph *g, const Mlp *mlp, const ModelConfig *c, Inputs in)
{
    return (
        Head){ .x = forward(g, mlp, c, in.x), .weight = mlp->head, .targets = in.targets, .info = in.info };
}

static void build_graphs(Model *m, const Mlp *mlp, const Params *s)
{
    const ModelConfig *c = &m->config;
    Inputs in = inputs_new(m->micro, c), eval = inputs_new(m->eval, c);

    m->tokens = in.x;
    m->targets = in.targets;
    m->info = in.info;
    head_train(m->micro, c, head_of(m->micro, mlp, c, in), s);
    m->eval_tokens = eval.x;
    m->eval_targets = eval.targets;
    m->eval_info = eval.info;
    m->eval_loss = head_eval(m->eval, c, head_of(m->eval, mlp, c, eval));
}

static void defaults(ModelConfig *c)
{
    c->seq = 1;
    c->heads = c->kv_heads = 1;
}

static void check(const ModelConfig *c, TideGraph *g)
{
    const Limits limits[] = {
        { "layers", c->layers, 1, 1000 },
        { "width", c->width, 1, 1 << 20 },
    };

    limits_check(g, limits, sizeof limits / sizeof *limits);
    if (c->dropout > 0 || c->attn_dropout > 0)
        graph_refuse(g, "dropout is %g and attn-dropout is %g, but an mlp has none; leave both at 0",
                     (double)c->dropout, (double)c->attn_dropout);
}

static bool build(Model *m, Params *s)
{
    Mlp mlp = { .hidden = calloc((size_t)m->config.layers, sizeof(Affine)) };

    if (!mlp.hidden) return false;
    declare_parameters(&mlp, &m->config, s);
    build_graphs(m, &mlp, s);
    free(mlp.hidden);
    return true;
}

/* He et al. 2015: a layer behind a rectifier keeps the variance of its input. */
static double deviation(const ModelConfig *c, const char *parameter)
{
    (void)parameter;
    return sqrt(2.0 / c->width);
}

static double extra_flops(const ModelConfig *c)
{
    (void)c;
    return 0;
}

const Family family_mlp = { .name = "mlp",
                            .classes = { "head.weight" },
                            .features = true,
                            .defaults = defaults,
                            .check = check,
                            .build = build,
                            .deviation = deviation,
                            .extra_flops = extra_flops };
