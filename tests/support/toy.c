/* toy.c - a Problem by hand. */
#include "tests/support/toy.h"

static const char *const names[] = { "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9" };
static const char *const layers[] = { "toy" };

static CostNode *add_node(Toy *t, int i, Phase phase, double seconds)
{
    t->nodes[i] = (CostNode){
        .name = "node", .phase = phase, .seconds = seconds, .in_place = -1, .in = t->in[i], .out = t->out[i]
    };
    return &t->nodes[i];
}

static void add_maker(Toy *t, const ToySpec *s, int node, int tensor, double seconds)
{
    CostNode *n = add_node(t, node, PHASE_FORWARD, seconds);

    n->in[n->n_in++] = s->n;
    if (s->chained && tensor > 0) n->in[n->n_in++] = tensor - 1;
    n->out[n->n_out++] = tensor;
    n->once = s->once;
}

void toy_make(Toy *t, ToySpec s)
{
    int nodes = 2 * s.n;

    *t = (Toy){ .problem = { .n_tensors = s.n + 1,
                             .layers = (const char **)layers,
                             .n_layers = 1,
                             .alignment = 1,
                             .static_bytes = TOY_PARAMETER,
                             .turn = s.n } };
    t->problem.tensors = t->tensors;
    t->problem.nodes = t->nodes;
    t->problem.link = (Link){ .out = s.link, .in = s.link };
    t->tensors[s.n] = (CostTensor){ .name = "w",
                                    .bytes = TOY_PARAMETER,
                                    .moved = TOY_PARAMETER,
                                    .kind = TIDE_PARAMETER,
                                    .fixed = true,
                                    .live_in = true,
                                    .live_out = true,
                                    .producer = -1,
                                    .again = -1 };
    for (int i = 0; i < s.n; i++) {
        t->tensors[i] = (CostTensor){ .name = names[i],
                                      .bytes = s.bytes[i],
                                      .moved = s.bytes[i],
                                      .kind = TIDE_ACTIVATION,
                                      .id = i,
                                      .producer = i,
                                      .again = -1 };
        add_maker(t, &s, i, i, s.seconds[i]);
        CostNode *back = add_node(t, s.n + i, PHASE_BACKWARD, s.backward);
        back->in[back->n_in++] = s.n - 1 - i;
    }
    for (int i = 0; s.again && i < s.n; i++) {
        if (s.again[i] <= 0) continue;
        add_maker(t, &s, nodes, i, s.again[i]);
        t->nodes[nodes].again = true;
        t->tensors[i].again = nodes++;
    }
    t->problem.n_nodes = nodes;
}
