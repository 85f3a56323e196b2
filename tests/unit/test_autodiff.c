/* test_autodiff.c - which nodes the backward pass appends, and in what order. */
#include <criterion/criterion.h>
#include <string.h>
#include "tests/support/fake.h"
#include "tests/support/random_graph.h"

enum { N = 32 };

/* A program with two parameters w0 and w1 and their gradients, and a graph with inputs x and dy. */
typedef struct Env {
    Tide *t;
    TideProgram *p;
    TideGraph *g;
    TideTensor w[2], dw[2], x, dy;
} Env;

static Env env_new(bool accumulate)
{
    Env e = { .t = fake_open() };
    TideShape shape = { 1, { N } };

    cr_assert(e.t);
    e.p = tide_program_new(e.t);
    TideTensor params = tide_flat(e.p, "params", TIDE_PARAMETER, TIDE_F32);
    TideTensor grads = tide_flat(e.p, "grads", TIDE_GRADIENT, TIDE_F32);
    for (int i = 0; i < 2; i++) {
        e.w[i] = tide_flat_view(e.p, params, i ? "w1" : "w0", shape);
        e.dw[i] = tide_flat_view(e.p, grads, i ? "w1.grad" : "w0.grad", shape);
        tide_set_gradient(e.p, e.w[i], e.dw[i], accumulate);
    }
    e.g = tide_graph_new(e.p, "g");
    e.x = tide_input(e.g, "x", TIDE_F32, shape);
    e.dy = tide_input(e.g, "dy", TIDE_F32, shape);
    return e;
}

static void env_free(Env *e)
{
    tide_program_free(e->p);
    tide_close(e->t);
}

static TideTensor mix2(Env *e, TideTensor a, TideTensor b)
{
    return fake_mix(e->g, (TideTensor[]){ a, b }, b.id ? 2 : 1, (FakeAttr){ .elements = N });
}

/* The ops of the backward nodes, in order: "back param add". */
static const char *backward_ops(const TideGraph *g)
{
    static char text[400];

    text[0] = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i]->phase != PHASE_BACKWARD) continue;
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", g->nodes[i]->op->name);
    }
    return text;
}

static void expect_ops(const Env *e, const char *ops)
{
    cr_assert_eq(tide_program_check(e->p), TIDE_OK, "%s", tide_message(e->t));
    cr_expect_str_eq(backward_ops(e->g), ops);
}

static const Node *newest(const Env *e)
{
    return e->g->nodes[e->g->n_nodes - 1];
}

Test(autodiff, only_what_leads_to_a_parameter_is_differentiated)
{
    Env e = env_new(false);
    TideTensor none = { 0 }, a = mix2(&e, e.x, none), b = mix2(&e, a, e.w[0]), y = mix2(&e, b, none);

    mix2(&e, e.x, e.w[1]); /* leads to a parameter, but y does not depend on it */
    tide_backward(e.g, y, e.dy);
    expect_ops(&e, "back param");
    cr_expect_eq(tide_grad(e.g, y).id, e.dy.id);
    cr_expect_neq(tide_grad(e.g, b).id, 0);
    cr_expect_eq(tide_grad(e.g, a).id, 0, "no parameter is behind a");
    cr_expect_eq(tide_grad(e.g, e.x).id, 0);
    cr_expect_eq(newest(&e)->out[0].id, e.dw[0].id, "the gradient is written where it was said");
    cr_expect_eq(graph_producer(e.g, e.dw[1].id), -1);
    env_free(&e);
}

Test(autodiff, where_two_gradients_meet_they_are_added)
{
    Env e = env_new(false);
    TideTensor none = { 0 }, a = mix2(&e, e.x, e.w[0]), b = mix2(&e, a, none), c = mix2(&e, a, none);

    tide_backward(e.g, mix2(&e, b, c), e.dy);
    expect_ops(&e, "back back back back add param");
    const Node *sum = e.g->nodes[graph_producer(e.g, tide_grad(e.g, a).id)];
    cr_expect_str_eq(sum->op->name, "add");
    env_free(&e);
}

Test(autodiff, a_tensor_used_twice_by_one_node_counts_twice)
{
    Env e = env_new(false);
    TideTensor a = mix2(&e, e.x, e.w[0]);

    tide_backward(e.g, mix2(&e, a, a), e.dy);
    expect_ops(&e, "back back add param");
    env_free(&e);
}

Test(autodiff, a_parameter_used_twice_is_a_chain)
{
    Env e = env_new(false);

    tide_backward(e.g, mix2(&e, mix2(&e, e.x, e.w[0]), e.w[0]), e.dy);
    expect_ops(&e, "back param param");
    const Node *first = e.g->nodes[graph_producer(e.g, e.dw[0].id)], *second = newest(&e);
    cr_expect_eq(first->in[1].id, 0, "the first writes");
    cr_expect_eq(second->in[1].id, e.dw[0].id, "the second adds to what it finds");
    cr_expect_eq(second->out[0].id, e.dw[0].id);
    cr_expect(node_is_once(e.p, first) && node_is_once(e.p, second));
    env_free(&e);
}

Test(autodiff, gradients_that_accumulate_are_added_to_from_the_first)
{
    Env e = env_new(true);

    tide_backward(e.g, mix2(&e, e.x, e.w[0]), e.dy);
    expect_ops(&e, "param");
    cr_expect_eq(newest(&e)->in[1].id, e.dw[0].id);
    env_free(&e);
}

Test(autodiff, twins_are_not_differentiated_and_nodes_keep_their_layer)
{
    Env e = env_new(false);

    tide_layer_begin(e.g, "block0");
    TideTensor a = fake_pair(e.g, mix2(&e, e.x, e.w[0]), true);
    tide_layer_end(e.g);
    tide_backward(e.g, mix2(&e, a, e.w[1]), e.dy);
    expect_ops(&e, "back param back param");
    cr_expect_str_eq(e.g->layers[newest(&e)->layer].name, "block0");
    cr_expect_str_eq(newest(&e)->name, "block0/mix.param");
    tide_layer_begin(e.g, "after");
    cr_expect_str_eq(e.g->layers[e.g->layer].name, "after", "the layer outside is restored");
    env_free(&e);
}

Test(autodiff, an_op_without_a_gradient_is_a_mistake_only_in_the_way)
{
    Env e = env_new(false);
    TideTensor a = mix2(&e, e.x, e.w[0]), dead = a;
    NodeSpec spec = { .op = &fake_ops[FAKE_BACK], .in = (TideTensor[]){ a, a }, .n_in = 2 };

    dead = graph_append(e.g, spec); /* has no gradient, but nothing depends on it */
    tide_backward(e.g, mix2(&e, a, e.x), e.dy);
    cr_expect_eq(tide_program_check(e.p), TIDE_OK, "%s", tide_message(e.t));
    TideGraph *h = tide_graph_new(e.p, "h");
    TideTensor x = tide_input(h, "x", TIDE_F32, (TideShape){ 1, { N } });
    TideTensor b = fake_mix(h, (TideTensor[]){ x, e.w[1] }, 2, (FakeAttr){ .elements = N });
    spec.in = (TideTensor[]){ b, b };
    tide_backward(h, graph_append(h, spec), x);
    cr_expect_eq(tide_program_check(e.p), TIDE_BAD_GRAPH);
    cr_expect(strstr(tide_message(e.t), "back"), "%s", tide_message(e.t));
    cr_expect_neq(dead.id, 0);
    env_free(&e);
}

/* Every node reads what earlier nodes wrote; every gradient of a used parameter is written. */
Test(autodiff, random_graphs_are_in_order)
{
    Tide *t = fake_open();

    for (uint64_t seed = 0; seed < 100; seed++) {
        TideProgram *p = random_program(t, (RandomSpec){ .seed = seed });
        TideGraph *g = p->graphs[0];
        cr_assert_eq(tide_program_check(p), TIDE_OK, "%s", tide_message(t));
        for (int i = 0; i < g->n_nodes; i++)
            for (int j = 0; j < g->nodes[i]->n_in; j++) {
                int id = g->nodes[i]->in[j].id;
                if (!id || p->tensors[id]->graph < 0 || p->tensors[id]->kind == TIDE_INPUT) continue;
                cr_expect(graph_producer(g, id) >= 0 && graph_producer(g, id) < i, "seed %d node %d",
                          (int)seed, i);
            }
        for (int i = 0; i < tide_parameter_count(p); i++) {
            TideTensor w = tide_parameter_at(p, i);
            bool used = false;
            for (int k = 0; k < g->n_nodes; k++)
                for (int j = 0; j < g->nodes[k]->n_in; j++) used = used || g->nodes[k]->in[j].id == w.id;
            bool written = graph_producer(g, tide_gradient_of(p, w).id) >= 0;
            cr_expect_eq(used, written, "seed %d: %s", (int)seed, tide_tensor_name(p, w));
        }
        tide_program_free(p);
    }
    tide_close(t);
}
