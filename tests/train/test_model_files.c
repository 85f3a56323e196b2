/* test_model_files.c - models come from files and go to files with the bits they had, in every variant that
 * files have, and what does not fit is refused by name. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "models/files/model_files.h"
#include "tests/support/loaded.h"
#include "tests/support/model_folder.h"
#include "tests/support/scratch_folder.h"

enum { SEED = 3, PROMPT = 5 };

static const int32_t prompt[PROMPT] = { 5, 12, 3, 8, 60 };
static Tide *tide;

static void begin(void)
{
    scratch_folder_make();
    cr_assert(!tide_open("cpu", (TideDeviceOptions){ 0 }, &tide));
}

static void end(void)
{
    tide_close(tide);
    scratch_folder_remove();
}

TestSuite(model_files, .init = begin, .fini = end, .timeout = 120);

static ModelConfig small(void)
{
    return (ModelConfig){ .name = "small",
                          .family = "gpt",
                          .layers = 2,
                          .width = 32,
                          .heads = 4,
                          .vocab = 61,
                          .seq = 16,
                          .batch = 2,
                          .dropout = 0.1f,
                          .attn_dropout = 0.2f,
                          .beta1 = 0.9f,
                          .beta2 = 0.95f,
                          .eps = 1e-8f,
                          .weight_decay = 0.1f,
                          .clip = 1 };
}

/* Save a model with starting weights, its biases and norms no longer 0 and 1, and return its logits. */
static float *save(const ModelConfig *c, const char *folder)
{
    Loaded l = loaded_new(tide, c);
    const TideProgram *p = l.model->program;

    cr_assert(!model_init(l.model, l.run, SEED));
    for (int i = 0; i < tide_parameter_count(p); i++) {
        TideTensor x = tide_parameter_at(p, i);
        float values[256];
        if (tide_tensor_shape(p, x).n > 1) continue;
        int64_t n = shape_elements(tide_tensor_shape(p, x));
        cr_assert(n <= 256);
        for (int64_t k = 0; k < n; k++) values[k] = 0.5f + 0.01f * (float)((k * 7 + i) % 50);
        cr_assert(!tide_write(l.run, x, values, tide_tensor_bytes(p, x)));
    }
    cr_assert(!model_files_save(l.model, l.run, folder), "%s", tide_message(tide));
    float *logits = loaded_logits(&l, prompt, PROMPT);
    loaded_free(&l);
    return logits;
}

static ModelConfig config_of(const char *path)
{
    ModelConfig c;

    cr_assert(!model_files_config(tide, path, &c), "%s", tide_message(tide));
    c.batch = 2;
    return c;
}

static float *load(const char *path)
{
    ModelConfig c = config_of(path);
    Loaded l = loaded_new(tide, &c);

    cr_assert(!model_init(l.model, l.run, SEED + 1));
    cr_assert(!model_files_load(l.model, l.run, path), "%s", tide_message(tide));
    float *logits = loaded_logits(&l, prompt, PROMPT);
    loaded_free(&l);
    return logits;
}

static double farthest(const float *a, const float *b, int n)
{
    double most = 0;

    for (int i = 0; i < n; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static void expect_load(const char *path, const float *logits, double tolerance)
{
    float *loaded = load(path);

    cr_expect_leq(farthest(loaded, logits, 61), tolerance, "%s: %g", path, farthest(loaded, logits, 61));
    free(loaded);
}

static void expect_refusal(const char *path, TideStatus wanted, const char *words)
{
    folder_refused(tide, path, wanted, words);
}

/* ---- There and back ------------------------------------------------------------------ */

static void there_and_back(const ModelConfig *c)
{
    float *logits = save(c, in_folder("m"));
    ModelConfig back = config_of(in_folder("m"));

    expect_load(in_folder("m"), logits, 0);
    cr_expect(back.gelu_erf == c->gelu_erf && back.untied == c->untied && back.heads == c->heads);
    cr_expect(back.dropout == c->dropout && back.attn_dropout == c->attn_dropout && back.vocab == c->vocab);
    cr_expect_eq(back.seq, c->positions ? c->positions : c->seq);
    free(logits);
}

Test(model_files, every_variant_comes_back_bit_by_bit)
{
    ModelConfig c[6];

    for (int i = 0; i < 6; i++) c[i] = small();
    c[1].gelu_erf = true;
    c[2].untied = true;
    c[3].no_bias = true;
    c[4].inner = 40;
    c[5].positions = 23;
    for (int i = 0; i < 6; i++) there_and_back(&c[i]);
}

Test(model_files, the_padding_of_the_vocabulary_stays_here)
{
    ModelConfig c = small();

    c.untied = true;
    free(save(&c, in_folder("m")));
    Contents f = contents_read(tide, in_folder("m/model.safetensors"));
    TideShape wte = f.specs[contents_find(&f, "transformer.wte.weight")].shape;
    TideShape head = f.specs[contents_find(&f, "lm_head.weight")].shape;
    cr_expect(wte.dim[0] == 61 && head.dim[0] == 61 && wte.dim[1] == 32);
    cr_expect_eq(f.n, 2 + 2 * 12 + 2 + 1);
    contents_free(&f);
}

/* c_attn.weight [in, out] of the file is qkv [out, in] of the model. */
Test(model_files, linear_weights_lie_the_other_way_in_files)
{
    ModelConfig c = small();

    free(save(&c, in_folder("m")));
    Contents f = contents_read(tide, in_folder("m/model.safetensors"));
    int i = contents_find(&f, "transformer.h.1.attn.c_attn.weight");
    const float *file = (const float *)(const void *)f.bytes[i];
    cr_expect(f.specs[i].shape.dim[0] == 32 && f.specs[i].shape.dim[1] == 96);
    c = config_of(in_folder("m"));
    Loaded l = loaded_new(tide, &c);
    cr_assert(!model_init(l.model, l.run, SEED + 1) && !model_files_load(l.model, l.run, in_folder("m")));
    float here[96 * 32];
    TideTensor x = tide_tensor_find(l.model->program, NULL, "h.1.attn.c_attn.weight");
    cr_assert(!tide_read(l.run, x, here, sizeof here));
    for (int row = 0; row < 96; row++)
        for (int column = 0; column < 32; column++)
            cr_assert_eq(here[row * 32 + column], file[column * 96 + row]);
    loaded_free(&l);
    contents_free(&f);
}

Test(model_files, the_two_gelus_differ)
{
    ModelConfig tanh_one = small(), erf_one = small();

    erf_one.gelu_erf = true;
    float *a = save(&tanh_one, in_folder("a")), *b = save(&erf_one, in_folder("b"));
    cr_expect_gt(farthest(a, b, 61), 1e-6);
    free(a);
    free(b);
}

/* ---- What files of others look like ------------------------------------------------------ */

static void strip_prefix(Contents *f)
{
    static const char prefix[] = "transformer.";

    for (int i = 0; i < f->n; i++)
        if (!strncmp(f->specs[i].name, prefix, strlen(prefix)))
            memmove(f->specs[i].name, f->specs[i].name + strlen(prefix),
                    strlen(f->specs[i].name + strlen(prefix)) + 1);
}

Test(model_files, names_without_prefix_and_masks_are_fine)
{
    ModelConfig c = small();
    float *logits = save(&c, in_folder("m"));
    Contents f = contents_read(tide, in_folder("m/model.safetensors"));

    strip_prefix(&f);
    contents_add(&f, "h.0.attn.bias", TIDE_F32, (TideShape){ 4, { 1, 1, 16, 16 } });
    contents_add(&f, "h.1.attn.masked_bias", TIDE_F32, (TideShape){ 0 });
    contents_write(tide, in_folder("m/model.safetensors"), &f);
    expect_load(in_folder("m"), logits, 0);
    contents_free(&f);
    free(logits);
}

Test(model_files, narrow_numbers_are_widened)
{
    ModelConfig c = small();
    float *logits = save(&c, in_folder("m"));
    Contents f = contents_read(tide, in_folder("m/model.safetensors"));

    for (int i = 0; i < f.n; i++)
        if (i % 3) contents_narrow(&f, i, i % 3 == 1 ? TIDE_F16 : TIDE_BF16);
    contents_write(tide, in_folder("m/model.safetensors"), &f);
    expect_load(in_folder("m"), logits, 0.05);
    float *narrow = load(in_folder("m"));
    cr_expect_gt(farthest(narrow, logits, 61), 0);
    free(narrow);
    contents_free(&f);
    free(logits);
}

static void add_head(Contents *f, float change)
{
    int wte = contents_find(f, "transformer.wte.weight");

    contents_add(f, "lm_head.weight", TIDE_F32, f->specs[wte].shape);
    memcpy(f->bytes[f->n - 1], f->bytes[wte], 61 * 32 * sizeof(float));
    ((float *)(void *)f->bytes[f->n - 1])[700] += change;
}

Test(model_files, a_head_beside_its_embedding_must_equal_it)
{
    ModelConfig c = small();
    float *logits = save(&c, in_folder("m"));
    Contents f = contents_read(tide, in_folder("m/model.safetensors"));

    add_head(&f, 0);
    contents_write(tide, in_folder("m/model.safetensors"), &f);
    expect_load(in_folder("m"), logits, 0);
    contents_drop(&f, f.n - 1);
    add_head(&f, 1);
    contents_write(tide, in_folder("m/model.safetensors"), &f);
    expect_refusal(in_folder("m"), TIDE_BAD_FILE,
                   "lm_head.weight|transformer.wte.weight|differ|tie_word_embeddings");
    contents_free(&f);
    free(logits);
}

/* Half of the tensors in one shard, half in the other, and an index of them. */
static void split(const char *drop)
{
    Contents f = contents_read(tide, in_folder("m/model.safetensors")), half[2] = { f, f };
    json_t *map = json_object(), *index;

    half[0].n = f.n / 2;
    half[1] = (Contents){ f.specs + f.n / 2, f.bytes + f.n / 2, f.n - f.n / 2 };
    for (int i = 0; i < f.n; i++)
        if (!drop || strcmp(drop, f.specs[i].name))
            json_object_set_new(map, f.specs[i].name,
                                json_string(i < f.n / 2 ? "one.safetensors" : "2.safetensors"));
    contents_write(tide, in_folder("m/one.safetensors"), &half[0]);
    contents_write(tide, in_folder("m/2.safetensors"), &half[1]);
    index = json_pack("{s:{s:i}, s:o}", "metadata", "total_size", 1, "weight_map", map);
    cr_assert(!json_dump_file(index, in_folder("m/model.safetensors.index.json"), 0));
    json_decref(index);
    unlink(in_folder("m/model.safetensors"));
    contents_free(&f);
}

Test(model_files, shards_are_joined_and_strays_left_alone)
{
    ModelConfig c = small();
    float *logits = save(&c, in_folder("m"));

    split(NULL);
    text_write(in_folder("m/stray.safetensors"), "not one at all");
    expect_load(in_folder("m"), logits, 0);
    unlink(in_folder("m/2.safetensors"));
    expect_refusal(in_folder("m"), TIDE_BAD_FILE, "2.safetensors|not there");
    text_write(in_folder("m/2.safetensors"),
               "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    expect_refusal(in_folder("m"), TIDE_BAD_FILE, "2.safetensors|git-lfs");
    unlink(in_folder("m/model.safetensors.index.json"));
    expect_refusal(in_folder("m"), TIDE_BAD_FILE, "3 .safetensors files|model.safetensors.index.json");
    free(logits);
}

Test(model_files, an_index_that_names_what_is_not_there_is_refused)
{
    ModelConfig c = small();

    free(save(&c, in_folder("m")));
    split("transformer.h.1.ln_2.bias");
    expect_refusal(in_folder("m"), TIDE_BAD_FILE, "no tensor h.1.ln_2.bias");
    text_write(in_folder("m/model.safetensors.index.json"),
               "{\"weight_map\":{\"x\":\"../one.safetensors\"}}");
    expect_refusal(in_folder("m"), TIDE_BAD_FILE, "../one.safetensors|beside the index");
    text_write(in_folder("m/model.safetensors.index.json"), "{\"weight_map\":{\"x\":\"one.safetensors\"}}");
    expect_refusal(in_folder("m"), TIDE_BAD_FILE, "one.safetensors|no tensor x");
    text_write(in_folder("m/model.safetensors.index.json"), "{\"metadata\":{}}");
    expect_refusal(in_folder("m"), TIDE_BAD_FILE, "weight_map");
}

Test(model_files, what_does_not_fit_is_refused_by_name)
{
    ModelConfig c = small();

    free(save(&c, in_folder("m")));
    Contents f = contents_read(tide, in_folder("m/model.safetensors"));
    contents_drop(&f, contents_find(&f, "transformer.h.1.mlp.c_fc.weight"));
    contents_write(tide, in_folder("m/model.safetensors"), &f);
    expect_refusal(in_folder("m"), TIDE_BAD_FILE, "no tensor h.1.mlp.c_fc.weight");
    contents_add(&f, "transformer.h.1.mlp.c_fc.weight", TIDE_F32, (TideShape){ 2, { 128, 32 } });
    contents_write(tide, in_folder("m/model.safetensors"), &f);
    expect_refusal(in_folder("m"), TIDE_BAD_FILE, "h.1.mlp.c_fc.weight|[128, 32]|[32, 128]");
    f.specs[f.n - 1] = (TensorSpec){ .type = TIDE_I32, .shape = { 2, { 32, 128 } } };
    snprintf(f.specs[f.n - 1].name, sizeof f.specs->name, "transformer.h.1.mlp.c_fc.weight");
    contents_write(tide, in_folder("m/model.safetensors"), &f);
    expect_refusal(in_folder("m"), TIDE_BAD_FILE, "h.1.mlp.c_fc.weight|I32|BF16");
    f.specs[f.n - 1].type = TIDE_F32;
    contents_add(&f, "transformer.h.2.ln_1.weight", TIDE_F32, (TideShape){ 1, { 32 } });
    contents_write(tide, in_folder("m/model.safetensors"), &f);
    expect_refusal(in_folder("m"), TIDE_BAD_FILE, "h.2.ln_1.weight|2 layers");
    unlink(in_folder("m/model.safetensors"));
    expect_refusal(in_folder("m"), TIDE_IO, "no weights");
    contents_free(&f);
}

Test(model_files, an_untied_model_needs_its_head)
{
    ModelConfig c = small();

    c.untied = true;
    free(save(&c, in_folder("m")));
    Contents f = contents_read(tide, in_folder("m/model.safetensors"));
    contents_drop(&f, contents_find(&f, "lm_head.weight"));
    contents_write(tide, in_folder("m/model.safetensors"), &f);
    expect_refusal(in_folder("m"), TIDE_BAD_FILE, "lm_head.weight|tie_word_embeddings");
    contents_free(&f);
}

/* ---- What cannot be said ------------------------------------------------------------------- */

Test(model_files, only_what_transformers_can_read_is_saved)
{
    ModelConfig c = small();
    Model *m;

    c.kv_heads = 2;
    cr_assert(!model_new(tide, &c, &m));
    cr_expect_eq(model_files_can_save(m), TIDE_BAD_GRAPH);
    cr_expect(strstr(tide_message(tide), "keys and values"), "%s", tide_message(tide));
    model_free(m);
}

/* ---- Known answers ------------------------------------------------------------------------------ */

static void compare_golden(const Loaded *l, const json_t *golden)
{
    const json_t *tokens = json_object_get(golden, "tokens"), *logits = json_object_get(golden, "logits");
    int32_t ids[16];
    int n = (int)json_array_size(tokens);

    cr_assert(n > 0 && n <= 16 && json_array_size(logits) == 24);
    for (int i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(tokens, (size_t)i));
    float *ours = loaded_logits(l, ids, n);
    for (size_t i = 0; i < 24; i++)
        cr_expect_float_eq((double)ours[i], json_number_value(json_array_get(logits, i)), 1e-5, "logit %zu",
                           i);
    free(ours);
}

Test(model_files, gpt2_tiny_gives_its_published_logits)
{
    const char *data = getenv("TIDE_TEST_DATA");
    char path[1024], golden[1100];
    json_error_t error;

    snprintf(path, sizeof path, "%s/ckpt/gpt2-tiny", data ? data : "");
    snprintf(golden, sizeof golden, "%s/golden.json", path);
    json_t *known = json_load_file(golden, 0, &error);
    if (!known) cr_skip_test("TIDE_TEST_DATA holds no gpt2-tiny");
    ModelConfig c = config_of(path);
    Loaded l = loaded_new(tide, &c);
    cr_assert(!model_init(l.model, l.run, SEED) && !model_files_load(l.model, l.run, path));
    json_t *cases = json_object_get(known, "cases");
    cr_assert_gt(json_array_size(cases), 0);
    for (size_t i = 0; i < json_array_size(cases); i++) compare_golden(&l, json_array_get(cases, i));
    loaded_free(&l);
    json_decref(known);
}
