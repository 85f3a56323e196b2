/* 01_gpt.c - a small GPT learns the bytes of a text inside a budget.
 *
 *     ./01_gpt corpus.txt [percent] [steps] [device]
 *
 * percent (40): what the activations may take of the memory they want, once everything that must
 * stay is paid for. nanoGPT's small setting: 4 layers, 4 heads, width 128, context 64, batch 12. */
#include <math.h>
#include <stdlib.h>
#include "models/text/loader.h"
#include "models/text/text.h"

enum { SEED = 1337, WARMUP = 100, EVAL_BATCHES = 20, EVAL_EVERY = 250 };
static const double peak_rate = 1e-3, least_rate = 1e-4;

typedef struct Training {
    Tide *tide;
    Model *model;
    Text *text;
    TideProfile *profile;
    TidePlan *roomy, *plan;
    TideRun *run;
    Loader *loader;
    int steps;
} Training;

/* A linear start, then half a cosine. */
static double rate(int step, int steps)
{
    if (step < WARMUP) return peak_rate * (step + 1) / (WARMUP + 1);
    double done = (double)(step - WARMUP) / (steps > WARMUP ? steps - WARMUP : 1);
    return least_rate + 0.5 * (1 + cos(3.14159265358979 * done)) * (peak_rate - least_rate);
}

static TideStatus plan_within(Training *t, double percent)
{
    const TideProgram *p = t->model->program;
    TideStatus status = tide_profile_measure(p, 3, &t->profile);

    if (!status) status = tide_plan_make(p, t->profile, (TideBudget){ 0 }, &t->roomy, NULL);
    if (status) return status;
    TidePlanStats want = tide_plan_stats(t->roomy);
    size_t share = (size_t)((double)(want.device_bytes - want.static_bytes) * percent / 100);
    TideBudget budget = { .device_bytes = want.static_bytes + share };
    status = tide_plan_make(p, t->profile, budget, &t->plan, NULL);
    if (status) return status;
    TidePlanStats got = tide_plan_stats(t->plan);
    printf("%.2f MiB instead of %.2f: %d tensors kept, %d computed again, %d moved away\n",
           (double)got.device_bytes / 1048576, (double)want.device_bytes / 1048576,
           got.fate[TIDE_KEEP].tensors, got.fate[TIDE_RECOMPUTE].tensors, got.fate[TIDE_OFFLOAD].tensors);
    return TIDE_OK;
}

static TideStatus prepare(Training *t, const char *path, double percent)
{
    ModelConfig c = { 0 };

    model_preset("gpt-char", &c);
    c.no_bias = c.gelu_erf = true;
    TideStatus status =
        text_open(t->tide, (TextSource){ .train = path, .window = c.seq + 1, .vocab = c.vocab }, &t->text);
    if (!status) status = model_new(t->tide, &c, &t->model);
    if (!status) status = plan_within(t, percent);
    if (!status) status = tide_run_new(t->model->program, t->plan, &t->run);
    if (!status) status = model_init(t->model, t->run, SEED);
    if (status) return status;
    return loader_new(t->tide, &t->model->config, (LoaderStart){ t->text->train, { .seed = SEED } },
                      &t->loader);
}

static TideStatus step(Training *t, int i, double *loss)
{
    const Model *m = t->model;
    const StepData *d = loader_next(t->loader);
    float sum = 0;
    TideStepInfo info = { .seed = SEED,
                          .step = i,
                          .loss_scale = 1 / (float)d->valid,
                          .grad_scale = 1,
                          .lr = (float)rate(i, t->steps),
                          .bias1 = (float)(1 - pow((double)m->config.beta1, i + 1)),
                          .bias2 = (float)(1 - pow((double)m->config.beta2, i + 1)) };

    TideStatus status = tide_write(t->run, m->tokens, step_tokens(d, 0), d->token_bytes);
    if (!status) status = tide_write(t->run, m->targets, step_targets(d, 0), d->target_bytes);
    if (!status) status = tide_write(t->run, m->info, &info, sizeof info);
    if (!status) status = tide_write(t->run, m->update_info, &info, sizeof info);
    if (!status) status = tide_step(t->run, tide_graph_index(m->micro));
    if (!status) status = tide_step(t->run, tide_graph_index(m->update));
    if (!status) status = tide_read(t->run, m->loss, &sum, sizeof sum);
    *loss = (double)sum / (double)d->valid;
    return status;
}

static TideStatus evaluate(Training *t, double *mean)
{
    const Model *m = t->model;
    const ModelConfig *c = &m->config;
    int32_t tokens[c->batch * c->seq], targets[c->batch * c->seq];
    TideStepInfo info = { .loss_scale = 1 };
    TideStatus status = tide_write(t->run, m->eval_info, &info, sizeof info);

    *mean = 0;
    for (int i = 0; !status && i < EVAL_BATCHES; i++) {
        float sum = 0;
        batch_even(c, t->text->validate, i, EVAL_BATCHES, tokens, targets);
        status = tide_write(t->run, m->eval_tokens, tokens, sizeof tokens);
        if (!status) status = tide_write(t->run, m->eval_targets, targets, sizeof targets);
        if (!status) status = tide_step(t->run, tide_graph_index(m->eval));
        if (!status) status = tide_read(t->run, m->eval_loss, &sum, sizeof sum);
        *mean += (double)sum / EVAL_BATCHES / (c->batch * c->seq);
    }
    return status;
}

static TideStatus train(Training *t)
{
    double loss = 0, validation = 0;
    TideStatus status = TIDE_OK;

    for (int i = 0; !status && i < t->steps; i++) {
        status = step(t, i, &loss);
        if (status || ((i + 1) % EVAL_EVERY && i + 1 < t->steps)) continue;
        status = evaluate(t, &validation);
        if (!status) printf("step %4d  loss %.4f  validation %.4f\n", i + 1, loss, validation);
    }
    return status;
}

int main(int argc, char **argv)
{
    Training t = { .steps = argc > 3 ? atoi(argv[3]) : 2000 };

    if (argc < 2) {
        fprintf(stderr, "usage: 01_gpt corpus.txt [percent] [steps] [device]\n");
        return 2;
    }
    TideStatus status = tide_open(argc > 4 ? argv[4] : "cpu", (TideDeviceOptions){ 0 }, &t.tide);
    if (!status) status = prepare(&t, argv[1], argc > 2 ? atof(argv[2]) : 40);
    if (!status) status = train(&t);
    if (status) fprintf(stderr, "01_gpt: %s\n", tide_message(t.tide));
    loader_free(t.loader);
    tide_run_free(t.run);
    tide_plan_free(t.plan);
    tide_plan_free(t.roomy);
    tide_profile_free(t.profile);
    model_free(t.model);
    text_free(t.text);
    tide_close(t.tide);
    return status != TIDE_OK;
}
