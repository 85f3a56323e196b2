/* test_data.c - texts, windows, loader, sampler, random numbers, presets and refusals of models. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "models/random.h"
#include "models/text/loader.h"
#include "models/text/sample.h"
#include "models/text/text.h"
#include "models/text/tokens.h"

static Tide *tide;

static void open_cpu(void)
{
    cr_assert(!tide_open("cpu", (TideDeviceOptions){ 0 }, &tide), "cpu: %s", tide_message(tide));
}

static void close_cpu(void)
{
    tide_close(tide);
}

TestSuite(data, .init = open_cpu, .fini = close_cpu);

/* ---- Texts ---------------------------------------------------------------- */

/* A new file of n bytes 0, 1, 2, ... modulo 251; removed by the caller. */
static void write_file(char path[32], int n)
{
    strcpy(path, "/tmp/tide_text_XXXXXX");
    int file = mkstemp(path);
    cr_assert(file >= 0, "cannot make a temporary file");
    for (int i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)(i % 251);
        cr_assert_eq(write(file, &byte, 1), 1, "cannot write a temporary file");
    }
    close(file);
}

static TideStatus open_bytes(int n, int n_validate, int seq, Text **out)
{
    char path[32], validate[32];

    write_file(path, n);
    if (n_validate >= 0) write_file(validate, n_validate);
    TextSource source = { path, n_validate >= 0 ? validate : NULL, NULL, seq + 1, 256 };
    TideStatus status = text_open(tide, source, out);
    unlink(path);
    if (n_validate >= 0) unlink(validate);
    return status;
}

Test(data, text_is_parted_nine_to_one)
{
    Text *x = NULL;

    cr_assert(!open_bytes(100000, -1, 64, &x), "%s", tide_message(tide));
    cr_expect_eq(part_tokens(x->train), 90000);
    cr_expect_eq(part_tokens(x->validate), 10000);
    cr_expect_eq(token_at(x->train.shards[0], 300), 300 % 251);
    cr_expect_eq(token_at(x->validate.shards[0], 0), 90000 % 251);
    cr_expect_eq(x->tokenizer->vocab, 256);
    text_free(x);
}

Test(data, a_text_of_one_window_is_enough)
{
    Text *x = NULL;

    cr_assert(!open_bytes(17, 17, 16, &x), "%s", tide_message(tide));
    cr_expect_eq(part_random(x->train, 17, 1, 2, 3).start, 0);
    text_free(x);
}

/* n bytes are refused for a context of seq, and the message holds all of the given numbers. */
static void expect_refusal(int n, int n_validate, int seq, const char *const *words)
{
    Text *x = NULL;

    cr_assert_eq(open_bytes(n, n_validate, seq, &x), TIDE_BAD_FILE, "%d bytes, seq %d", n, seq);
    cr_assert_null(x);
    for (; *words; words++)
        cr_expect(strstr(tide_message(tide), *words), "'%s' is not in: %s", *words, tide_message(tide));
}

Test(data, short_texts_are_refused_with_numbers)
{
    expect_refusal(0, -1, 64, (const char *[]){ "empty", NULL });
    expect_refusal(64, -1, 64, (const char *[]){ "64 tokens", "at least 65", NULL });
    expect_refusal(16, 17, 16, (const char *[]){ "16 tokens", "at least 17", NULL });
    expect_refusal(17, 16, 16, (const char *[]){ "16 tokens", "at least 17", NULL });
    expect_refusal(640, -1, 64, (const char *[]){ "64 of 640", "at least 641", NULL });
    Text *x = NULL;
    cr_assert(!open_bytes(641, -1, 64, &x), "641 bytes are what the message asked for: %s",
              tide_message(tide));
    text_free(x);
}

Test(data, missing_files_and_folders_are_refused)
{
    Text *x = NULL;

    cr_expect_eq(text_open(tide, (TextSource){ "/nonexistent/text", NULL, NULL, 9, 256 }, &x), TIDE_IO);
    cr_expect(strstr(tide_message(tide), "/nonexistent/text"), "%s", tide_message(tide));
    cr_expect_eq(text_open(tide, (TextSource){ "/tmp", NULL, NULL, 9, 256 }, &x), TIDE_IO);
    cr_expect_null(x);
}

/* ---- Windows -------------------------------------------------------------- */

Test(data, windows_reach_both_ends_evenly)
{
    uint16_t storage[20] = { 0 };
    Part s = { &(Tokens){ storage, 20, 2 }, 1, false };
    int count[11] = { 0 }, draws = 11000;

    for (int i = 0; i < draws; i++) {
        int64_t start = part_random(s, 10, 42, i / 4, i % 4).start;
        cr_assert(start >= 0 && start <= 10, "start %lld", (long long)start);
        count[start]++;
    }
    for (int i = 0; i <= 10; i++) /* 1000 +- 5 standard deviations of 30 */
        cr_expect(abs(count[i] - draws / 11) < 150, "start %d was drawn %d times", i, count[i]);
}

Test(data, windows_depend_on_seed_step_and_row)
{
    Part s = { &(Tokens){ NULL, 1 << 30, 2 }, 1, false };
    int64_t a = part_random(s, 64, 1, 2, 3).start;

    cr_expect_eq(a, part_random(s, 64, 1, 2, 3).start);
    cr_expect_neq(a, part_random(s, 64, 2, 2, 3).start);
    cr_expect_neq(a, part_random(s, 64, 1, 3, 3).start);
    cr_expect_neq(a, part_random(s, 64, 1, 2, 4).start);
    cr_expect_neq(part_random(s, 64, 1, 2, 3).start, part_random(s, 64, 1, 3, 2).start);
}

Test(data, even_windows_span_the_text)
{
    Part s = { &(Tokens){ NULL, 1000, 2 }, 1, false };

    cr_expect_eq(part_even(s, 65, 0, 7).start, 0);
    cr_expect_eq(part_even(s, 65, 6, 7).start, 935);
    cr_expect_eq(part_even(s, 65, 0, 1).start, 0);
}

Test(data, targets_follow_their_tokens)
{
    uint16_t storage[8] = { 10, 11, 12, 13, 14, 15, 16, 255 };
    Tokens s = { storage, 8, 2 };
    int32_t tokens[4], targets[4];
    float x[4];

    tokens_window(s, 3, 4, tokens, targets);
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(tokens[i], storage[3 + i]);
        cr_expect_eq(targets[i], storage[4 + i]);
    }
    tokens_features(s, 3, 4, x, targets);
    cr_expect_eq(targets[0], 255);
    cr_expect_float_eq(x[0], 13.0f / 128 - 1, 1e-6);
}

/* ---- Loader --------------------------------------------------------------- */

static ModelConfig config_for(const char *preset, int batch, int accum)
{
    ModelConfig c;

    cr_assert(model_preset(preset, &c), "no preset %s", preset);
    c.seq = 8;
    c.batch = batch;
    c.accum = accum;
    return c;
}

static Part count_up(uint16_t *storage, int n)
{
    static Tokens tokens;

    for (int i = 0; i < n; i++) storage[i] = (uint16_t)(i % 256);
    tokens = (Tokens){ storage, n, 2 };
    return (Part){ &tokens, 1, false };
}

Test(data, loader_gives_steps_in_order)
{
    static uint16_t storage[5000];
    Part s = count_up(storage, 5000);
    ModelConfig c = config_for("gpt-char", 3, 2);
    Loader *l = NULL;

    cr_assert(!loader_new(tide, &c, (LoaderStart){ s, { 7, 40, 0, 0 } }, &l), "%s", tide_message(tide));
    for (int step = 40; step < 140; step++) {
        const StepData *d = loader_next(l);
        cr_assert_eq(d->step, step);
        cr_assert_eq(d->valid, 2 * 3 * 8);
        for (int micro = 0; micro < 2; micro++) {
            const int32_t *tokens = step_tokens(d, micro), *targets = step_targets(d, micro);
            for (int b = 0; b < 3; b++) {
                int64_t start = part_random(s, 9, 7, step, micro * 3 + b).start;
                cr_assert_eq(tokens[b * 8], storage[start], "step %d, row %d", step, micro * 3 + b);
                cr_assert_eq(targets[b * 8 + 7], storage[start + 8]);
            }
        }
    }
    loader_free(l);
}

/* What a step sees does not depend on how it is cut into micro-steps. */
Test(data, accumulation_sees_the_same_text)
{
    static uint16_t storage[5000];
    Part s = count_up(storage, 5000);
    ModelConfig whole = config_for("gpt-char", 6, 1), cut = config_for("gpt-char", 2, 3);
    Loader *a = NULL, *b = NULL;

    cr_assert(!loader_new(tide, &whole, (LoaderStart){ s, { .seed = 7 } }, &a));
    cr_assert(!loader_new(tide, &cut, (LoaderStart){ s, { .seed = 7 } }, &b));
    for (int i = 0; i < 20; i++) {
        const StepData *x = loader_next(a), *y = loader_next(b);
        cr_expect_arr_eq(x->tokens, y->tokens, 6 * 8 * sizeof(int32_t));
        cr_expect_arr_eq(x->targets, y->targets, 6 * 8 * sizeof(int32_t));
    }
    loader_free(a);
    loader_free(b);
}

Test(data, loader_serves_an_mlp)
{
    static uint16_t storage[5000];
    Part s = count_up(storage, 5000);
    ModelConfig c = config_for("mlp", 5, 1);
    Loader *l = NULL;

    cr_assert(!loader_new(tide, &c, (LoaderStart){ s, { .seed = 1 } }, &l), "%s", tide_message(tide));
    const StepData *d = loader_next(l);
    const float *x = step_tokens(d, 0);
    cr_expect_eq(d->valid, 5);
    cr_expect_eq(d->token_bytes, 5 * (size_t)c.width * sizeof(float));
    for (int b = 0; b < 5; b++) {
        int64_t start = part_random(s, c.width + 1, 1, 0, b).start;
        cr_expect_float_eq(x[b * c.width], (float)storage[start] / 128 - 1, 1e-6);
        cr_expect_eq(step_targets(d, 0)[b], storage[start + c.width]);
    }
    loader_free(l);
}

Test(data, loader_may_be_freed_at_any_time)
{
    static uint16_t storage[500];
    Part s = count_up(storage, 500);
    ModelConfig c = config_for("gpt-char", 4, 1);

    for (int taken = 0; taken < 50; taken++) {
        Loader *l = NULL;
        cr_assert(!loader_new(tide, &c, (LoaderStart){ s, { .seed = 7 } }, &l));
        for (int i = 0; i < taken % 4; i++) loader_next(l);
        loader_free(l);
    }
    Loader *none = NULL;
    s = count_up(storage, 8);
    cr_expect_eq(loader_new(tide, &c, (LoaderStart){ s, { .seed = 7 } }, &none), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(tide), "8 tokens") && strstr(tide_message(tide), "needs 9"), "%s",
              tide_message(tide));
}

/* ---- Sampler -------------------------------------------------------------- */

/* How often each of 4 tokens of probabilities 1/2, 1/4, 1/8, 1/8 is drawn in 8000. */
static void count_draws(Sampler settings, int count[4])
{
    float logits[4] = { logf(0.125f), logf(0.5f), logf(0.25f), logf(0.125f) };
    Sampler *s = NULL;

    settings.vocab = 4;
    cr_assert(!sampler_new(tide, settings, &s), "%s", tide_message(tide));
    memset(count, 0, 4 * sizeof *count);
    for (int i = 0; i < 8000; i++) count[sampler_next(s, logits)]++;
    sampler_free(s);
}

Test(data, sampler_follows_the_probabilities)
{
    int count[4];

    count_draws((Sampler){ .temperature = 1, .state = 3 }, count);
    cr_expect(abs(count[1] - 4000) < 225 && abs(count[2] - 2000) < 195 && abs(count[0] - 1000) < 150,
              "%d %d %d %d", count[0], count[1], count[2], count[3]);
    count_draws((Sampler){ .temperature = 1, .top_p = 0.7f, .state = 3 }, count); /* 2/3 and 1/3 are left */
    cr_expect(count[0] == 0 && count[3] == 0 && abs(count[1] - 5333) < 215, "%d %d %d %d", count[0], count[1],
              count[2], count[3]);
    count_draws((Sampler){ .temperature = 0 }, count);
    cr_expect_eq(count[1], 8000);
    count_draws((Sampler){ .temperature = 0.5f, .state = 3 }, count); /* squares: 16/22, 4/22, 1/22, 1/22 */
    cr_expect(abs(count[1] - 5818) < 200 && abs(count[2] - 1454) < 175, "%d %d %d %d", count[0], count[1],
              count[2], count[3]);
}

/* What llama2.c's procedure draws, worked out by another program in f32. */
Test(data, sampler_draws_as_llama2c_does)
{
    static const struct {
        Sampler settings;
        int drawn[20];
    } known[] = {
        { { .temperature = 1, .top_p = 0.9f, .state = 133742 },
          { 7, 7, 4, 4, 4, 3, 7, 1, 4, 7, 4, 4, 3, 7, 3, 1, 1, 4, 3, 1 } },
        { { .temperature = 0.7f, .top_p = 0, .state = 7 },
          { 7, 7, 1, 1, 3, 3, 7, 1, 3, 7, 4, 4, 4, 7, 1, 1, 7, 7, 4, 4 } },
        { { .temperature = 1.3f, .top_p = 0.5f, .state = 1 },
          { 1, 4, 7, 1, 1, 7, 7, 4, 1, 7, 4, 1, 1, 7, 7, 4, 1, 1, 4, 7 } },
    };
    static const float logits[] = { 0.5f, 2, -1, 1.25f, 2, 0, -3, 1.75f };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        Sampler settings = known[i].settings, *s = NULL;
        settings.vocab = 8;
        cr_assert(!sampler_new(tide, settings, &s), "%s", tide_message(tide));
        for (int j = 0; j < 20; j++)
            cr_expect_eq(sampler_next(s, logits), known[i].drawn[j], "case %zu, draw %d", i, j);
        sampler_free(s);
    }
}

Test(data, sampler_refuses_what_is_no_number)
{
    Sampler *s = NULL;
    float logits[2] = { NAN, 1 }, infinite[2] = { -INFINITY, -INFINITY }, one[2] = { -INFINITY, 3 };

    cr_expect_eq(sampler_new(tide, (Sampler){ .temperature = -1, .vocab = 2 }, &s), TIDE_BAD_GRAPH);
    cr_expect_eq(sampler_new(tide, (Sampler){ .top_p = 1.5f, .vocab = 2 }, &s), TIDE_BAD_GRAPH);
    cr_expect_eq(sampler_new(tide, (Sampler){ .temperature = NAN, .vocab = 2 }, &s), TIDE_BAD_GRAPH);
    cr_assert(!sampler_new(tide, (Sampler){ .temperature = 1, .vocab = 2 }, &s), "%s", tide_message(tide));
    cr_expect_eq(sampler_next(s, logits), -1);
    cr_expect_eq(sampler_next(s, infinite), -1);
    cr_expect_eq(sampler_next(s, one), 1);
    sampler_free(s);
}

/* ---- Random numbers ------------------------------------------------------- */

/* Known answers that the authors of Philox publish with their code. */
Test(data, philox_gives_the_published_words)
{
    uint32_t out[4];

    random_words(0, (uint32_t[4]){ 0, 0, 0, 0 }, out);
    cr_expect_arr_eq(out, ((uint32_t[4]){ 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 }), sizeof out);
    random_words(UINT64_MAX, (uint32_t[4]){ UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX }, out);
    cr_expect_arr_eq(out, ((uint32_t[4]){ 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd }), sizeof out);
}

Test(data, normal_numbers_are_normal)
{
    enum { N = 40000 };
    static float x[N], tail[100];
    double sum = 0, squares = 0, fourth = 0;

    random_normal(random_key(1, "wte.weight"), 0, N, 1, x);
    for (int i = 0; i < N; i++) {
        double v = (double)x[i];
        sum += v;
        squares += v * v;
        fourth += v * v * v * v;
    }
    cr_expect(fabs(sum / N) < 0.025, "mean %g", sum / N);
    cr_expect(fabs(squares / N - 1) < 0.035, "variance %g", squares / N);
    cr_expect(fabs(fourth / N - 3) < 0.25, "fourth moment %g", fourth / N);
    random_normal(random_key(1, "wte.weight"), 1000, 100, 1, tail);
    cr_expect_arr_eq(tail, x + 1000, sizeof tail, "a sequence can be entered anywhere");
}

/* ---- Models --------------------------------------------------------------- */

/* Published counts: GPT-2's, with the vocabulary unpadded. */
Test(data, presets_have_the_published_sizes)
{
    static const struct {
        const char *name;
        int64_t parameters;
    } known[] = {
        { "gpt2-124m", 124439808 },
        { "gpt2-355m", 354823168 },
        { "gpt2-774m", 774030080 },
        { "gpt2-1558m", 1557611200 },
        { NULL, 0 },
    };

    for (int i = 0; known[i].name; i++) {
        ModelConfig c;
        Model *m = NULL;
        cr_assert(model_preset(known[i].name, &c));
        cr_assert(!model_new(tide, &c, &m), "%s: %s", known[i].name, tide_message(tide));
        cr_expect_eq(model_parameters(m), known[i].parameters, "%s has %lld", known[i].name,
                     (long long)model_parameters(m));
        cr_expect_eq(m->config.padded_vocab, 50304);
        model_free(m);
    }
    cr_expect_str_eq(model_preset_name(0), "gpt2-124m");
    cr_expect_null(model_preset_name(6));
    cr_expect_null(model_preset_name(-1));
    cr_expect_not(model_preset("gpt3", &(ModelConfig){ 0 }));
}

/* The names that plans, reports and --force speak of. */
Test(data, activations_have_their_names)
{
    static const char *const names[] = {
        "embed",       "embed_drop",       "block0/ln1",         "block0/qkv",  "block0/attn",
        "block0/proj", "block0/proj_drop", "block0/res1",        "block0/ln2",  "block0/fc",
        "block0/gelu", "block0/fcproj",    "block0/fcproj_drop", "block0/res2", "block3/res2",
        "block3/ln1",  "block3/ln1.mean",  "block0/attn.lse",    "ln_f",        "loss",
        NULL
    };
    ModelConfig c;
    Model *m = NULL;

    cr_assert(model_preset("gpt-char", &c));
    c.dropout = 0.1f;
    cr_assert(!model_new(tide, &c, &m), "%s", tide_message(tide));
    for (int i = 0; names[i]; i++)
        cr_expect(tide_tensor_find(m->program, m->micro, names[i]).id, "there is no %s", names[i]);
    cr_expect_eq(tide_graph_index(m->micro), 0);
    model_free(m);
}

static ModelConfig good(void)
{
    ModelConfig c;

    cr_assert(model_preset("gpt-char", &c));
    return c;
}

/* The message must hold the field and its number. */
static void expect_bad(ModelConfig c, const char *says)
{
    Model *m = NULL;

    cr_expect_eq(model_new(tide, &c, &m), TIDE_BAD_GRAPH, "%s was not refused", says);
    cr_expect_null(m);
    cr_expect(strstr(tide_message(tide), says), "'%s' is not in: %s", says, tide_message(tide));
}

Test(data, impossible_sizes_are_refused)
{
    ModelConfig c = good();

    c.layers = 0, expect_bad(c, "layers is 0"), c = good();
    c.layers = -3, expect_bad(c, "layers is -3"), c = good();
    c.width = 0, expect_bad(c, "width is 0"), c = good();
    c.width = 130, expect_bad(c, "width 130 cannot be divided among 4 heads"), c = good();
    c.heads = 0, expect_bad(c, "heads is 0"), c = good();
    c.heads = -4, expect_bad(c, "heads is -4"), c = good();
    c.kv_heads = 3, expect_bad(c, "4 heads cannot share 3 kv-heads"), c = good();
    c.kv_heads = 8, expect_bad(c, "kv-heads is 8"), c = good();
    c.seq = 0, expect_bad(c, "seq is 0"), c = good();
    c.batch = 0, expect_bad(c, "batch is 0"), c = good();
    c.batch = 1 << 20, c.seq = 1 << 20, expect_bad(c, "batch times seq is 1099511627776"), c = good();
    c.vocab = 0, expect_bad(c, "vocab is 0"), c = good();
    c.vocab = INT32_MAX, expect_bad(c, "vocab is 2147483647"), c = good();
    c.padded_vocab = 255, expect_bad(c, "padded vocab is 255"), c = good();
    c.accum = -1, expect_bad(c, "accum is -1"), c = good();
    c.loss_chunk = -1, expect_bad(c, "loss-chunk is -1");
}

Test(data, impossible_numbers_are_refused)
{
    ModelConfig c = good();

    c.dropout = 1, expect_bad(c, "dropout is 1"), c = good();
    c.dropout = NAN, expect_bad(c, "dropout is nan"), c = good();
    c.attn_dropout = -0.5f, expect_bad(c, "attn-dropout is -0.5"), c = good();
    c.beta1 = 1, expect_bad(c, "beta1 is 1"), c = good();
    c.beta2 = -1, expect_bad(c, "beta2 is -1"), c = good();
    c.eps = 0, expect_bad(c, "eps is 0"), c = good();
    c.weight_decay = -1, expect_bad(c, "weight-decay is -1"), c = good();
    c.clip = -1, expect_bad(c, "clip is -1"), c = good();
    strcpy(c.family, "cnn");
    expect_bad(c, "'cnn'");
}
