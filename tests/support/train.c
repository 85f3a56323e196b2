/* train.c - run a plan of a small model on made-up data and hash what comes out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/exec.h"
#include "tests/support/train.h"

static const ModelConfig models[] = {
    { .name = "gpt",
      .family = "gpt",
      .layers = 3,
      .width = 32,
      .heads = 4,
      .vocab = 61,
      .seq = 24,
      .batch = 3,
      .dropout = 0.1f,
      .attn_dropout = 0.1f,
      .loss_chunk = 32,
      .beta1 = 0.9f,
      .beta2 = 0.95f,
      .eps = 1e-8f,
      .weight_decay = 0.1f,
      .clip = 1 },
    { .name = "gpt-accum",
      .family = "gpt",
      .layers = 2,
      .width = 48,
      .heads = 3,
      .vocab = 130,
      .seq = 17,
      .batch = 2,
      .dropout = 0.1f,
      .attn_dropout = 0.2f,
      .no_bias = true,
      .gelu_erf = true,
      .mlp_block = 20,
      .attn_block = 1,
      .accum = 3,
      .beta1 = 0.9f,
      .beta2 = 0.99f,
      .eps = 1e-8f,
      .weight_decay = 0.1f,
      .clip = 0.5f },
    { .name = "mlp",
      .family = "mlp",
      .layers = 6,
      .width = 64,
      .vocab = 10,
      .batch = 32,
      .seq = 1,
      .beta1 = 0.9f,
      .beta2 = 0.95f,
      .eps = 1e-8f,
      .weight_decay = 0.01f,
      .clip = 1 },
    { .name = "gpt-scaled",
      .family = "gpt",
      .layers = 2,
      .width = 32,
      .heads = 2,
      .vocab = 61,
      .seq = 16,
      .batch = 2,
      .dropout = 0.1f,
      .accum = 2,
      .grads = GRADS_NARROW,
      .loss_scale = 1, /* stands for too_large_scale() */
      .scale_interval = 3,
      .beta1 = 0.9f,
      .beta2 = 0.95f,
      .eps = 1e-8f,
      .weight_decay = 0.1f,
      .clip = 1 },
    { .name = "gpt-untied",
      .family = "gpt",
      .layers = 2,
      .width = 32,
      .heads = 2,
      .vocab = 61,
      .seq = 16,
      .positions = 24,
      .inner = 72,
      .untied = true,
      .batch = 2,
      .dropout = 0.1f,
      .beta1 = 0.9f,
      .beta2 = 0.95f,
      .eps = 1e-8f,
      .weight_decay = 0.1f,
      .clip = 1 },
};

enum { N_MODELS = sizeof models / sizeof *models };

static TideType test_dtype(void)
{
    const char *dtype = getenv("TIDE_TEST_DTYPE");

    for (int i = 0; dtype && i < TIDE_TYPE_COUNT; i++)
        if (strcmp(type_name((TideType)i), dtype) == 0) return (TideType)i;
    return TIDE_F32;
}

/* A GPU takes the squares of a norm in f32, the CPU in double. */
float too_large_scale(void)
{
    if (test_dtype() == TIDE_F16) return 0x1p26f;
    return strncmp(test_device(), "cpu", 3) == 0 ? 3e38f : 0x1p72f;
}

const ModelConfig *small_model(int i)
{
    static ModelConfig typed[N_MODELS];

    if (i >= N_MODELS) return NULL;
    typed[i] = models[i];
    typed[i].dtype = test_dtype();
    if (typed[i].loss_scale > 0) typed[i].loss_scale = too_large_scale();
    return &typed[i];
}

const char *test_device(void)
{
    const char *device = getenv("TIDE_TEST_DEVICE");

    return device && *device ? device : "cpu";
}

bool touched_as_planned(size_t touched, size_t planned)
{
    return strncmp(test_device(), "cpu", 3) == 0 ? touched == planned : touched <= planned;
}

uint32_t test_random(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

static uint64_t hash_more(uint64_t h, const unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) h = (h ^ data[i]) * 0x100000001b3u;
    return h;
}

TideStatus hash_parameters(const Model *m, TideRun *r, bool gradients, uint64_t *hash)
{
    *hash = 0xcbf29ce484222325u;
    for (int i = 0; i < tide_parameter_count(m->program); i++) {
        TideTensor x = tide_parameter_at(m->program, i);
        if (gradients) x = tide_gradient_of(m->program, x);
        size_t bytes = tide_tensor_bytes(m->program, x);
        unsigned char *data = malloc(bytes);
        if (!data) return TIDE_NO_MEMORY;
        TideStatus status = tide_read(r, x, data, bytes);
        if (!status) *hash = hash_more(*hash, data, bytes);
        free(data);
        TRY(status);
    }
    return TIDE_OK;
}

/* Fill an input of any type with numbers that depend on the seed alone. */
static TideStatus write_random(const Model *m, TideRun *r, TideTensor x, uint64_t seed)
{
    size_t bytes = tide_tensor_bytes(m->program, x), n = bytes / 4;
    int32_t *word = malloc(bytes);

    if (!word) return TIDE_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        float value = (float)test_random(&seed, 2001) / 1000.0f - 1.0f;
        if (tide_tensor_type(m->program, x) == TIDE_I32)
            word[i] = (int32_t)test_random(&seed, (uint32_t)m->config.vocab);
        else
            memcpy(&word[i], &value, sizeof value);
    }
    TideStatus status = tide_write(r, x, word, bytes);
    free(word);
    return status;
}

static int accum_of(const Model *m)
{
    return m->config.accum > 1 ? m->config.accum : 1;
}

static double rows_of(const Model *m)
{
    return (double)(tide_tensor_bytes(m->program, m->targets) / sizeof(int32_t)) * accum_of(m);
}

static TideStepInfo info_of(const Model *m, int step, int micro)
{
    TideStepInfo info = { .seed = 42,
                          .step = step,
                          .micro = micro,
                          .loss_scale = (float)(1 / rows_of(m)),
                          .grad_scale = 1,
                          .lr = 1e-2f };

    info.bias1 = 1 - powf(m->config.beta1, (float)(step + 1));
    info.bias2 = 1 - powf(m->config.beta2, (float)(step + 1));
    info.late_lr = 2e-2f; /* to be seen in the bits */
    info.late_bias1 = info.bias1;
    info.late_bias2 = info.bias2;
    return info;
}

static TideStatus run_micro_steps(const Model *m, TideRun *r, int step)
{
    for (int micro = 0; micro < accum_of(m); micro++) {
        TideStepInfo info = info_of(m, step, micro);
        uint64_t seed = 1000u * (uint64_t)step + 10u * (uint64_t)micro;
        TRY(write_random(m, r, m->tokens, seed + 1));
        TRY(write_random(m, r, m->targets, seed + 2));
        TRY(tide_write(r, m->info, &info, sizeof info));
        TRY(tide_step(r, tide_graph_index(m->micro)));
    }
    return TIDE_OK;
}

static TideStatus run_update(const Model *m, TideRun *r, int step)
{
    TideStepInfo info = info_of(m, step, 0);

    TRY(tide_write(r, m->update_info, &info, sizeof info));
    return tide_step(r, tide_graph_index(m->update));
}

static TideStatus trace_all(const Model *m, TideRun *r)
{
    TRY(tide_run_trace(r, tide_graph_index(m->micro)));
    return tide_run_trace(r, tide_graph_index(m->update));
}

static TideStatus train(const Model *m, TideRun *r, TrainOptions o, TrainResult *out)
{
    TRY(model_init(m, r, 7));
    for (int step = 0; step < o.steps; step++) {
        float loss = 0;
        if (o.traced && step == o.steps - 1) TRY(trace_all(m, r));
        TRY(run_micro_steps(m, r, step));
        if (step == 0) TRY(hash_parameters(m, r, true, &out->grads));
        TRY(run_update(m, r, step));
        if (step == 0 || step == o.steps - 1) TRY(tide_read(r, m->loss, &loss, sizeof loss));
        if (step == 0) out->first_loss = loss / (float)rows_of(m);
        if (step == o.steps - 1) out->last_loss = loss / (float)rows_of(m);
    }
    TRY(hash_parameters(m, r, false, &out->weights));
    if (m->scaling.id) {
        TideScaling scaling;
        TRY(tide_read(r, m->scaling, &scaling, sizeof scaling));
        out->skipped = scaling.skipped;
    }
    if (o.traced) o.traced(r);
    return tide_run_stats(r, &out->stats);
}

TideStatus train_plan(const Model *m, const TidePlan *plan, TrainOptions o, TrainResult *out)
{
    TideRun *r = NULL;

    memset(out, 0, sizeof *out);
    TRY(tide_run_new(m->program, plan, &r));
    if (o.delay_seconds > 0) tide_run_delay_copies(r, o.delay_seconds, 99);
    tide_run_poison(r, o.poison);
    TideStatus status = train(m, r, o, out);
    tide_run_free(r);
    return status;
}
