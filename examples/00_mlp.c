/* 00_mlp.c - a deep network, built by hand and trained in half of the memory that it wants.
 *
 *     ./00_mlp [device]
 *
 * Points in 32 dimensions are to be told apart by which of their first ten coordinates is the
 * largest. Nothing here knows how the budget is kept: the planner decides which activations
 * to keep, to compute again or to move away, and the losses are the same bits in any case. */
#include <stdlib.h>
#include "kernels/ops.h"

enum { BATCH = 256, WIDTH = 32, HIDDEN = 128, DEPTH = 12, CLASSES = 10, STEPS = 400 };

typedef struct Net {
    TideProgram *program;
    TideGraph *train, *update;
    TideTensor parameters, gradients; /* all of them, flat */
    TideTensor x, labels, info, update_info, loss, norm;
} Net;

static TideTensor weight(Net *n, const char *name, int64_t out, int64_t in)
{
    char grad[64];
    TideShape shape = { 2, { out, in } };
    TideTensor w = tide_flat_view(n->program, n->parameters, name, shape);

    snprintf(grad, sizeof grad, "%.32s.grad", name);
    tide_set_gradient(n->program, w, tide_flat_view(n->program, n->gradients, grad, shape), false);
    return w;
}

/* One graph computes the loss and all gradients, another changes the weights. */
static void build(Net *n, Tide *t)
{
    TideTensor w[DEPTH], head, total, none = { 0 };
    TideShape info = { 1, { TIDE_INFO_WORDS } };
    char name[32];

    n->program = tide_program_new(t);
    n->parameters = tide_flat(n->program, "parameters", TIDE_PARAMETER, TIDE_F32);
    n->gradients = tide_flat(n->program, "gradients", TIDE_GRADIENT, TIDE_F32);
    for (int i = 0; i < DEPTH; i++) {
        snprintf(name, sizeof name, "w%d", i);
        w[i] = weight(n, name, HIDDEN, i ? HIDDEN : WIDTH);
    }
    head = weight(n, "head", CLASSES, HIDDEN);

    TideGraph *g = n->train = tide_graph_new(n->program, "train");
    n->x = tide_input(g, "x", TIDE_F32, (TideShape){ 2, { BATCH, WIDTH } });
    n->labels = tide_input(g, "labels", TIDE_I32, (TideShape){ 1, { BATCH } });
    n->info = tide_input(g, "info", TIDE_I32, info);
    TideTensor x = n->x;
    for (int i = 0; i < DEPTH; i++) x = tide_gelu(g, tide_linear(g, x, w[i], none, (TideRows){ 0 }), false);
    TideLoss loss = tide_linear_cross_entropy(g, x, head, n->labels, n->info,
                                              (TideClasses){ .vocab = CLASSES, .ignore = -1 }, BATCH, true);
    total = tide_sum(g, loss.losses, none, false);
    tide_output(g, n->loss = total);
    tide_backward(g, x, loss.dx);

    g = n->update = tide_graph_new(n->program, "update");
    n->update_info = tide_input(g, "info", TIDE_I32, info);
    n->norm = tide_grad_norm(g, &n->gradients, 1, n->update_info, 1.0f);
    tide_sgd(g, n->parameters, n->gradients, n->norm, n->update_info);
}

/* Numbers from -1 to 1, the same on every machine. */
static float uniform(void)
{
    static uint64_t state = 1;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)(state >> 40) * 0x1p-23f - 1;
}

static TideStatus start(const Net *n, TideRun *run)
{
    TideStatus status = TIDE_OK;

    for (int i = 0; !status && i < tide_parameter_count(n->program); i++) {
        TideTensor w = tide_parameter_at(n->program, i);
        size_t bytes = tide_tensor_bytes(n->program, w), count = bytes / sizeof(float);
        float *values = malloc(bytes);
        if (!values) return TIDE_NO_MEMORY;
        for (size_t j = 0; j < count; j++) values[j] = uniform() * (i ? 0.22f : 0.5f);
        status = tide_write(run, w, values, bytes);
        free(values);
    }
    return status;
}

static TideStatus step(const Net *n, TideRun *run, float *loss)
{
    static float x[BATCH][WIDTH];
    static int32_t labels[BATCH];
    TideStepInfo info = { .loss_scale = 1.0f / BATCH, .grad_scale = 1, .lr = 0.5f };

    for (int i = 0; i < BATCH; i++) {
        labels[i] = 0;
        for (int j = 0; j < WIDTH; j++) x[i][j] = uniform();
        for (int j = 1; j < CLASSES; j++)
            if (x[i][j] > x[i][labels[i]]) labels[i] = j;
    }
    TideStatus status = tide_write(run, n->x, x, sizeof x);
    if (!status) status = tide_write(run, n->labels, labels, sizeof labels);
    if (!status) status = tide_write(run, n->info, &info, sizeof info);
    if (!status) status = tide_write(run, n->update_info, &info, sizeof info);
    if (!status) status = tide_step(run, tide_graph_index(n->train));
    if (!status) status = tide_step(run, tide_graph_index(n->update));
    return status ? status : tide_read(run, n->loss, loss, sizeof *loss);
}

static TideStatus train(const Net *n)
{
    TideProfile *profile = NULL;
    TidePlan *roomy = NULL, *plan = NULL;
    TideRun *run = NULL;
    float loss = 0;

    TideStatus status = tide_profile_measure(n->program, 3, &profile);
    if (!status) status = tide_plan_make(n->program, profile, (TideBudget){ 0 }, &roomy, NULL);
    TideBudget half = { .device_bytes = roomy ? tide_plan_stats(roomy).device_bytes / 2 : 0 };
    if (!status) status = tide_plan_make(n->program, profile, half, &plan, NULL);
    if (!status) status = tide_run_new(n->program, plan, &run);
    if (!status) status = start(n, run);
    if (!status)
        printf("%zu bytes instead of %zu\n", tide_plan_stats(plan).device_bytes, 2 * half.device_bytes);
    for (int i = 0; !status && i < STEPS; i++) {
        status = step(n, run, &loss);
        if (!status && (i + 1) % 40 == 0) printf("step %3d  loss %.4f\n", i + 1, (double)loss / BATCH);
    }
    tide_run_free(run);
    tide_plan_free(plan);
    tide_plan_free(roomy);
    tide_profile_free(profile);
    return status;
}

int main(int argc, char **argv)
{
    Tide *t = NULL;
    Net net = { 0 };
    TideStatus status = tide_open(argc > 1 ? argv[1] : "cpu", (TideDeviceOptions){ 0 }, &t);

    if (!status) build(&net, t);
    if (!status) status = train(&net);
    if (status) fprintf(stderr, "00_mlp: %s\n", tide_message(t));
    tide_program_free(net.program);
    tide_close(t);
    return status != TIDE_OK;
}
