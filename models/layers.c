/* layers.c - limits, linear layers and the loss. */
#include "models/layers.h"

/* No target is this one, so that all count; a loader marks what it wants left out with it. */
enum { IGNORED_TARGET = -1 };

void limits_check(TideGraph *g, const Limits *limits, int n)
{
    for (int i = 0; i < n; i++) {
        const Limits *l = &limits[i];
        if (l->value < l->least || l->value > l->most)
            graph_refuse(g, "%s is %lld; it must be from %lld to %lld", l->field, (long long)l->value,
                         (long long)l->least, (long long)l->most);
    }
}

Affine affine_new(Params *s, const char *name, TideShape weight, bool bias)
{
    char text[96];
    Affine a = { { 0 }, { 0 } };

    snprintf(text, sizeof text, "%s.weight", name);
    a.weight = params_add(s, text, weight);
    snprintf(text, sizeof text, "%s.bias", name);
    if (bias) a.bias = params_add(s, text, (TideShape){ 1, { weight.dim[0] } });
    return a;
}

static TideLoss losses_of(TideGraph *g, const ModelConfig *c, Head h, bool train)
{
    TideClasses classes = { .vocab = c->vocab, .ignore = IGNORED_TARGET };

    return tide_linear_cross_entropy(g, h.x, h.weight, h.targets, h.info, classes, c->loss_chunk, train);
}

void head_train(TideGraph *g, const ModelConfig *c, Head h, const Params *s)
{
    tide_layer_begin(g, "head");
    if (s->scaling.id) h.info = tide_name(g, tide_scale_loss(g, h.info, s->scaling), "scaled_info");
    TideLoss loss = losses_of(g, c, h, true);
    tide_sum(g, loss.losses, s->loss, s->accumulate);
    tide_layer_end(g);
    tide_name(g, loss.losses, "loss");
    tide_backward(g, h.x, loss.dx);
}

TideTensor head_eval(TideGraph *g, const ModelConfig *c, Head h)
{
    tide_layer_begin(g, "head");
    TideLoss loss = losses_of(g, c, h, false);
    TideTensor sum = tide_sum(g, loss.losses, (TideTensor){ 0 }, false);
    tide_layer_end(g);
    tide_name(g, sum, "loss");
    tide_output(g, sum);
    return sum;
}
