/* random_graph.c - random DAGs. New nodes read tensors of the last few layers, mostly recent ones,
 * and whatever nobody read in the end goes into the output, so that every node matters. */
#include <string.h>
#include "tests/support/fake.h"
#include "tests/support/random_graph.h"

enum { MOST_OPEN = 4096, ROWS = 6, CHANNELS = 32, MOST_PARAMS = 64 };

typedef struct Maker {
    TideProgram *program;
    TideGraph *graph;
    RandomSpec spec;
    uint64_t state;
    TideTensor params, grads;      /* flats */
    TideTensor param[MOST_PARAMS]; /* views */
    int n_params, next_param;
    TideTensor info;            /* real ops */
    TideTensor open[MOST_OPEN]; /* made so far */
    bool read[MOST_OPEN];
    int n_open, site;
} Maker;

uint32_t chance(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

static uint32_t roll(Maker *m, uint32_t n)
{
    return chance(&m->state, n);
}

/* ---- Tensors --------------------------------------------------------------- */

static void keep(Maker *m, TideTensor x)
{
    if (!x.id || m->n_open == MOST_OPEN) return;
    m->open[m->n_open] = x;
    m->read[m->n_open++] = false;
}

/* A tensor made before, mostly a recent one. */
static TideTensor pick(Maker *m)
{
    uint32_t window = roll(m, 4) ? 4 : 24, n = (uint32_t)m->n_open;
    uint32_t i = n - 1 - roll(m, n < window ? n : window);

    m->read[i] = true;
    return m->open[i];
}

static TideTensor next_param(Maker *m)
{
    return m->param[m->next_param++ % m->n_params];
}

/* Parameters of odd sizes, so that there is padding between them. */
static void make_params(Maker *m)
{
    TideProgram *p = m->program;

    m->params = tide_flat(p, "params", TIDE_PARAMETER, TIDE_F32);
    m->grads = tide_flat(p, "grads", TIDE_GRADIENT, TIDE_F32);
    m->n_params = m->spec.real ? 6 : 3 + (int)roll(m, 8);
    for (int i = 0; i < m->n_params; i++) {
        TideShape shape = { 1, { m->spec.real ? CHANNELS : 1 + (int64_t)roll(m, 700) } };
        char name[16], grad[24];
        if (m->spec.real && i % 3 == 2) shape = (TideShape){ 2, { CHANNELS, CHANNELS } };
        snprintf(name, sizeof name, "p%d", i);
        snprintf(grad, sizeof grad, "p%d.grad", i);
        m->param[i] = tide_flat_view(p, m->params, name, shape);
        tide_set_gradient(p, m->param[i], tide_flat_view(p, m->grads, grad, shape), m->spec.accumulate);
    }
}

/* ---- Nodes ----------------------------------------------------------------- */

static TideTensor fake_node(Maker *m)
{
    TideTensor in[4] = { pick(m) };
    FakeAttr attr = { .elements = 16 + 16 * (int64_t)roll(m, 60), .scratch = 32 * (int64_t)roll(m, 4) };
    uint32_t kind = roll(m, 6);
    int n = 1;

    if (kind == 0) return fake_pair(m->graph, in[0], roll(m, 2));
    while (n < 3 && roll(m, 2)) in[n++] = pick(m);
    if (kind == 1) return fake_over(m->graph, in, n, (FakeAttr){ .scratch = attr.scratch });
    if (kind == 2) in[n++] = next_param(m);
    return fake_mix(m->graph, in, n, attr);
}

static TideTensor real_node(Maker *m)
{
    TideTensor x = pick(m), none = { 0 };
    TideGraph *g = m->graph;

    switch (roll(m, 5)) {
    case 0: return tide_gelu(g, x, roll(m, 2));
    case 1: return tide_dropout(g, x, m->info, 0.25f, m->site++);
    case 2: return tide_layernorm(g, x, m->param[0], m->param[1]);
    case 3:
        return tide_linear(g, x, m->param[roll(m, 2) ? 2 : 5], roll(m, 2) ? m->param[3] : none,
                           (TideRows){ 0 });
    default: return tide_add(g, x, pick(m));
    }
}

/* Everything that nobody read so far, in one tensor. */
static TideTensor gather(Maker *m)
{
    TideTensor left[MOST_OPEN] = { { 0 } };
    int n = 0;

    for (int i = 0; i < m->n_open; i++)
        if (!m->read[i]) left[n++] = m->open[i];
    if (!m->spec.real) return fake_mix(m->graph, left, n, (FakeAttr){ .elements = 64 });
    TideTensor y = left[0];
    for (int i = 1; i < n; i++) y = tide_add(m->graph, y, left[i]);
    return n > 1 ? y : tide_add(m->graph, y, y);
}

static TideTensor forward(Maker *m, int layers, int width)
{
    TideShape shape = m->spec.real ? (TideShape){ 2, { ROWS, CHANNELS } } : (TideShape){ 1, { 200 } };
    char name[24];

    m->n_open = 0;
    keep(m, tide_input(m->graph, "x", TIDE_F32, shape));
    if (m->spec.real) m->info = tide_input(m->graph, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } });
    for (int l = 0; l < layers; l++) {
        snprintf(name, sizeof name, "layer%d", l);
        tide_layer_begin(m->graph, name);
        for (int i = 0; i < width; i++) keep(m, m->spec.real ? real_node(m) : fake_node(m));
        if (!m->spec.real && l == 0) { /* some parameter is always in use */
            TideTensor in[2] = { pick(m), next_param(m) };
            keep(m, fake_mix(m->graph, in, 2, (FakeAttr){ .elements = 100 }));
        }
        tide_layer_end(m->graph);
    }
    if (m->spec.real) keep(m, tide_linear(m->graph, pick(m), m->param[2], m->param[3], (TideRows){ 0 }));
    TideTensor y = tide_name(m->graph, gather(m), "y");
    tide_output(m->graph, y);
    return y;
}

static void micro(Maker *m)
{
    int layers = m->spec.layers ? m->spec.layers : 1 + (int)roll(m, 6);
    int width = m->spec.width ? m->spec.width : 1 + (int)roll(m, 5);

    m->graph = tide_graph_new(m->program, "micro");
    TideTensor y = forward(m, layers, width);
    TideTensor dy = tide_input(m->graph, "dy", TIDE_F32, tide_tensor_shape(m->program, y));
    tide_backward(m->graph, y, dy);
}

static void update(Maker *m)
{
    m->graph = tide_graph_new(m->program, "update");
    if (!m->spec.real) {
        fake_update(m->graph, m->params, m->grads, m->spec.accumulate);
        return;
    }
    TideTensor info = tide_input(m->graph, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } });
    tide_sgd(m->graph, m->params, m->grads, (TideTensor){ 0 }, info);
    if (m->spec.accumulate) tide_fill(m->graph, m->grads, 0);
}

TideProgram *random_program(Tide *t, RandomSpec spec)
{
    Maker m = { .program = tide_program_new(t), .spec = spec, .state = spec.seed * 2654435761u + 1 };

    if (!m.program) return NULL;
    make_params(&m);
    micro(&m);
    update(&m);
    m.graph = tide_graph_new(m.program, "eval");
    forward(&m, 2, 2);
    return m.program;
}
