/* test_threads.c - every op on 1, 2 and 4 threads: one hash of all that it wrote.
 *
 * A small GPT made of all ops, with odd sizes that leave ragged blocks, run by the plain
 * interpreter; the `again` nodes run too, over their own tensors. */
#include <criterion/criterion.h>
#include <string.h>
#include "kernels/ops.h"
#include "tests/support/numeric.h"

enum { B = 3, T = 45, C = 72, HEADS = 6, KV_HEADS = 2, HEAD = 12, HIDDEN = 200, VOCAB = 301, PADDED = 384 };
enum { QKV = (HEADS + 2 * KV_HEADS) * HEAD, ATTENDED = HEADS * HEAD };

typedef struct Weight {
    const char *name;
    TideShape shape;
} Weight;
enum { WTE, WPE, LN1W, LN1B, QKVW, QKVB, PROJW, LN2W, LN2B, FCW, FCB, OUTW, LNFW, N_WEIGHTS };

static const Weight weights[N_WEIGHTS] = {
    [WTE] = { "wte", { 2, { PADDED, C } } },
    [WPE] = { "wpe", { 2, { T + 3, C } } },
    [LN1W] = { "ln1.w", { 1, { C } } },
    [LN1B] = { "ln1.b", { 1, { C } } },
    [QKVW] = { "qkv.w", { 2, { QKV, C } } },
    [QKVB] = { "qkv.b", { 1, { QKV } } },
    [PROJW] = { "proj.w", { 2, { C, ATTENDED } } },
    [LN2W] = { "ln2.w", { 1, { C } } },
    [LN2B] = { "ln2.b", { 1, { C } } },
    [FCW] = { "fc.w", { 2, { HIDDEN, C } } },
    [FCB] = { "fc.b", { 1, { HIDDEN } } },
    [OUTW] = { "out.w", { 2, { C, HIDDEN } } },
    [LNFW] = { "lnf.w", { 1, { C } } },
};

typedef struct Net {
    Scene s;
    TideTensor w[N_WEIGHTS], parameters, gradients, m, v, loss, other, scaling;
    TideTensor tokens, targets, info;
    TideGraph *update, *eval, *sample;
} Net;

static const TideTensor none = { 0 };

static void declare(Net *n)
{
    TideProgram *p = n->s.p;

    n->parameters = tide_flat(p, "parameters", TIDE_PARAMETER, TIDE_F32);
    n->gradients = tide_flat(p, "gradients", TIDE_GRADIENT, TIDE_F32);
    n->m = tide_flat(p, "m", TIDE_STATE, TIDE_F32);
    n->v = tide_flat(p, "v", TIDE_STATE, TIDE_F32);
    for (int i = 0; i < N_WEIGHTS; i++) {
        char name[32];
        n->w[i] = tide_flat_view(p, n->parameters, weights[i].name, weights[i].shape);
        snprintf(name, sizeof name, "%s.gradient", weights[i].name);
        TideTensor gradient = tide_flat_view(p, n->gradients, name, weights[i].shape);
        tide_set_gradient(p, n->w[i], gradient, false);
        snprintf(name, sizeof name, "%s.m", weights[i].name);
        tide_flat_view(p, n->m, name, weights[i].shape);
        snprintf(name, sizeof name, "%s.v", weights[i].name);
        tide_flat_view(p, n->v, name, weights[i].shape);
    }
    n->loss = scene_persistent(&n->s, "loss", TIDE_STATE, (TideShape){ 1, { 1 } });
    n->scaling = tide_flat(p, "scaling", TIDE_STATE, TIDE_I32);
    n->scaling = tide_flat_view(p, n->scaling, "scaling", (TideShape){ 1, { TIDE_SCALING_WORDS } });
    n->other = scene_persistent(&n->s, "other", TIDE_STATE, (TideShape){ 1, { 100003 } });
}

static TideTensor branch_mlp(Net *n, TideGraph *g, TideTensor x)
{
    x = tide_linear(g, x, n->w[FCW], n->w[FCB], (TideRows){ 0 });
    x = tide_gelu(g, tide_gelu(g, x, false), true);
    return tide_linear(g, x, n->w[OUTW], none, (TideRows){ 0 });
}

static void build_micro(Net *n)
{
    TideGraph *g = n->s.g;
    const TideAttention a = { HEADS, KV_HEADS, HEAD, 0.1f, 1, 0, 0 };
    TideShape tokens = { 2, { B, T } };

    n->tokens = tide_input(g, "tokens", TIDE_I32, tokens);
    n->targets = tide_input(g, "targets", TIDE_I32, tokens);
    n->info = tide_input(g, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } });
    TideTensor x = tide_embedding(g, n->tokens, n->w[WTE], n->w[WPE]);
    TideTensor y = tide_layernorm(g, x, n->w[LN1W], n->w[LN1B]);
    y = tide_attention(g, tide_linear(g, y, n->w[QKVW], n->w[QKVB], (TideRows){ 0 }), n->info, a);
    y = tide_dropout(g, tide_linear(g, y, n->w[PROJW], none, (TideRows){ 0 }), n->info, 0.1f, 2);
    x = tide_add_layernorm(g, x, y, n->w[LN2W], n->w[LN2B]);
    x = tide_add(g, x, branch_mlp(n, g, graph_sibling(g, x, 1)));
    x = tide_cast(g, x, none, TIDE_F32, false);
    x = tide_layernorm(g, x, n->w[LNFW], none);
    TideClasses c = { .vocab = VOCAB, .ignore = -1 };
    TideLoss loss = tide_linear_cross_entropy(g, x, n->w[WTE], n->targets, n->info, c, 50, true);
    tide_sum(g, loss.losses, n->loss, false);
    tide_backward(g, x, loss.dx);
}

static TideTensor build_others(Net *n)
{
    n->update = tide_graph_new(n->s.p, "update");
    TideTensor info = tide_input(n->update, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } });
    TideTensor norm = tide_grad_norm(n->update, &n->gradients, 1, info, 1.0f);
    TideAdamW a = { .parameter = n->parameters,
                    .gradient = n->gradients,
                    .m = n->m,
                    .v = n->v,
                    .norm = norm,
                    .info = info,
                    .beta1 = 0.9f,
                    .beta2 = 0.95f,
                    .eps = 1e-8f,
                    .decay = 0.1f };
    tide_adamw(n->update, a);
    tide_sgd(n->update, n->parameters, n->gradients, norm, info);
    tide_fill(n->update, n->other, 0.25);
    tide_scale_loss(n->update, info, n->scaling);
    tide_loss_scaling(n->update, (TideLossScaling){ .info = info,
                                                    .norm = norm,
                                                    .scaling = n->scaling,
                                                    .growth = 2,
                                                    .backoff = 0.5f,
                                                    .least = 1,
                                                    .interval = 100 });

    n->eval = tide_graph_new(n->s.p, "eval");
    TideTensor x = tide_embedding(
        n->eval, tide_input(n->eval, "tokens", TIDE_I32, (TideShape){ 2, { B, T } }), n->w[WTE], none);
    TideTensor targets = tide_input(n->eval, "targets", TIDE_I32, (TideShape){ 2, { B, T } });
    TideLoss loss = tide_linear_cross_entropy(n->eval, x, n->w[WTE], targets, none,
                                              (TideClasses){ VOCAB, -1, 0 }, 0, false);
    tide_sum(n->eval, loss.losses, n->loss, true);

    n->sample = tide_graph_new(n->s.p, "sample");
    TideTensor rows = tide_input(n->sample, "rows", TIDE_F32, (TideShape){ 3, { 1, T, C } });
    tide_select_row(n->sample, rows,
                    tide_input(n->sample, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } }));
    return info;
}

/* Tokens, targets and infos are the i32 inputs; every number depends on names alone. */
static void fill_inputs(Net *n)
{
    const TideStepInfo info = {
        .seed = 5, .loss_scale = 0.01f, .grad_scale = 1, .lr = 0.01f, .bias1 = 0.1f, .bias2 = 0.05f, .row = 3
    };

    for (int i = 1; i < n->s.p->n_tensors; i++) {
        const Tensor *t = n->s.p->tensors[i];
        TideTensor x = { i };
        if (t->kind != TIDE_INPUT) continue;
        if (t->type == TIDE_F32)
            numeric_random(scene_f32(&n->s, x), scene_elements(&n->s, x), 1.0f, 7);
        else if (t->shape.n == 1)
            memcpy(scene_i32(&n->s, x), &info, sizeof info);
        else
            numeric_random_ints(scene_i32(&n->s, x), scene_elements(&n->s, x), VOCAB, (uint64_t)i);
    }
    const TideScaling scaling = { .scale = 1024 };
    memcpy(scene_i32(&n->s, n->scaling), &scaling, sizeof scaling);
    for (int i = 0; i < N_WEIGHTS; i++)
        numeric_random(scene_f32(&n->s, n->w[i]), scene_elements(&n->s, n->w[i]), 0.3f, (uint64_t)i);
}

static void net_open(Net *n)
{
    memset(n, 0, sizeof *n);
    scene_open(&n->s);
    declare(n);
    build_micro(n);
    build_others(n);
    const char *mistake = scene_ready(&n->s);
    cr_assert(!mistake, "%s", mistake);
    fill_inputs(n);
}

/* Run node after node and mix what each wrote into its op's hash. */
static void run_hashed(const Net *n, uint64_t hash[OP_COUNT])
{
    for (int k = 0; k < n->s.p->n_graphs; k++) {
        const TideGraph *g = n->s.p->graphs[k];
        for (int i = 0; i < g->n_nodes; i++) {
            const Node *node = g->nodes[i];
            cr_assert_eq(numeric_run_node(g, i, n->s.memory), TIDE_OK, "%s", node->name);
            for (int o = 0; o < node->n_out; o++) {
                const Tensor *t = program_tensor(n->s.p, node->out[o].id);
                if (t)
                    hash[node->op->id] =
                        numeric_hash(hash[node->op->id], n->s.memory[node->out[o].id], t->bytes);
            }
        }
    }
}

Test(threads, never_change_bits)
{
    const int threads[] = { 1, 2, 4, 3 };
    uint64_t hash[4][OP_COUNT];

    if (!numeric_threads(1)) cr_skip_test("built without OpenMP");
    for (int k = 0; k < 4; k++) {
        Net n;
        numeric_threads(threads[k]);
        for (int op = 0; op < OP_COUNT; op++) hash[k][op] = NUMERIC_HASH;
        net_open(&n);
        run_hashed(&n, hash[k]);
        scene_close(&n.s);
        for (int op = 0; op < OP_COUNT; op++) {
            cr_expect_neq(hash[k][op], NUMERIC_HASH, "op %d did not run", op);
            cr_expect_eq(hash[k][op], hash[0][op], "op %d on %d threads differs from one thread", op,
                         threads[k]);
        }
    }
}
