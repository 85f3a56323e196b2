/* problem.c - a graph and its profile as numbers.
 *
 * Persistent tensors become fixed ones. All of the static region is reserved for good except what
 * stands here as a fixed tensor: so a gradient is listed even where a graph never touches it, because its
 * bytes are then free, while bytes between the views of a flat never are (they must stay zero). */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/holding.h"
#include "runtime/pool.h"
#include "runtime/profile.h"

typedef struct Builder {
    const TideGraph *graph;
    const TideProgram *program;
    const TideProfile *profile;
    const size_t *homes; /* by tensor id: where a flat lies */
    Problem *problem;
    Pool *pool;
    int *index;       /* [n_tensors of the program]: index into the problem's tensors, -1: none */
    bool *used;       /* [n_tensors of the program]: some node of the graph reads or writes it */
    bool *whole;      /* [n_tensors of the program]: a flat that the graph uses as one */
    Holding *holding; /* [n_tensors of the program] */
    bool *views;      /* [n_tensors of the program]: a flat that has views */
} Builder;

static const Tensor *tensor_at(const Builder *b, int id)
{
    return b->program->tensors[id];
}

static void mark_used(Builder *b)
{
    for (int i = 0; i < b->graph->n_nodes; i++) {
        const Node *n = b->graph->nodes[i];
        for (int j = 0; j < n->n_in; j++) b->used[n->in[j].id] = true;
        for (int j = 0; j < n->n_out; j++) b->used[n->out[j].id] = true;
    }
    b->used[0] = false;
    for (int id = 1; id < b->program->n_tensors; id++) {
        const Tensor *t = tensor_at(b, id);
        b->whole[id] = b->used[id] && t->graph < 0 && !t->flat;
        if (t->flat) b->views[t->flat] = true;
    }
}

/* Is this tensor of the program one of the problem? */
static bool belongs(const Builder *b, int id)
{
    const Tensor *t = tensor_at(b, id);

    if (t->graph >= 0) return t->graph == b->graph->index && (b->used[id] || t->output);
    if (b->used[id]) return true;
    if (t->kind != TIDE_GRADIENT) return false;
    return t->flat ? !b->whole[t->flat] : !b->views[id];
}

static CostTensor cost_tensor(const Builder *b, int id)
{
    const Tensor *t = tensor_at(b, id);
    bool fixed = t->graph < 0;
    /* The zeros between views of a flat must survive, so a flat in use is never free. */
    bool always = fixed && (t->kind != TIDE_GRADIENT || (!t->flat && b->views[id]));

    return (CostTensor){
        .name = t->name,
        .bytes = fixed ? t->bytes : align_up(t->bytes, b->problem->alignment),
        .moved = t->bytes,
        .kind = t->kind,
        .id = id,
        .fixed = fixed,
        .offset = fixed ? b->homes[t->flat ? t->flat : id] + t->flat_offset : 0,
        .live_in = fixed && (always || b->holding[id].live_in),
        .live_out = fixed && (always || b->holding[id].live_out),
        .forced = t->forced,
        .producer = -1,
        .again = -1,
        .input = t->kind == TIDE_INPUT,
        .output = t->output && (!fixed || b->used[id]),
    };
}

static void add_tensors(Builder *b)
{
    Problem *p = b->problem;

    for (int id = 1; id < b->program->n_tensors; id++) {
        b->index[id] = -1;
        if (!belongs(b, id)) continue;
        b->index[id] = p->n_tensors;
        p->tensors[p->n_tensors++] = cost_tensor(b, id);
    }
}

/* Inputs without the holes; in_place counts likewise. */
static void add_inputs(Builder *b, const Node *n, CostNode *c)
{
    for (int j = 0; j < n->n_in; j++) {
        if (!n->in[j].id) continue;
        if (n->op->in_place == j + 1) c->in_place = c->n_in;
        c->in[c->n_in++] = b->index[n->in[j].id];
    }
}

static void add_outputs(Builder *b, const Node *n, CostNode *c)
{
    for (int j = 0; j < n->n_out; j++) {
        if (!n->out[j].id) continue;
        CostTensor *t = &b->problem->tensors[b->index[n->out[j].id]];
        if (n->again && t->again < 0) t->again = n->id;
        if (!n->again && t->producer < 0 && !(t->fixed && t->live_in)) t->producer = n->id;
        c->out[c->n_out++] = b->index[n->out[j].id];
    }
    int taken = n->op->in_place - 1;
    bool fits = c->in_place >= 0 && n->n_out && n->out[0].id &&
                tensor_at(b, n->out[0].id)->bytes == tensor_at(b, n->in[taken].id)->bytes;
    if (!fits) c->in_place = -1;
}

static bool add_nodes(Builder *b)
{
    Problem *p = b->problem;

    for (int i = 0; i < b->graph->n_nodes; i++) {
        const Node *n = b->graph->nodes[i];
        CostNode *c = &p->nodes[i];
        *c = (CostNode){ .name = n->name,
                         .layer = n->layer,
                         .phase = n->phase,
                         .seconds = profile_seconds(b->profile, b->graph, i),
                         .scratch_bytes = align_up(node_scratch(b->program, n), p->alignment),
                         .once = node_is_once(b->program, n),
                         .again = n->again,
                         .in_place = -1,
                         .in = pool_new(b->pool, (size_t)n->n_in, sizeof(int)),
                         .out = pool_new(b->pool, (size_t)n->n_out, sizeof(int)) };
        if (b->pool->failed) return false;
        add_inputs(b, n, c);
        add_outputs(b, n, c);
        if (p->turn == p->n_nodes && n->phase == PHASE_BACKWARD && !n->again) p->turn = i;
    }
    return true;
}

/* The problem and its arrays, empty; false without memory. */
static bool make_room(Builder *b)
{
    size_t tensors = (size_t)b->program->n_tensors, nodes = (size_t)b->graph->n_nodes;
    Problem *p = b->problem;

    p->tensors = pool_new(b->pool, tensors, sizeof *p->tensors);
    p->nodes = pool_new(b->pool, nodes, sizeof *p->nodes);
    p->layers = pool_new(b->pool, (size_t)b->graph->n_layers, sizeof *p->layers);
    b->index = pool_new(b->pool, tensors, sizeof *b->index);
    b->used = pool_new(b->pool, tensors, sizeof *b->used);
    b->whole = pool_new(b->pool, tensors, sizeof *b->whole);
    b->holding = graph_holding(b->graph, b->pool);
    b->views = pool_new(b->pool, tensors, sizeof *b->views);
    return !b->pool->failed;
}

TideStatus problem_from_graph(const TideGraph *g, const TideProfile *f, const size_t *homes,
                              size_t static_bytes, Problem **out)
{
    Problem *p = calloc(1, sizeof *p);
    Pool *pool = calloc(1, sizeof *pool);
    Builder b = {
        .graph = g, .program = g->program, .profile = f, .homes = homes, .problem = p, .pool = pool
    };

    *out = NULL;
    if (!p || !pool || !make_room(&b)) goto no_memory;
    p->owned = pool;
    p->n_nodes = p->turn = g->n_nodes;
    p->n_layers = g->n_layers;
    for (int i = 0; i < g->n_layers; i++) p->layers[i] = g->layers[i].name;
    p->alignment = g->program->tide->backend->alignment;
    p->static_bytes = static_bytes;
    p->link = profile_link(f);
    mark_used(&b);
    add_tensors(&b);
    if (!add_nodes(&b)) goto no_memory;
    *out = p;
    return TIDE_OK;

no_memory:
    if (pool) pool_free(pool);
    free(pool);
    free(p);
    return tide_fail(g->program->tide, TIDE_NO_MEMORY, "no memory to plan graph %s of %d nodes", g->name,
                     g->n_nodes);
}

void problem_free(Problem *p)
{
    if (!p) return;
    if (p->owned) pool_free(p->owned);
    free(p->owned);
    free(p);
}
