/* test_model_config.c - what a config.json may say, and what is made of what it leaves out. */
#define _DEFAULT_SOURCE
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "models/files/model_files.h"
#include "tests/support/model_folder.h"

static char dir[] = "/tmp/tide-config-XXXXXX";
static Tide *tide;

static const char *in_dir(const char *name)
{
    static char path[4][192];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static void begin(void)
{
    cr_assert(mkdtemp(dir));
    cr_assert(!tide_open("cpu", (TideDeviceOptions){ 0 }, &tide));
}

static void end(void)
{
    char command[128];

    tide_close(tide);
    snprintf(command, sizeof command, "rm -r %s", dir);
    cr_expect_eq(system(command), 0);
}

TestSuite(model_config, .init = begin, .fini = end, .timeout = 120);

/* A folder m with a config.json of the library's. */
static void make_model(void)
{
    ModelConfig c;

    cr_assert(model_preset("gpt-char", &c));
    c.layers = 1;
    c.width = 8;
    c.heads = 1;
    Loaded l = loaded_new(tide, &c);
    cr_assert(!model_files_save(l.model, l.run, in_dir("m")), "%s", tide_message(tide));
    loaded_free(&l);
}

typedef struct ConfigCase {
    const char *config, *words;
} ConfigCase;

// clang-format off
static const ConfigCase refused[] = {
    { "", "empty" },
    { "[]", "must be an object" },
    { "{}", "model_type" },
    { "{\"model_type\":1}", "model_type is 1" },
    { "{\"model_type\":\"bert\"}", "bert|gpt2" },
    { "{\"model_type\":\"gpt2\",\"model_type\":\"gpt2\"}", "duplicate" },
    { "{\"model_type\":\"gpt2\",\"activation_function\":\"relu\"}", "relu|gelu_new" },
    { "{\"model_type\":\"gpt2\",\"n_layer\":0}", "n_layer is 0" },
    { "{\"model_type\":\"gpt2\",\"n_layer\":-3}", "n_layer is -3" },
    { "{\"model_type\":\"gpt2\",\"n_embd\":\"768\"}", "n_embd is \"768\"" },
    { "{\"model_type\":\"gpt2\",\"n_embd\":1e3}", "n_embd is 1000" },
    { "{\"model_type\":\"gpt2\",\"vocab_size\":4294967297}", "vocab_size is 4294967297" },
    { "{\"model_type\":\"gpt2\",\"n_head\":7}", "768|7 heads" },
    { "{\"model_type\":\"gpt2\",\"embd_pdrop\":0.2}", "embd_pdrop 0.2|resid_pdrop 0.1" },
    { "{\"model_type\":\"gpt2\",\"attn_pdrop\":1.5}", "attn_pdrop is 1.5" },
    { "{\"model_type\":\"gpt2\",\"layer_norm_epsilon\":1e-6}", "layer_norm_epsilon 1e-06" },
    { "{\"model_type\":\"gpt2\",\"scale_attn_weights\":false}", "scale_attn_weights is false" },
    { "{\"model_type\":\"gpt2\",\"scale_attn_by_inverse_layer_idx\":true}",
      "scale_attn_by_inverse_layer_idx is true" },
    { "{\"model_type\":\"gpt2\",\"add_cross_attention\":true}", "add_cross_attention is true" },
    { "{\"model_type\":\"gpt2\",\"tie_word_embeddings\":\"no\"}", "tie_word_embeddings is \"no\"" },
    { "{\"model_type\":\"gpt2\",\"quantization_config\":{}}", "quantization_config" },
};
// clang-format on

Test(model_config, a_config_that_cannot_be_built_is_refused_by_its_key)
{
    make_model();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        TideStatus wanted = strstr(refused[i].words, "7 heads") ? TIDE_BAD_GRAPH : TIDE_BAD_FILE;
        text_write(in_dir("m/config.json"), refused[i].config);
        folder_refused(tide, in_dir("m"), wanted, refused[i].words);
    }
    unlink(in_dir("m/config.json"));
    folder_refused(tide, in_dir("m"), TIDE_IO, "config.json");
}

/* Only that nothing else happens than a refusal or another configuration. */
Test(model_config, a_flipped_bit_of_a_config_leads_nowhere)
{
    char text[1024];
    ModelConfig c;

    make_model();
    FILE *f = fopen(in_dir("m/config.json"), "r");
    cr_assert(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    for (size_t i = 0; i < 8 * n; i++) {
        text[i / 8] ^= (char)(1 << i % 8);
        text_write(in_dir("m/config.json"), text);
        TideStatus status = model_files_config(tide, in_dir("m"), &c);
        cr_assert(status == TIDE_OK || status == TIDE_BAD_FILE);
        cr_assert(status || (c.layers >= 1 && c.width >= 1 && c.vocab >= 1 && c.dropout <= 1));
        text[i / 8] ^= (char)(1 << i % 8);
    }
}

Test(model_config, what_a_config_leaves_out_is_gpt2)
{
    make_model();
    text_write(in_dir("m/config.json"), "{\"model_type\":\"gpt2\",\"n_inner\":null,\"hidden_act\":\"relu\","
                                        "\"intermediate_size\":37,\"n_ctx\":7}");
    ModelConfig c;
    cr_assert(!model_files_config(tide, in_dir("m"), &c), "%s", tide_message(tide));
    cr_expect(c.vocab == 50257 && c.positions == 1024 && c.seq == 1024 && c.width == 768 && c.layers == 12);
    cr_expect(c.heads == 12 && c.inner == 0 && !c.gelu_erf && !c.untied && !c.no_bias);
    cr_expect(c.dropout == 0.1f && c.attn_dropout == 0.1f);
    cr_expect_str_eq(c.family, "gpt");
    cr_expect_str_eq(c.name, "m");
}
