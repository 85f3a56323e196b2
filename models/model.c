/* model.c - the families of models, the presets, and the program that all families share. */
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include "models/family.h"
#include "models/layers.h"
#include "models/optim.h"
#include "runtime/base.h"

static const Family *const families[] = { &family_gpt, &family_mlp };
enum { N_FAMILIES = sizeof families / sizeof *families, VOCAB_MULTIPLE = 128, MOST_LOSS_CHUNKS = 8192 };
enum { FIRST_SCALE = 65536, SCALE_INTERVAL = 2000, LEAST_SCALE = 1 }; /* of the loss */

/* The batch of a preset is what fits most machines, not what is best. */
typedef struct Preset {
    const char *name, *family;
    int layers, width, heads, vocab, seq, batch;
    float beta2;
} Preset;

static const Preset presets[] = {
    { "gpt2-124m", "gpt", 12, 768, 12, 50257, 1024, 8, 0.95f },
    { "gpt2-355m", "gpt", 24, 1024, 16, 50257, 1024, 8, 0.95f },
    { "gpt2-774m", "gpt", 36, 1280, 20, 50257, 1024, 4, 0.95f },
    { "gpt2-1558m", "gpt", 48, 1600, 25, 50257, 1024, 4, 0.95f },
    { "gpt-char", "gpt", 4, 128, 4, 256, 64, 12, 0.99f },
    { "mlp", "mlp", 16, 256, 1, 256, 1, 256, 0.95f },
};
enum { N_PRESETS = sizeof presets / sizeof *presets };

static ModelConfig config_of(const Preset *p)
{
    ModelConfig c = { .layers = p->layers,
                      .width = p->width,
                      .heads = p->heads,
                      .vocab = p->vocab,
                      .seq = p->seq,
                      .batch = p->batch,
                      .accum = 1,
                      .beta1 = 0.9f,
                      .beta2 = p->beta2,
                      .eps = 1e-8f,
                      .weight_decay = 0.1f,
                      .clip = 1.0f };

    snprintf(c.name, sizeof c.name, "%s", p->name);
    snprintf(c.family, sizeof c.family, "%s", p->family);
    return c;
}

bool model_preset(const char *name, ModelConfig *out)
{
    for (int i = 0; i < N_PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0) {
            *out = config_of(&presets[i]);
            return true;
        }
    return false;
}

const char *model_preset_name(int i)
{
    return i >= 0 && i < N_PRESETS ? presets[i].name : NULL;
}

const Family *family_find(const char *name)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (strcmp(families[i]->name, name) == 0) return families[i];
    return NULL;
}

bool family_has_classes(const Family *f, const char *parameter)
{
    for (int i = 0; i < 2; i++)
        if (f->classes[i] && strcmp(f->classes[i], parameter) == 0) return true;
    return false;
}

/* ---- Checks --------------------------------------------------------------- */

static void check_sizes(const ModelConfig *c, TideGraph *g)
{
    const Limits limits[] = {
        { "batch", c->batch, 1, 1 << 24 },
        { "vocab", c->vocab, 1, 1 << 24 },
        { "padded vocab", c->padded_vocab, c->vocab, 1 << 25 },
        { "accum", c->accum, 1, 1 << 20 },
        { "loss-chunk", c->loss_chunk, 0, INT32_MAX },
        { "scale-interval", c->scale_interval, 1, INT32_MAX },
        { "mlp-block", c->mlp_block, 0, INT32_MAX },
        { "attn-block", c->attn_block, 0, INT32_MAX },
        { "batch times seq", (int64_t)c->batch * c->seq, 1, INT32_MAX },
    };

    limits_check(g, limits, sizeof limits / sizeof *limits);
}

/* A real number and the interval [least, most) that it must lie in. */
typedef struct Interval {
    const char *field;
    float value, least, most;
} Interval;

/* 0 is a choice of its own: none. */
static float scale_to_check(const ModelConfig *c)
{
    return c->loss_scale == 0 ? LEAST_SCALE : c->loss_scale;
}

static void check_numbers(const ModelConfig *c, TideGraph *g)
{
    const Interval intervals[] = {
        { "dropout", c->dropout, 0, 1 }, { "attn-dropout", c->attn_dropout, 0, 1 },
        { "beta1", c->beta1, 0, 1 },     { "beta2", c->beta2, 0, 1 },
        { "eps", c->eps, 1e-30f, 1 },    { "weight-decay", c->weight_decay, 0, 1e6f },
        { "clip", c->clip, 0, 1e30f },   { "loss-scale", scale_to_check(c), LEAST_SCALE, FLT_MAX },
    };

    for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
        const Interval *v = &intervals[i];
        if (!(v->value >= v->least && v->value < v->most)) /* so that a NaN is refused */
            graph_refuse(g, "%s is %g; it must be at least %g and below %g", v->field, (double)v->value,
                         (double)v->least, (double)v->most);
    }
}

static void check_types(const ModelConfig *c, TideGraph *g)
{
    const Tide *t = tide_program_device(tide_graph_program(g));

    if (c->dtype == TIDE_I32 || !tide_has_type(t, c->dtype))
        graph_refuse(g, "the device does not compute in %s; leave dtype at f32", type_name(c->dtype));
    if (c->state_dtype != TIDE_F32 && c->state_dtype != TIDE_BF16)
        graph_refuse(g, "state-dtype is %s; moments are f32 or bf16", type_name(c->state_dtype));
    if (!tide_has_type(t, c->state_dtype))
        graph_refuse(g, "the device does not compute in %s; leave state-dtype at f32",
                     type_name(c->state_dtype));
}

/* ---- Building ------------------------------------------------------------- */

static void fill_defaults(ModelConfig *c, const Family *f)
{
    if (!c->accum) c->accum = 1;
    if (!c->padded_vocab && c->vocab > 0 && c->vocab <= INT32_MAX - VOCAB_MULTIPLE)
        c->padded_vocab = (int)align_up((size_t)c->vocab, VOCAB_MULTIPLE);
    if (c->dtype == TIDE_F16 && c->loss_scale == 0) c->loss_scale = FIRST_SCALE;
    if (!c->scale_interval) c->scale_interval = SCALE_INTERVAL;
    f->defaults(c);
}

/* After the checks, because it multiplies. */
static void fill_loss_chunk(ModelConfig *c, const TideGraph *g)
{
    int64_t rows = (int64_t)c->batch * c->seq;

    if (!c->loss_chunk) c->loss_chunk = tide_block_rows(rows, c->padded_vocab, graph_block_elements(g));
    if (c->loss_chunk > rows) c->loss_chunk = rows;
}

/* Every chunk is four nodes; naming and planning them takes time that grows with their square. */
static void check_loss_chunks(const ModelConfig *c, TideGraph *g)
{
    int64_t rows = (int64_t)c->batch * c->seq, chunks = (rows + c->loss_chunk - 1) / c->loss_chunk;

    if (chunks > MOST_LOSS_CHUNKS)
        graph_refuse(g,
                     "loss-chunk %lld makes %lld chunks of the %lld rows of logits; the most is %d: choose a "
                     "loss-chunk of at least %lld, or a smaller batch and a larger accum",
                     (long long)c->loss_chunk, (long long)chunks, (long long)rows, MOST_LOSS_CHUNKS,
                     (long long)((rows + MOST_LOSS_CHUNKS - 1) / MOST_LOSS_CHUNKS));
}

static ParamTypes types_of(const ModelConfig *c)
{
    bool narrow = c->dtype != TIDE_F32, wide_grads = c->grads == GRADS_F32;

    if (c->grads == GRADS_DEFAULT) wide_grads = c->accum > 1;
    return (ParamTypes){ .parameter = c->dtype,
                         .gradient = wide_grads ? TIDE_F32 : c->dtype,
                         .moment = c->state_dtype,
                         .master = narrow && !c->no_master };
}

static TideStatus build(Model *m, const Family *f)
{
    m->micro = tide_graph_new(m->program, "micro"); /* first: its activations have fates */
    m->update = tide_graph_new(m->program, "update");
    m->eval = tide_graph_new(m->program, "eval");
    check_sizes(&m->config, m->micro);
    check_numbers(&m->config, m->micro);
    check_types(&m->config, m->micro);
    f->check(&m->config, m->micro);
    TRY(tide_program_check(m->program));

    fill_loss_chunk(&m->config, m->micro);
    check_loss_chunks(&m->config, m->micro);
    TRY(tide_program_check(m->program));
    Params s = params_new(m->program, types_of(&m->config), m->config.accum > 1);
    if (m->config.loss_scale > 0) params_add_scaling(&s);
    if (!f->build(m, &s)) return TIDE_NO_MEMORY;
    optim_adamw(m, &s);
    return tide_program_check(m->program);
}

TideStatus model_new(Tide *t, const ModelConfig *config, Model **out)
{
    const Family *f = family_find(config->family);
    Model *m = f ? calloc(1, sizeof *m) : NULL;

    *out = NULL;
    if (!f)
        return tide_fail(t, TIDE_BAD_GRAPH, "there is no model family '%s'; families are gpt and mlp",
                         config->family);
    if (m) {
        m->config = *config;
        m->program = tide_program_new(t);
        fill_defaults(&m->config, f);
    }
    TideStatus status = m && m->program ? build(m, f) : TIDE_NO_MEMORY;
    if (status == TIDE_NO_MEMORY) tide_fail(t, status, "no memory to describe model %s", config->name);
    if (status) {
        model_free(m);
        return status;
    }
    *out = m;
    return TIDE_OK;
}

void model_free(Model *m)
{
    if (!m) return;
    tide_program_free(m->program);
    free(m);
}

float model_least_scale(void)
{
    return LEAST_SCALE;
}

/* ---- Facts ---------------------------------------------------------------- */

/* Elements of a parameter without the rows that pad the vocabulary. */
static int64_t elements_of(const Model *m, const Family *f, TideTensor x)
{
    TideShape s = tide_tensor_shape(m->program, x);

    if (family_has_classes(f, tide_tensor_name(m->program, x))) s.dim[0] = m->config.vocab;
    return shape_elements(s);
}

int64_t model_parameters(const Model *m)
{
    const Family *f = family_find(m->config.family);
    int64_t n = 0;

    for (int i = 0; i < tide_parameter_count(m->program); i++)
        n += elements_of(m, f, tide_parameter_at(m->program, i));
    return n;
}

double model_flops_per_token(const Model *m)
{
    const Family *f = family_find(m->config.family);
    int64_t n = 0;

    for (int i = 0; i < tide_parameter_count(m->program); i++) {
        TideTensor x = tide_parameter_at(m->program, i);
        if (!f->looked_up || !f->looked_up(&m->config, tide_tensor_name(m->program, x)))
            n += elements_of(m, f, x);
    }
    return 6.0 * (double)n + f->extra_flops(&m->config);
}
