/* test_graph.c - declaring: tensors, layers, names, the sticky first mistake, hashes and lives. */
#include <criterion/criterion.h>
#include <string.h>
#include "runtime/holding.h"
#include "tests/support/fake.h"
#include "tests/support/random_graph.h"

typedef struct Env {
    Tide *t;
    TideProgram *p;
    TideGraph *g;
} Env;

static Env env_new(void)
{
    Env e = { .t = fake_open() };

    cr_assert(e.t);
    e.p = tide_program_new(e.t);
    e.g = tide_graph_new(e.p, "g");
    return e;
}

static void env_free(Env *e)
{
    tide_program_free(e->p);
    tide_close(e->t);
}

static TideTensor vector(Env *e, const char *name, int64_t n)
{
    return tide_input(e->g, name, TIDE_F32, (TideShape){ 1, { n } });
}

static TideTensor mix1(Env *e, TideTensor x, int64_t elements)
{
    return fake_mix(e->g, &x, 1, (FakeAttr){ .elements = elements });
}

/* ---- Tensors ----------------------------------------------------------------- */

Test(graph, views_start_at_multiples_of_128_elements)
{
    Env e = env_new();
    TideTensor f = tide_flat(e.p, "f", TIDE_PARAMETER, TIDE_F32),
               h = tide_flat(e.p, "h", TIDE_STATE, TIDE_BF16);

    for (int i = 0; i < 4; i++) {
        char a[8], b[8];
        TideShape shape = { 2, { 3 + i, 50 } };
        snprintf(a, sizeof a, "a%d", i);
        snprintf(b, sizeof b, "b%d", i);
        TideTensor va = tide_flat_view(e.p, f, a, shape), vb = tide_flat_view(e.p, h, b, shape);
        const Tensor *x = e.p->tensors[va.id], *y = e.p->tensors[vb.id];
        cr_expect_eq(x->flat_offset % (128 * 4), 0);
        cr_expect_eq(x->flat_offset / 4, y->flat_offset / 2, "equal shapes, equal element offsets");
        cr_expect_eq(x->bytes, (size_t)(3 + i) * 50 * 4);
        cr_expect_leq(x->flat_offset + x->bytes, tide_tensor_bytes(e.p, f));
    }
    cr_expect_eq(tide_parameter_count(e.p), 4, "only views of parameters count");
    cr_expect_str_eq(tide_tensor_name(e.p, tide_parameter_at(e.p, 2)), "a2");
    cr_expect_eq(tide_parameter_at(e.p, 4).id, 0);
    cr_expect_eq(tide_tensor_find(e.p, NULL, "b3").id, e.p->n_tensors - 1);
    cr_expect_eq(tide_tensor_find(e.p, e.g, "b3").id, 0, "no tensor of the graph");
    env_free(&e);
}

Test(graph, inputs_and_shapes)
{
    Env e = env_new();
    TideTensor x = tide_input(e.g, "x", TIDE_I32, (TideShape){ 3, { 2, 3, 5 } });

    cr_expect_eq(tide_tensor_bytes(e.p, x), 120);
    cr_expect_eq(tide_tensor_type(e.p, x), TIDE_I32);
    cr_expect_eq(tide_tensor_shape(e.p, x).dim[2], 5);
    cr_expect_eq(graph_producer(e.g, x.id), -1);
    cr_expect_eq(tide_tensor_find(e.p, e.g, "x").id, x.id);
    env_free(&e);
}

/* ---- Names -------------------------------------------------------------------- */

Test(graph, names_follow_layers_and_stay_unique)
{
    Env e = env_new();
    TideTensor x = vector(&e, "x", 32);

    tide_layer_begin(e.g, "block0");
    tide_layer_begin(e.g, "mlp");
    TideTensor a = mix1(&e, x, 32), b = mix1(&e, a, 32);
    TideTensor c = tide_name(e.g, mix1(&e, b, 32), "fc");
    TideTensor pair = tide_name(e.g, fake_pair(e.g, c, true), "norm");
    tide_layer_end(e.g);
    TideTensor d = mix1(&e, c, 32);
    tide_layer_end(e.g);
    TideTensor f = mix1(&e, d, 32);
    cr_expect_str_eq(tide_tensor_name(e.p, a), "block0/mlp/mix");
    cr_expect_str_eq(tide_tensor_name(e.p, b), "block0/mlp/mix#2");
    cr_expect_str_eq(tide_tensor_name(e.p, c), "block0/mlp/fc");
    cr_expect_str_eq(tide_tensor_name(e.p, pair), "block0/mlp/norm");
    cr_expect_str_eq(tide_tensor_name(e.p, graph_sibling(e.g, pair, 1)), "block0/mlp/norm.1");
    cr_expect_str_eq(tide_tensor_name(e.p, d), "block0/mix");
    cr_expect_str_eq(tide_tensor_name(e.p, f), "mix");
    cr_expect_str_eq(e.g->nodes[graph_producer(e.g, c.id)]->name, "block0/mlp/fc");
    cr_expect_str_eq(e.g->nodes[graph_again(e.g, pair.id)]->name, "block0/mlp/norm.again");
    cr_expect_str_eq(e.g->layers[e.g->nodes[graph_producer(e.g, c.id)]->layer].name, "block0/mlp");
    env_free(&e);
}

Test(graph, no_two_tensors_of_a_graph_share_a_name)
{
    Tide *t = fake_open();

    for (uint64_t seed = 0; seed < 20; seed++) {
        TideProgram *p = random_program(t, (RandomSpec){ .seed = seed });
        for (int i = 1; i < p->n_tensors; i++)
            for (int j = 1; j < i; j++)
                if (p->tensors[i]->graph == p->tensors[j]->graph)
                    cr_expect_str_neq(p->tensors[i]->name, p->tensors[j]->name);
        tide_program_free(p);
    }
    tide_close(t);
}

/* ---- Who writes what ----------------------------------------------------------- */

Test(graph, producers_and_twins)
{
    Env e = env_new();
    TideTensor x = vector(&e, "x", 32), y = fake_pair(e.g, x, true), z = fake_pair(e.g, y, false);
    TideTensor stat = graph_sibling(e.g, y, 1);

    cr_expect_eq(graph_producer(e.g, y.id), 0);
    cr_expect_eq(graph_producer(e.g, stat.id), 0);
    cr_expect_eq(graph_again(e.g, y.id), 1);
    cr_expect_eq(graph_again(e.g, stat.id), -1);
    cr_expect_eq(graph_producer(e.g, z.id), 2);
    cr_expect_eq(graph_again(e.g, z.id), -1);
    cr_expect(e.g->nodes[1]->again && !e.g->nodes[0]->again);
    cr_expect_not(node_is_once(e.p, e.g->nodes[0]));
    cr_expect_not(node_is_once(e.p, e.g->nodes[1]));
    env_free(&e);
}

Test(graph, what_writes_in_place_or_to_stay_runs_once)
{
    Env e = env_new();
    TideTensor params = tide_flat(e.p, "params", TIDE_PARAMETER, TIDE_F32);
    TideTensor grads = tide_flat(e.p, "grads", TIDE_GRADIENT, TIDE_F32);
    TideTensor w = tide_flat_view(e.p, params, "w", (TideShape){ 1, { 32 } });

    tide_set_gradient(e.p, w, tide_flat_view(e.p, grads, "w.grad", (TideShape){ 1, { 32 } }), false);
    TideTensor x = vector(&e, "x", 32),
               h = fake_mix(e.g, (TideTensor[]){ x, w }, 2, (FakeAttr){ .elements = 32 });
    TideTensor y = fake_mix(e.g, (TideTensor[]){ h, w }, 2, (FakeAttr){ .elements = 32 });
    tide_backward(e.g, y, vector(&e, "dy", 32));
    TideGraph *u = tide_graph_new(e.p, "update");
    fake_update(u, params, grads, false);
    for (int i = 0; i < e.g->n_nodes; i++) {
        bool once = e.g->nodes[i]->op == &fake_ops[FAKE_PARAM];
        cr_expect_eq(node_is_once(e.p, e.g->nodes[i]), once, "node %d, %s", i, e.g->nodes[i]->name);
    }
    cr_expect(node_is_once(e.p, u->nodes[0]));
    env_free(&e);
}

Test(graph, lives_of_persistent_tensors)
{
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        Tide *t = fake_open();
        TideProgram *p =
            random_program(t, (RandomSpec){ .seed = 4, .layers = 3, .width = 3, .accumulate = accumulate });
        Pool pool = { 0 };
        const Holding *holding[3]; /* of the micro-step, the update, the evaluation */
        int written = 0;
        for (int g = 0; g < 3; g++) holding[g] = graph_holding(p->graphs[g], &pool);
        cr_assert_not(pool.failed);
        for (int id = 1; id < p->n_tensors; id++) {
            const Tensor *x = p->tensors[id];
            if (x->graph >= 0) continue;
            bool gradient = x->kind == TIDE_GRADIENT;
            bool touched = gradient && (!x->flat || graph_producer(p->graphs[0], id) >= 0);
            written += touched;
            if (!gradient || accumulate || !touched) { /* what no graph writes is zero for good */
                for (int g = 0; g < 3; g++)
                    cr_expect(holding[g][id].live_in && holding[g][id].live_out, "%s", x->name);
                continue;
            }
            cr_expect(!holding[0][id].live_in && holding[0][id].live_out, "%s", x->name);
            cr_expect(holding[1][id].live_in && !holding[1][id].live_out, "%s", x->name);
            cr_expect(!holding[2][id].live_in && !holding[2][id].live_out, "%s", x->name);
        }
        cr_expect_gt(written, 0);
        pool_free(&pool);
        tide_program_free(p);
        tide_close(t);
    }
}

/* ---- Mistakes ------------------------------------------------------------------ */

Test(graph, the_first_mistake_stays_and_names_op_layer_and_shapes)
{
    Env e = env_new();
    TideTensor x = tide_input(e.g, "x", TIDE_I32, (TideShape){ 2, { 4, 8 } });

    cr_expect_eq(tide_program_check(e.p), TIDE_OK);
    tide_layer_begin(e.g, "block3");
    TideTensor y = mix1(&e, x, 32);
    int n_nodes = e.g->n_nodes;
    TideTensor z = mix1(&e, vector(&e, "late", 32), 32);
    graph_refuse(e.g, "a second mistake");
    cr_expect_eq(y.id, 0);
    cr_expect_eq(z.id, 0, "builders do nothing after a mistake");
    cr_expect_eq(e.g->n_nodes, n_nodes);
    cr_expect_eq(tide_program_check(e.p), TIDE_BAD_GRAPH);
    static const char *const words[] = { "mix", "block3", "i32[4,8]", "graph g" };
    for (int i = 0; i < 4; i++)
        cr_expect(strstr(tide_message(e.t), words[i]), "no '%s' in: %s", words[i], tide_message(e.t));
    cr_expect_not(strstr(tide_message(e.t), "second"), "%s", tide_message(e.t));
    env_free(&e);
}

Test(graph, shapes_must_be_sane)
{
    static const TideShape shapes[] = { { 1, { 0 } }, { 2, { 4, -1 } }, { 2, { INT64_MAX, INT64_MAX } } };

    for (int i = 0; i < 3; i++) {
        Env e = env_new();
        TideTensor f = tide_flat(e.p, "f", TIDE_PARAMETER, TIDE_F32);
        cr_expect_eq(tide_flat_view(e.p, f, "view", shapes[i]).id, 0);
        cr_expect_eq(tide_program_check(e.p), TIDE_BAD_GRAPH);
        cr_expect(strstr(tide_message(e.t), "view"), "%s", tide_message(e.t));
        env_free(&e);
        e = env_new();
        cr_expect_eq(tide_input(e.g, "batch", TIDE_F32, shapes[i]).id, 0, "shape %d", i);
        cr_expect_eq(tide_program_check(e.p), TIDE_BAD_GRAPH, "shape %d", i);
        cr_expect(strstr(tide_message(e.t), "batch"), "%s", tide_message(e.t));
        env_free(&e);
    }
}

/* ---- Fates --------------------------------------------------------------------- */

Test(graph, force_matches_names_and_refuses_contradictions)
{
    Env e = env_new();
    TideTensor x = vector(&e, "x", 32), last = x, made[6];

    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "block%d", i);
        tide_layer_begin(e.g, name);
        made[2 * i] = last = tide_name(e.g, mix1(&e, last, 32), "fc");
        made[2 * i + 1] = last = tide_name(e.g, mix1(&e, last, 32), "out");
        tide_layer_end(e.g);
    }
    cr_expect_eq(tide_force(e.g, "*", TIDE_OFFLOAD), 0, "nothing is left to decide without backward");
    graph_phase(e.g, PHASE_BACKWARD);
    for (int i = 0; i < 6; i++)
        if (i != 3) mix1(&e, made[i], 32);
    cr_expect_eq(tide_force(e.g, "block*/fc", TIDE_OFFLOAD), 3);
    cr_expect_eq(tide_force(e.g, "*", TIDE_OFFLOAD), 5,
                 "the same again is no contradiction; inputs and block1/out have no fate");
    cr_expect_eq(tide_force(e.g, "block1/out", TIDE_KEEP), 0, "backward does not read it");
    cr_expect_eq(tide_force(e.g, "block1/fc", TIDE_KEEP), -1);
    cr_expect_eq(tide_force(e.g, "block9/*", TIDE_KEEP), 0);
    cr_expect_eq(e.p->tensors[last.id]->forced, TIDE_OFFLOAD);
    env_free(&e);
}

/* ---- Hashes -------------------------------------------------------------------- */

/* Graph variants that differ in one thing each. */
static uint64_t hash_of(int variant)
{
    Env e = env_new();
    TideTensor f = tide_flat(e.p, "f", TIDE_PARAMETER, variant == 1 ? TIDE_BF16 : TIDE_F32);

    tide_flat_view(e.p, f, variant == 2 ? "v" : "w", (TideShape){ 1, { variant == 3 ? 33 : 32 } });
    TideTensor x = vector(&e, "x", 32);
    TideTensor a = mix1(&e, x, variant == 4 ? 48 : 32), b = mix1(&e, variant == 5 ? x : a, 32);
    if (variant == 6) tide_name(e.g, b, "other");
    if (variant == 7) tide_output(e.g, b);
    if (variant == 8) mix1(&e, b, 32);
    if (variant == 9) tide_graph_new(e.p, "h");
    uint64_t h = program_hash(e.p);
    env_free(&e);
    return h;
}

Test(graph, the_hash_sees_every_difference_and_nothing_else)
{
    uint64_t h[10];

    for (int i = 0; i < 10; i++) h[i] = hash_of(i);
    cr_expect_eq(hash_of(0), h[0], "the same program twice");
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < i; j++) cr_expect_neq(h[i], h[j], "variants %d and %d", i, j);
}
