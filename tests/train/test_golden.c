/* test_golden.c - a tiny GPT against PyTorch in float64: the loss, the norm and every gradient of
 * step 1, then losses and norms of ten AdamW steps. make_golden.py made golden.json; weights and
 * tokens come from the generator that both repeat.
 *
 * Every case runs by the plain interpreter of numeric.h and by planner and executor, as one
 * micro-step and as two, with the loss, the MLPs and attention's backward in one block and in several. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/model.h"
#include "tests/support/numeric.h"

enum { STEPS = 10 };
static const double tolerance = 1e-5; /* max |a - b| / max |b| */

typedef struct Variant {
    int golden;   /* row of golden.json's cases                  */
    int accum;    /* micro-steps that the batch of two is cut into */
    int chunk;    /* rows of logits at a time                      */
    int mlp;      /* rows of an MLP at a time; 0: all              */
    bool planned; /* by planner and executor, else by numeric_run() */
} Variant;

static const Variant variants[] = {
    { 0, 1, 32, 0, false }, { 0, 2, 7, 5, false }, { 1, 1, 7, 16, false }, { 1, 2, 16, 0, false },
    { 0, 1, 32, 9, true },  { 0, 2, 7, 0, true },  { 1, 1, 7, 31, true },  { 1, 2, 16, 1, true },
};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

/* ---- golden.json ---------------------------------------------------------- */

static json_t *golden_load(void)
{
    json_error_t error;
    json_t *root = json_load_file("tests/train/golden.json", JSON_REJECT_DUPLICATES, &error);

    cr_assert(root, "tests/train/golden.json, line %d: %s", error.line, error.text);
    return root;
}

static json_t *member(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    cr_assert(value, "golden.json has no %s", key);
    return value;
}

static double number(json_t *object, const char *key)
{
    return json_number_value(member(object, key));
}

static double number_at(json_t *object, const char *key, int i)
{
    return json_number_value(json_array_get(member(object, key), (size_t)i));
}

static uint32_t sextet(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = strchr(digits, c);

    cr_assert(c && at, "'%c' is no digit of base64", c);
    return (uint32_t)(at - digits);
}

/* n fixed-point numbers of 24 bits, four characters each. */
static void unpack(json_t *packed, int64_t n, double *out)
{
    const char *text = json_string_value(member(packed, "values"));
    double most = number(packed, "max");

    cr_assert_eq((int64_t)strlen(text), 4 * n, "a golden gradient has %zu characters, not 4 x %lld",
                 strlen(text), (long long)n);
    for (int64_t i = 0; i < n; i++, text += 4) {
        uint32_t q = sextet(text[0]) << 18 | sextet(text[1]) << 12 | sextet(text[2]) << 6 | sextet(text[3]);
        out[i] = most * ((double)q - 8388608) / 8388607;
    }
}

/* ---- The generator -------------------------------------------------------- */

static uint64_t start_of(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

static uint32_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 48);
}

static void fill_tokens(const char *what, int step, int vocab, int n, int32_t *out)
{
    char name[32];

    snprintf(name, sizeof name, "%s.%d", what, step);
    uint64_t state = start_of(name);
    for (int i = 0; i < n; i++) out[i] = (int32_t)(next(&state) % (uint32_t)vocab);
}

/* ---- A trial: a model and one of two ways to run it ----------------------- */

typedef struct Trial {
    Tide *tide;
    Model *model;
    void **memory;        /* numeric_run() */
    TideProfile *profile; /* planner and executor */
    TidePlan *plan;
    TideRun *run;
    json_t *golden, *shape, *expected;
    int ignore_every;
} Trial;

static void must(const Trial *t, TideStatus status, const char *what)
{
    cr_assert(!status, "%s: %s", what, tide_message(t->tide));
}

static void put(Trial *t, TideTensor x, const void *from)
{
    size_t bytes = tide_tensor_bytes(t->model->program, x);

    if (t->run)
        must(t, tide_write(t->run, x, from, bytes), "write");
    else
        memcpy(t->memory[x.id], from, bytes);
}

static void get(Trial *t, TideTensor x, void *to)
{
    size_t bytes = tide_tensor_bytes(t->model->program, x);

    if (t->run)
        must(t, tide_read(t->run, x, to, bytes), "read");
    else
        memcpy(to, t->memory[x.id], bytes);
}

static void step(Trial *t, const TideGraph *g)
{
    must(t, t->run ? tide_step(t->run, tide_graph_index(g)) : numeric_run(g, t->memory), "step");
}

static ModelConfig config_of(const Trial *t, const Variant *v)
{
    json_t *adamw = member(t->golden, "adamw");

    return (ModelConfig){ .name = "tiny",
                          .family = "gpt",
                          .layers = (int)number(t->expected, "layers"),
                          .width = (int)number(t->shape, "width"),
                          .heads = (int)number(t->shape, "heads"),
                          .vocab = (int)number(t->shape, "vocab"),
                          .padded_vocab = 64,
                          .seq = (int)number(t->shape, "seq"),
                          .batch = (int)number(t->shape, "batch") / v->accum,
                          .no_bias = !json_is_true(member(t->expected, "bias")),
                          .gelu_erf = json_is_true(member(t->expected, "erf")),
                          .loss_chunk = v->chunk,
                          .mlp_block = v->mlp,
                          .attn_block = v->mlp ? 1 : 0,
                          .accum = v->accum,
                          .beta1 = (float)number(adamw, "beta1"),
                          .beta2 = (float)number(adamw, "beta2"),
                          .eps = (float)number(adamw, "eps"),
                          .weight_decay = (float)number(adamw, "weight_decay"),
                          .clip = (float)number(adamw, "clip") };
}

static void prepare_to_run(Trial *t, bool planned)
{
    const TideProgram *p = t->model->program;

    if (!planned) {
        t->memory = numeric_memory_new(p);
        cr_assert(t->memory, "no memory");
        return;
    }
    must(t, tide_profile_guess(p, &t->profile), "profile");
    must(t, tide_plan_make(p, t->profile, (TideBudget){ 0 }, &t->plan, NULL), "plan");
    must(t, tide_run_new(p, t->plan, &t->run), "run");
}

/* Multiples of 2^-17; rows of the padding stay 0. */
static void put_weights(Trial *t, TideTensor x)
{
    const char *name = tide_tensor_name(t->model->program, x);
    TideShape s = tide_tensor_shape(t->model->program, x);
    int64_t n = shape_elements(s), used = strcmp(name, "wte.weight") ? n : t->model->config.vocab * s.dim[1];
    bool norm = s.n == 1 && strstr(name, ".weight");
    uint64_t state = start_of(name);
    float *w = calloc((size_t)n, sizeof *w);

    for (int64_t i = 0; i < used; i++) w[i] = ((float)next(&state) - 32768) / 131072 + (float)norm;
    put(t, x, w);
    free(w);
}

static Trial trial_new(const Variant *v)
{
    Trial t = { .golden = golden_load() };

    t.shape = member(t.golden, "shape");
    t.expected = json_array_get(member(t.golden, "cases"), (size_t)v->golden);
    t.ignore_every = (int)number(t.expected, "ignore_every");
    cr_assert(!tide_open("cpu", (TideDeviceOptions){ 0 }, &t.tide), "cpu: %s", tide_message(t.tide));
    ModelConfig c = config_of(&t, v);
    must(&t, model_new(t.tide, &c, &t.model), "model");
    prepare_to_run(&t, v->planned);
    for (int i = 0; i < tide_parameter_count(t.model->program); i++)
        put_weights(&t, tide_parameter_at(t.model->program, i));
    return t;
}

static void trial_free(Trial *t)
{
    if (t->memory) numeric_memory_free(t->model->program, t->memory);
    tide_run_free(t->run);
    tide_plan_free(t->plan);
    tide_profile_free(t->profile);
    model_free(t->model);
    tide_close(t->tide);
    json_decref(t->golden);
}

/* ---- Training ------------------------------------------------------------- */

static TideStepInfo info_of(const Trial *t, int step_number, int valid)
{
    json_t *adamw = member(t->golden, "adamw");

    return (TideStepInfo){ .step = step_number,
                           .loss_scale = 1.0f / (float)valid,
                           .grad_scale = 1,
                           .lr = (float)number(adamw, "lr"),
                           .bias1 = (float)(1 - pow(number(adamw, "beta1"), step_number + 1)),
                           .bias2 = (float)(1 - pow(number(adamw, "beta2"), step_number + 1)) };
}

static int ignore_some(int every, int n, int32_t *targets)
{
    int valid = 0;

    for (int i = 0; i < n; i++) {
        if (every && i % every == every - 1) targets[i] = -1;
        valid += targets[i] >= 0;
    }
    return valid;
}

/* Run the micro-steps of a step. Returns the number of valid targets. */
static int micro_steps(Trial *t, int step_number)
{
    const ModelConfig *c = &t->model->config;
    int n = c->accum * c->batch * c->seq;
    int32_t tokens[n], targets[n];

    fill_tokens("tokens", step_number, c->vocab, n, tokens);
    fill_tokens("targets", step_number, c->vocab, n, targets);
    int valid = ignore_some(t->ignore_every, n, targets);
    TideStepInfo info = info_of(t, step_number, valid);
    for (int i = 0; i < c->accum; i++) {
        info.micro = i;
        put(t, t->model->tokens, tokens + i * c->batch * c->seq);
        put(t, t->model->targets, targets + i * c->batch * c->seq);
        put(t, t->model->info, &info);
        step(t, t->model->micro);
    }
    put(t, t->model->update_info, &info);
    return valid;
}

static void expect_gradient(Trial *t, TideTensor x)
{
    const TideProgram *p = t->model->program;
    const char *name = tide_tensor_name(p, x);
    int64_t n = shape_elements(tide_tensor_shape(p, x));
    float *got = malloc((size_t)n * sizeof *got);
    double *want = calloc((size_t)n, sizeof *want), most = 0, off = 0;

    get(t, tide_gradient_of(p, x), got);
    /* The golden wte has no padding; the rows behind it must get no gradient at all. */
    int64_t stored = strcmp(name, "wte.weight") ? n : t->model->config.vocab * (n / 64);
    unpack(member(member(t->expected, "gradients"), name), stored, want);
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(want[i]));
        off = fmax(off, isfinite(got[i]) ? fabs((double)got[i] - want[i]) : INFINITY);
    }
    cr_expect(off <= tolerance * most, "gradient of %s: off by %.3g of its largest element", name,
              off / most);
    free(got);
    free(want);
}

static void expect_close(const char *what, int step_number, double got, double want)
{
    double off = fabs(got - want) / fabs(want);

    cr_expect(off <= tolerance, "step %d: %s is %.9g, not %.9g (off by %.3g)", step_number + 1, what, got,
              want, off);
}

ParameterizedTestParameters(golden, agrees_with_pytorch)
{
    static int row[N_VARIANTS];

    for (int i = 0; i < N_VARIANTS; i++) row[i] = i;
    return cr_make_param_array(int, row, N_VARIANTS);
}

ParameterizedTest(int *row, golden, agrees_with_pytorch)
{
    Trial t = trial_new(&variants[*row]);
    float loss, norm[2];

    for (int i = 0; i < STEPS; i++) {
        int valid = micro_steps(&t, i);
        for (int j = 0; i == 0 && j < tide_parameter_count(t.model->program); j++)
            expect_gradient(&t, tide_parameter_at(t.model->program, j));
        step(&t, t.model->update);
        get(&t, t.model->loss, &loss);
        get(&t, t.model->norm, norm);
        expect_close("loss", i, (double)loss / valid, number_at(t.expected, "losses", i));
        expect_close("norm", i, (double)norm[0], number_at(t.expected, "norms", i));
    }
    trial_free(&t);
}

/* ---- Evaluation and sampling agree with training -------------------------- */

/* The losses that the evaluation graph sums are those of the training graph, bit for bit. */
Test(golden, evaluation_is_training_without_update)
{
    Trial t = trial_new(&variants[0]);
    const ModelConfig *c = &t.model->config;
    int n = c->batch * c->seq;
    int32_t tokens[n], targets[n];
    float evaluated, trained;

    int valid = micro_steps(&t, 0);
    step(&t, t.model->update);
    get(&t, t.model->loss, &trained);
    for (int i = 0; i < tide_parameter_count(t.model->program); i++)
        put_weights(&t, tide_parameter_at(t.model->program, i));
    fill_tokens("tokens", 0, c->vocab, n, tokens);
    fill_tokens("targets", 0, c->vocab, n, targets);
    TideStepInfo info = info_of(&t, 0, valid);
    put(&t, t.model->eval_tokens, tokens);
    put(&t, t.model->eval_targets, targets);
    put(&t, t.model->eval_info, &info);
    step(&t, t.model->eval);
    get(&t, t.model->eval_loss, &evaluated);
    cr_assert_eq(evaluated, trained, "evaluation sums to %.9g, training to %.9g", (double)evaluated,
                 (double)trained);
    trial_free(&t);
}

static double loss_of_logits(const float *logits, int vocab, int target)
{
    double most = (double)logits[0], sum = 0;

    for (int i = 1; i < vocab; i++) most = fmax(most, (double)logits[i]);
    for (int i = 0; i < vocab; i++) sum += exp((double)logits[i] - most);
    return log(sum) + most - (double)logits[target];
}

/* The mean loss of the logits that the sampling graph gives, position by position, is the golden
 * loss of step 1. */
Test(golden, sampling_sees_what_training_sees)
{
    Trial t = trial_new(&variants[0]);
    const ModelConfig *c = &t.model->config;
    int n = c->batch * c->seq;
    int32_t tokens[n], targets[n];
    float logits[64];
    double sum = 0;

    fill_tokens("tokens", 0, c->vocab, n, tokens);
    fill_tokens("targets", 0, c->vocab, n, targets);
    for (int i = 0; i < n; i++) {
        TideStepInfo info = { .row = i % c->seq };
        put(&t, t.model->sample_tokens, tokens + i / c->seq * c->seq);
        put(&t, t.model->sample_info, &info);
        step(&t, t.model->sample);
        get(&t, t.model->sample_logits, logits);
        sum += loss_of_logits(logits, c->vocab, targets[i]);
    }
    expect_close("mean loss of sampled logits", 0, sum / n, number_at(t.expected, "losses", 0));
    trial_free(&t);
}
