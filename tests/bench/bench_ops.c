/* bench_ops.c - seconds and bytes a second of the ops that memory binds, at GPT-2's width.
 *
 * Not a test. Each row is the best of some runs by the plain interpreter; a byte counts once for
 * each tensor that a node reads or writes. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "kernels/ops.h"
#include "tests/support/numeric.h"

enum {
    ROWS = 4096,
    T = 1024,
    C = 768,
    VOCAB = 50257,
    PADDED = 50304,
    LOGIT_ROWS = 128,
    PARAMETERS = 8 << 20,
    RUNS = 7
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const TideTensor none = { 0 };
static const TideShape activations = { 3, { ROWS / T, T, C } };

static TideTensor input(Scene *s, const char *name)
{
    return tide_input(s->g, name, TIDE_F32, activations);
}

static TideTensor ints(Scene *s, const char *name, TideShape shape)
{
    return tide_input(s->g, name, TIDE_I32, shape);
}

static TideTensor info(Scene *s)
{
    return ints(s, "info", (TideShape){ 1, { TIDE_INFO_WORDS } });
}

static void build_activations(Scene *s)
{
    TideTensor weight = scene_parameter(s, "weight", (TideShape){ 1, { C } });
    TideTensor bias = scene_parameter(s, "bias", (TideShape){ 1, { C } });
    TideTensor table = scene_parameter(s, "table", (TideShape){ 2, { PADDED, C } });
    TideTensor tokens = ints(s, "tokens", (TideShape){ 2, { ROWS / T, T } });
    TideTensor x = tide_embedding(s->g, tokens, table, none);

    x = tide_layernorm(s->g, tide_add(s->g, x, input(s, "a")), weight, bias);
    x = tide_dropout(s->g, x, info(s), 0.1f, 1);
    x = tide_add_layernorm(s->g, input(s, "b"), x, weight, bias);
    x = graph_sibling(s->g, x, 1);
    tide_backward(s->g, x, input(s, "dy"));
}

static void build_loss(Scene *s)
{
    TideTensor logits = tide_input(s->g, "logits", TIDE_F32, (TideShape){ 2, { LOGIT_ROWS, PADDED } });
    TideTensor targets = ints(s, "targets", (TideShape){ 2, { 1, LOGIT_ROWS } }), step = info(s);
    TideClasses c = { .vocab = VOCAB, .ignore = -1 };

    tide_cross_entropy(s->g, logits, targets, none, c);
    tide_cross_entropy_grad(s->g, logits, targets, none, step, c);
}

static void build_update(Scene *s)
{
    TideShape shape = { 1, { PARAMETERS } };
    TideAdamW a = { .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .decay = 0.1f };

    a.parameter = scene_persistent(s, "p", TIDE_PARAMETER, shape);
    a.gradient = scene_persistent(s, "g", TIDE_GRADIENT, shape);
    a.m = scene_persistent(s, "m", TIDE_STATE, shape);
    a.v = scene_persistent(s, "v", TIDE_STATE, shape);
    a.info = info(s);
    a.norm = tide_grad_norm(s->g, &a.gradient, 1, a.info, 1.0f);
    tide_adamw(s->g, a);
    tide_sgd(s->g, a.parameter, a.gradient, a.norm, a.info);
    tide_sum(s->g, a.gradient, scene_persistent(s, "total", TIDE_STATE, (TideShape){ 1, { 1 } }), false);
    tide_fill(s->g, a.gradient, 0.5);
}

static void fill(const Scene *s)
{
    const TideStepInfo step = {
        .seed = 1, .loss_scale = 1, .grad_scale = 1, .lr = 1e-3f, .bias1 = 0.1f, .bias2 = 0.05f
    };

    for (int i = 1; i < s->p->n_tensors; i++) {
        const Tensor *t = s->p->tensors[i];
        TideTensor x = { i };
        if (t->type == TIDE_F32 &&
            (t->kind == TIDE_INPUT || t->kind == TIDE_PARAMETER || t->kind == TIDE_GRADIENT))
            numeric_random(scene_f32(s, x), scene_elements(s, x), 1.0f, 1);
        else if (t->kind == TIDE_INPUT && t->shape.n == 1)
            memcpy(scene_i32(s, x), &step, sizeof step);
        else if (t->kind == TIDE_INPUT)
            numeric_random_ints(scene_i32(s, x), scene_elements(s, x), VOCAB, 1);
    }
}

static double bytes_of(const Scene *s, const TideTensor *x, int n)
{
    double bytes = 0;

    for (int i = 0; i < n; i++)
        if (x[i].id) bytes += (double)s->p->tensors[x[i].id]->bytes;
    return bytes;
}

static void time_nodes(void (*build)(Scene *))
{
    Scene s;

    scene_open(&s);
    build(&s);
    const char *mistake = scene_ready(&s);
    if (mistake) printf("%s\n", mistake);
    if (!mistake) fill(&s);
    for (int i = 0; !mistake && i < s.g->n_nodes; i++) {
        const Node *n = s.g->nodes[i];
        double best = 1e9, bytes = bytes_of(&s, n->in, n->n_in) + bytes_of(&s, n->out, n->n_out);
        for (int k = 0; k < RUNS; k++) {
            double start = now();
            numeric_run_node(s.g, i, s.memory);
            double seconds = now() - start;
            if (seconds < best) best = seconds;
        }
        printf("%-20s %9.3f ms %7.1f GB/s\n", n->op->name, best * 1e3, bytes / best * 1e-9);
    }
    scene_close(&s);
}

int main(void)
{
    time_nodes(build_activations);
    time_nodes(build_loss);
    time_nodes(build_update);
    return 0;
}
