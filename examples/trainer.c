/* trainer.c - steps of training over a run. */
#include "examples/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "examples/writer.h"
#include "examples/model_choice.h"
#include "runtime/base.h"
#include "runtime/io/hash.h"

TideStatus trainer_new(Session *s, const TidePlan *plan, const Text *text, Trainer *t)
{
    *t = (Trainer){ .session = s, .text = text, .seed = (uint64_t)s->options->seed, .trace_step = -1 };
    t->epoch = config_epoch(&s->model->config, text->train);
    TRY(tide_run_new(s->model->program, plan, &t->run));
    TRY(model_begin(s, t->run));
    return loader_new(s->tide, &s->model->config, (LoaderStart){ text->train, { .seed = t->seed } },
                      &t->loader);
}

static bool stopped(const Trainer *t)
{
    return t->stop && *t->stop;
}

void trainer_close(Trainer *t)
{
    loader_free(t->loader);
    tide_run_free(t->run);
}

/* Of a step, counted from 0. */
static double learning_rate(const Options *o, int64_t step)
{
    double least = o->min_lr >= 0 ? o->min_lr : o->lr / 10;
    int64_t warmup = o->warmup >= 0 ? o->warmup : o->steps / 20;

    if (step < warmup) return o->lr * (double)(step + 1) / (double)(warmup + 1);
    if (!strcmp(o->schedule, "constant") || o->steps <= warmup) return o->lr;
    double done = (double)(step - warmup) / (double)(o->steps - warmup);
    double share = strcmp(o->schedule, "linear") ? 0.5 * (1 + cos(acos(-1.0) * done)) : 1 - done;
    return least + share * (o->lr - least);
}

/* 1 - beta^n: how much of Adam's moment there is after n updates. */
static float bias_of(float beta, int64_t n)
{
    return (float)(1 - pow((double)beta, (double)n));
}

/* Of the step before one does not know the end yet. Rates are those of an update after it; late ones, should
 * it have been skipped. */
static TideStepInfo step_info(const Trainer *t, int64_t step, int64_t valid)
{
    const ModelConfig *c = &t->session->model->config;
    const Options *o = t->session->options;
    int64_t late = t->updates, before = t->updates + step - t->settled;

    return (TideStepInfo){ .seed = t->seed,
                           .step = step,
                           .loss_scale = 1.0f / (float)valid,
                           .grad_scale = 1,
                           .lr = (float)learning_rate(o, before),
                           .bias1 = bias_of(c->beta1, before + 1),
                           .bias2 = bias_of(c->beta2, before + 1),
                           .late_lr = (float)learning_rate(o, late),
                           .late_bias1 = bias_of(c->beta1, late + 1),
                           .late_bias2 = bias_of(c->beta2, late + 1) };
}

TideStatus trainer_gradients(Trainer *t, int64_t step)
{
    const Model *m = t->session->model;
    const StepData *d = loader_next(t->loader);
    TideStepInfo info = step_info(t, step, d->valid);

    assert(d->step == step);
    t->valid[step & 1] = d->valid;
    t->next[step & 1] = d->next;
    for (int i = 0; i < m->config.accum && !stopped(t); i++) {
        info.micro = i;
        if (step == t->trace_step && i == m->config.accum - 1)
            TRY(tide_run_trace(t->run, tide_graph_index(m->micro)));
        TRY(tide_write(t->run, m->tokens, step_tokens(d, i), d->token_bytes));
        TRY(tide_write(t->run, m->targets, step_targets(d, i), d->target_bytes));
        TRY(tide_write(t->run, m->info, &info, sizeof info));
        TRY(tide_step(t->run, tide_graph_index(m->micro)));
    }
    return TIDE_OK;
}

double trainer_epochs(const Trainer *t, int64_t step)
{
    DataPosition next = t->next[step & 1];

    return t->epoch ? (double)next.epoch + (double)next.sample / (double)t->epoch : NAN;
}

TideStatus trainer_update(Trainer *t, int64_t step)
{
    const Model *m = t->session->model;
    TideStepInfo info = step_info(t, step, t->valid[step & 1]);

    assert(step - t->settled <= 1);
    if (step == t->trace_step) TRY(tide_run_trace(t->run, tide_graph_index(m->update)));
    TRY(tide_write(t->run, m->update_info, &info, sizeof info));
    return tide_step(t->run, tide_graph_index(m->update));
}

TideStatus trainer_result(Trainer *t, int64_t step, bool previous, StepResult *out)
{
    const Model *m = t->session->model;
    TideStatus (*read)(TideRun *, TideTensor, void *, size_t) = previous ? tide_read_previous : tide_read;
    TideScaling scaling = { 0 };
    float loss = 0, norm[2] = { 0 };

    assert(step == t->settled);
    TRY(read(t->run, m->loss, &loss, sizeof loss));
    TRY(read(t->run, m->norm, norm, sizeof norm));
    if (m->scaling.id) TRY(read(t->run, m->scaling_after, &scaling, sizeof scaling));
    bool can_back_off = scaling.late && scaling.used > model_least_scale();
    *out = (StepResult){ .loss = (double)loss / (double)t->valid[step & 1],
                         .norm = (double)norm[0],
                         .lr = learning_rate(t->session->options, t->updates),
                         .loss_scale = (double)scaling.used,
                         .next_scale = (double)scaling.scale,
                         .skipped = scaling.skipped,
                         .finite = can_back_off || (isfinite(loss) && isfinite(norm[0])) };
    t->settled = step + 1;
    t->updates = t->settled - scaling.skipped;
    return TIDE_OK;
}

/* ---- evaluation and samples ------------------------------------------------------ */

static TideStatus evaluate_batch(Trainer *t, void *x, int32_t *targets, double *sum)
{
    const Model *m = t->session->model;
    TideStepInfo info = { .seed = t->seed, .loss_scale = 1, .grad_scale = 1 };
    float loss = 0;

    TRY(tide_write(t->run, m->eval_tokens, x, tide_tensor_bytes(m->program, m->eval_tokens)));
    TRY(tide_write(t->run, m->eval_targets, targets, tide_tensor_bytes(m->program, m->eval_targets)));
    TRY(tide_write(t->run, m->eval_info, &info, sizeof info));
    TRY(tide_step(t->run, tide_graph_index(m->eval)));
    TRY(tide_read(t->run, m->eval_loss, &loss, sizeof loss));
    *sum += (double)loss;
    return TIDE_OK;
}

TideStatus trainer_evaluate(Trainer *t, int64_t batches, double *loss)
{
    const Model *m = t->session->model;
    size_t target_bytes = tide_tensor_bytes(m->program, m->eval_targets);
    void *x = malloc(tide_tensor_bytes(m->program, m->eval_tokens));
    int32_t *targets = malloc(target_bytes);
    TideStatus status = x && targets ? TIDE_OK : TIDE_NO_MEMORY;
    double sum = 0;

    if (status) tide_fail(t->session->tide, status, "no memory for a batch of evaluation");
    for (int64_t i = 0; !status && i < batches && !stopped(t); i++) {
        batch_even(&m->config, t->text->validate, i, batches, x, targets);
        status = evaluate_batch(t, x, targets, &sum);
    }
    *loss = stopped(t) ? NAN : sum / ((double)batches * (double)(target_bytes / sizeof *targets));
    free(x);
    free(targets);
    return status;
}

TideStatus trainer_sample(Trainer *t, int64_t n, char **text)
{
    const Options *o = t->session->options;
    Writing w = { .tokens = n,
                  .temperature = (float)o->temperature,
                  .top_p = (float)o->top_p,
                  .seed = t->seed,
                  .stop = t->stop };
    size_t bytes;

    TRY(model_write(t->session->model, t->run, t->text->tokenizer, &w, text, &bytes));
    make_printable(*text, bytes);
    return TIDE_OK;
}

/* ---- hashes ------------------------------------------------------------------------ */

static TideTensor persistent_at(const Trainer *t, int i, bool gradients)
{
    const TideProgram *p = t->session->model->program;
    TideTensor x = tide_parameter_at(p, i);

    return gradients ? tide_gradient_of(p, x) : x;
}

/* Bytes of the largest parameter or gradient. */
static size_t most_bytes(const Trainer *t, bool gradients)
{
    const TideProgram *p = t->session->model->program;
    size_t most = 0;

    for (int i = 0; i < tide_parameter_count(p); i++) {
        TideTensor x = persistent_at(t, i, gradients);
        if (x.id && tide_tensor_bytes(p, x) > most) most = tide_tensor_bytes(p, x);
    }
    return most;
}

TideStatus trainer_hash(Trainer *t, bool gradients, uint64_t *hash)
{
    const TideProgram *p = t->session->model->program;
    size_t most = most_bytes(t, gradients);
    unsigned char *buffer = malloc(most + 1);
    TideStatus status = TIDE_OK;

    *hash = 0;
    if (!buffer)
        return tide_fail(t->session->tide, TIDE_NO_MEMORY, "no memory to hash a tensor of %zu bytes", most);
    for (int i = 0; !status && i < tide_parameter_count(p); i++) {
        TideTensor x = persistent_at(t, i, gradients);
        if (!x.id) continue;
        status = tide_read(t->run, x, buffer, tide_tensor_bytes(p, x));
        if (!status) *hash = hash_more(*hash, buffer, tide_tensor_bytes(p, x));
    }
    free(buffer);
    return status;
}

TideStatus trainer_read_gradients(Trainer *t, unsigned char **bytes)
{
    const TideProgram *p = t->session->model->program;
    size_t total = 0, at = 0;
    TideStatus status = TIDE_OK;

    for (int i = 0; i < tide_parameter_count(p); i++)
        total += tide_tensor_bytes(p, persistent_at(t, i, true));
    *bytes = malloc(total + 1);
    if (!*bytes)
        return tide_fail(t->session->tide, TIDE_NO_MEMORY, "no memory for %zu bytes of gradients", total);
    for (int i = 0; !status && i < tide_parameter_count(p); i++) {
        TideTensor x = persistent_at(t, i, true);
        status = tide_read(t->run, x, *bytes + at, tide_tensor_bytes(p, x));
        at += tide_tensor_bytes(p, x);
    }
    return status;
}
