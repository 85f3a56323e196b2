/* gpt.c - GPT-2: pre-norm blocks, learned positions, a head tied to the embedding or one of its own.
 *
 * The sum of a residual and the norm behind it are one node, so block i begins with the end of
 * block i - 1: the node belongs to block i, its first output is called "block<i-1>/res2".
 * Parameters are named as Hugging Face names them, but every linear weight is [out, in], the
 * transpose of what those files hold. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/family.h"
#include "models/layers.h"

/* Elements of a block of rows of an MLP and of packed heads: large enough to fill any device. They do not
 * depend on the device, so that neither does the graph. */
enum { MLP_ELEMENTS = 256 << 20, ATTENTION_ELEMENTS = 85 << 20 };
enum { MOST_WIDTH = 1 << 20 };

typedef struct Block {
    Affine ln1, qkv, proj, ln2, fc, fcproj;
} Block;

typedef struct Gpt {
    const ModelConfig *config;
    TideTensor wte, wpe, head; /* head is wte where they are tied */
    Block *block;              /* [layers], owned */
    Affine ln_f;
} Gpt;

/* One use of the weights in a graph: training drops, evaluation and sampling do not. */
typedef struct Pass {
    TideGraph *g;
    TideTensor info;
    float dropout, attn_dropout;
} Pass;

/* ---- Parameters ----------------------------------------------------------- */

static Block block_new(Params *s, const ModelConfig *c, int i)
{
    char name[6][64];
    static const char *const part[] = {
        "ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"
    };
    int64_t w = c->width, packed = w / c->heads * (c->heads + 2 * (int64_t)c->kv_heads);
    bool bias = !c->no_bias;

    for (int j = 0; j < 6; j++) snprintf(name[j], sizeof name[j], "h.%d.%s", i, part[j]);
    return (Block){ .ln1 = affine_new(s, name[0], (TideShape){ 1, { w } }, bias),
                    .qkv = affine_new(s, name[1], (TideShape){ 2, { packed, w } }, bias),
                    .proj = affine_new(s, name[2], (TideShape){ 2, { w, w } }, bias),
                    .ln2 = affine_new(s, name[3], (TideShape){ 1, { w } }, bias),
                    .fc = affine_new(s, name[4], (TideShape){ 2, { c->inner, w } }, bias),
                    .fcproj = affine_new(s, name[5], (TideShape){ 2, { w, c->inner } }, bias) };
}

static void declare_parameters(Gpt *gpt, Params *s)
{
    const ModelConfig *c = gpt->config;

    gpt->wte = params_add(s, "wte.weight", (TideShape){ 2, { c->padded_vocab, c->width } });
    gpt->wpe = params_add(s, "wpe.weight", (TideShape){ 2, { c->positions, c->width } });
    for (int i = 0; i < c->layers; i++) gpt->block[i] = block_new(s, c, i);
    gpt->ln_f = affine_new(s, "ln_f", (TideShape){ 1, { c->width } }, !c->no_bias);
    gpt->head = gpt->wte;
    if (c->untied)
        gpt->head = params_add(s, "lm_head.weight", (TideShape){ 2, { c->padded_vocab, c->width } });
}

/* ---- Forward -------------------------------------------------------------- */

/* Every place that drops has its own site, so that no two masks are alike. */
enum { SITE_EMBED, SITE_BLOCKS, SITE_ATTENTION = 0, SITE_PROJ, SITE_FCPROJ, SITES_OF_BLOCK };

static int site_of(int block, int which)
{
    return SITE_BLOCKS + block * SITES_OF_BLOCK + which;
}

static void layer_begin(TideGraph *g, int i)
{
    char name[32];

    snprintf(name, sizeof name, "block%d", i);
    tide_layer_begin(g, name);
}

static TideTensor drop(const Pass *p, TideTensor x, int site, const char *name)
{
    if (p->dropout <= 0) return x;
    return tide_name(p->g, tide_dropout(p->g, x, p->info, p->dropout, site), name);
}

static TideTensor linear(const Pass *p, TideTensor x, Affine a, const char *name)
{
    return tide_name(p->g, tide_linear(p->g, x, a.weight, a.bias, (TideRows){ 0 }), name);
}

/* The residual stream: what is summed up, and a branch that the next norm adds to it (0: none). */
typedef struct Stream {
    TideTensor sum, branch;
} Stream;
typedef struct Norm {
    TideTensor y, mean, rstd;
} Norm;

/* Add the branch and take the norm of the sum, in one node. */
static Norm norm(const Pass *p, Stream *s, Affine ln)
{
    TideGraph *g = p->g;

    if (!s->branch.id) {
        TideTensor y = tide_layernorm(g, s->sum, ln.weight, ln.bias);
        return (Norm){ y, graph_sibling(g, y, 1), graph_sibling(g, y, 2) };
    }
    s->sum = tide_add_layernorm(g, s->sum, s->branch, ln.weight, ln.bias);
    s->branch = (TideTensor){ 0 };
    return (Norm){ graph_sibling(g, s->sum, 1), graph_sibling(g, s->sum, 2), graph_sibling(g, s->sum, 3) };
}

/* Only after the sum has its name, which its siblings take over. */
static TideTensor name_norm(TideGraph *g, Norm n, const char *name)
{
    char text[32];

    tide_name(g, n.y, name);
    snprintf(text, sizeof text, "%s.mean", name);
    tide_name(g, n.mean, text);
    snprintf(text, sizeof text, "%s.rstd", name);
    tide_name(g, n.rstd, text);
    return n.y;
}

/* Sequences of attention's backward at a time: its scratch grows with them, and their sums never meet. */
static int64_t attention_block(const ModelConfig *c)
{
    int64_t packed = c->width / c->heads * (c->heads + 2 * (int64_t)c->kv_heads);
    int64_t most = ATTENTION_ELEMENTS / (packed * c->seq);

    if (c->attn_block) return c->attn_block;
    if (most < 1) most = 1;
    int64_t blocks = (c->batch + most - 1) / most;
    return blocks > 1 ? (c->batch + blocks - 1) / blocks : 0;
}

static TideTensor attention_branch(const Pass *p, const Gpt *gpt, int i, TideTensor x)
{
    const ModelConfig *c = gpt->config;
    const Block *b = &gpt->block[i];
    TideAttention a = { .heads = c->heads,
                        .kv_heads = c->kv_heads,
                        .head_dim = c->width / c->heads,
                        .dropout = p->attn_dropout,
                        .count = attention_block(c),
                        .site = site_of(i, SITE_ATTENTION) };

    x = linear(p, x, b->qkv, "qkv");
    x = tide_name(p->g, tide_attention(p->g, x, p->info, a), "attn");
    tide_name(p->g, graph_sibling(p->g, x, 1), "attn.lse");
    x = linear(p, x, b->proj, "proj");
    return drop(p, x, site_of(i, SITE_PROJ), "proj_drop");
}

/* "fc", or "fc0", "fc1" .. where there are several blocks of rows. */
static TideTensor name_block(TideGraph *g, TideTensor x, const char *name, int block)
{
    char text[32];

    snprintf(text, sizeof text, block < 0 ? "%s" : "%s%d", name, block);
    return tide_name(g, x, text);
}

/* The widest tensors of a model lie inside its MLPs. Of a large batch they exist for one block of rows at a
 * time, each with a fate of its own. */
static TideTensor mlp_branch(const Pass *p, const Gpt *gpt, int i, TideTensor x)
{
    const Block *b = &gpt->block[i];
    const Tensor *all = graph_tensor(p->g, x);
    TideTensor y = { 0 };

    if (!all) return y;
    int64_t rows = all->shape.dim[0] * all->shape.dim[1], step = gpt->config->mlp_block;
    if (!step) step = tide_block_rows(rows, gpt->config->inner, MLP_ELEMENTS);
    for (int64_t first = 0; first < rows; first += step) {
        int block = step < rows ? (int)(first / step) : -1;
        int64_t count = first + step < rows ? step : rows - first;
        TideTensor h = tide_linear(p->g, x, b->fc.weight, b->fc.bias, (TideRows){ count, first, 0 });
        name_block(p->g, h, "fc", block);
        h = name_block(p->g, tide_gelu(p->g, h, gpt->config->gelu_erf), "gelu", block);
        y = tide_linear_into(p->g, h, b->fcproj.weight, b->fcproj.bias, x, y, (TideRows){ count, 0, first });
        if (!y.id) return y;
        if (first == 0) tide_name(p->g, y, "fcproj");
    }
    return drop(p, y, site_of(i, SITE_FCPROJ), "fcproj_drop");
}

/* The sum that ends block i, made by the first node behind it. To be called outside of all layers. */
static void name_end_of_block(TideGraph *g, int i, TideTensor sum)
{
    layer_begin(g, i);
    tide_name(g, sum, "res2");
    tide_layer_end(g);
}

static void block_forward(const Pass *p, const Gpt *gpt, int i, Stream *s)
{
    TideGraph *g = p->g;

    layer_begin(g, i);
    Norm n = norm(p, s, gpt->block[i].ln1);
    tide_layer_end(g);
    if (i > 0) name_end_of_block(g, i - 1, s->sum);
    layer_begin(g, i);
    s->branch = attention_branch(p, gpt, i, name_norm(g, n, "ln1"));
    n = norm(p, s, gpt->block[i].ln2);
    tide_name(g, s->sum, "res1");
    s->branch = mlp_branch(p, gpt, i, name_norm(g, n, "ln2"));
    tide_layer_end(g);
}

/* What the head sees: [batch, seq, width]. */
static TideTensor forward(const Pass *p, const Gpt *gpt, TideTensor tokens)
{
    TideTensor x = tide_name(p->g, tide_embedding(p->g, tokens, gpt->wte, gpt->wpe), "embed");
    Stream s = { .sum = drop(p, x, SITE_EMBED, "embed_drop") };

    for (int i = 0; i < gpt->config->layers; i++) block_forward(p, gpt, i, &s);
    Norm n = norm(p, &s, gpt->ln_f);
    name_end_of_block(p->g, gpt->config->layers - 1, s.sum);
    return name_norm(p->g, n, "ln_f");
}

/* ---- The graphs ----------------------------------------------------------- */

static TideShape batch_of(const ModelConfig *c)
{
    return (TideShape){ 2, { c->batch, c->seq } };
}

static TideTensor info_input(TideGraph *g)
{
    return tide_input(g, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } });
}

static void build_micro(Model *m, const Gpt *gpt, const Params *s)
{
    const ModelConfig *c = &m->config;
    TideGraph *g = m->micro;

    m->tokens = tide_input(g, "tokens", TIDE_I32, batch_of(c));
    m->targets = tide_input(g, "targets", TIDE_I32, batch_of(c));
    m->info = info_input(g);
    Pass p = { .g = g, .info = m->info, .dropout = c->dropout, .attn_dropout = c->attn_dropout };
    TideTensor x = forward(&p, gpt, m->tokens);
    Head head = { .x = x, .weight = gpt->head, .targets = m->targets, .info = m->info };
    head_train(g, c, head, s);
}

static void build_eval(Model *m, const Gpt *gpt)
{
    const ModelConfig *c = &m->config;
    TideGraph *g = m->eval;

    m->eval_tokens = tide_input(g, "tokens", TIDE_I32, batch_of(c));
    m->eval_targets = tide_input(g, "targets", TIDE_I32, batch_of(c));
    m->eval_info = info_input(g);
    TideTensor x = forward(&(Pass){ .g = g, .info = m->eval_info }, gpt, m->eval_tokens);
    Head head = { .x = x, .weight = gpt->head, .targets = m->eval_targets, .info = m->eval_info };
    m->eval_loss = head_eval(g, c, head);
}

static void build_sample(Model *m, const Gpt *gpt)
{
    TideGraph *g = m->sample;

    m->sample_tokens = tide_input(g, "tokens", TIDE_I32, (TideShape){ 2, { 1, m->config.seq } });
    m->sample_info = info_input(g);
    TideTensor x = forward(&(Pass){ .g = g, .info = m->sample_info }, gpt, m->sample_tokens);
    x = tide_name(g, tide_select_row(g, x, m->sample_info), "row");
    x = tide_linear(g, x, gpt->head, (TideTensor){ 0 }, (TideRows){ 0 });
    if (m->config.dtype != TIDE_F32) x = tide_cast(g, x, (TideTensor){ 0 }, TIDE_F32, false);
    m->sample_logits = tide_name(g, x, "logits");
    tide_output(g, m->sample_logits);
}

/* ---- The family ----------------------------------------------------------- */

static void defaults(ModelConfig *c)
{
    if (!c->kv_heads) c->kv_heads = c->heads;
    if (!c->positions) c->positions = c->seq;
    if (!c->inner && c->width > 0 && c->width <= MOST_WIDTH) c->inner = 4 * c->width;
}

static void check(const ModelConfig *c, TideGraph *g)
{
    const Limits limits[] = {
        { "layers", c->layers, 1, 1000 },  { "width", c->width, 1, MOST_WIDTH },
        { "heads", c->heads, 1, 1 << 16 }, { "kv-heads", c->kv_heads, 1, c->heads },
        { "seq", c->seq, 1, 1 << 24 },     { "positions", c->positions, 1, 1 << 24 },
        { "inner", c->inner, 1, 1 << 24 },
    };

    limits_check(g, limits, sizeof limits / sizeof *limits);
    if (c->seq > c->positions)
        graph_refuse(g, "seq is %d, but the model has only %d positions; choose a shorter seq", c->seq,
                     c->positions);
    if (c->heads > 0 && c->width % c->heads)
        graph_refuse(g, "width %d cannot be divided among %d heads; choose a multiple of %d", c->width,
                     c->heads, c->heads);
    if (c->kv_heads > 0 && c->heads % c->kv_heads)
        graph_refuse(g, "%d heads cannot share %d kv-heads evenly; kv-heads must divide heads", c->heads,
                     c->kv_heads);
}

static bool build(Model *m, Params *s)
{
    Gpt gpt = { .config = &m->config, .block = calloc((size_t)m->config.layers, sizeof(Block)) };

    if (!gpt.block) return false;
    m->sample = tide_graph_new(m->program, "sample");
    declare_parameters(&gpt, s);
    build_micro(m, &gpt, s);
    build_eval(m, &gpt);
    build_sample(m, &gpt);
    free(gpt.block);
    return true;
}

/* GPT-2's: each block adds two branches to the residual stream, whose variance they would
 * otherwise raise with the depth. */
static double deviation(const ModelConfig *c, const char *parameter)
{
    return strstr(parameter, "c_proj.weight") ? 0.02 / sqrt(2.0 * c->layers) : 0.02;
}

/* An embedding that is no head too is only looked up. */
static bool looked_up(const ModelConfig *c, const char *parameter)
{
    return !strcmp(parameter, "wpe.weight") || (c->untied && !strcmp(parameter, "wte.weight"));
}

/* Scores and their use: 2 GEMMs forward and 4 backward over T positions, of which a causal model needs
 * half but which MFU counts whole by convention. */
static double extra_flops(const ModelConfig *c)
{
    return 12.0 * c->layers * c->width * c->seq;
}

const Family family_gpt = { .name = "gpt",
                            .classes = { "wte.weight", "lm_head.weight" },
                            .defaults = defaults,
                            .check = check,
                            .build = build,
                            .deviation = deviation,
                            .looked_up = looked_up,
                            .extra_flops = extra_flops };
