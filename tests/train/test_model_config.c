/* test_model_config.c - what a config.json may say, and what is made of what it leaves out. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "models/files/model_files.h"
#include "tests/support/loaded.h"
#include "tests/support/model_folder.h"
#include "tests/support/scratch_folder.h"

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
    cr_assert(!model_files_save(l.model, l.run, in_folder("m")), "%s", tide_message(tide));
    loaded_free(&l);
}

typedef struct ConfigCase {
    const char *config, *words;
} ConfigCase;

#define LLAMA "{\"model_type\":\"llama\","

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
    { LLAMA "\"hidden_act\":\"gelu\"}", "hidden_act is \"gelu\"" },
    { LLAMA "\"partial_rotary_factor\":0.5}", "partial_rotary_factor 0.5" },
    { LLAMA "\"rope_theta\":0}", "rope_theta 0" },
    { LLAMA "\"rope_scaling\":3}", "rope_scaling must be an object" },
    { LLAMA "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}}", "rope_scaling.type is \"yarn\"|llama3" },
    { LLAMA "\"rope_scaling\":{\"type\":\"linear\"}}", "factor" },
    { LLAMA "\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
            "\"high_freq_factor\":1}}", "low_freq_factor 4|high_freq_factor 1" },
    { LLAMA "\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
            "\"high_freq_factor\":4}}", "original_max_position_embeddings" },
    { LLAMA "\"num_key_value_heads\":0}", "num_key_value_heads is 0" },
    { "{\"model_type\":\"gpt2\",\"quantization_config\":{}}", "quantization_config" },
};
// clang-format on

Test(model_config, a_config_that_cannot_be_built_is_refused_by_its_key)
{
    make_model();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        TideStatus wanted = strstr(refused[i].words, "7 heads") ? TIDE_BAD_GRAPH : TIDE_BAD_FILE;
        text_write(in_folder("m/config.json"), refused[i].config);
        folder_refused(tide, in_folder("m"), wanted, refused[i].words);
    }
    unlink(in_folder("m/config.json"));
    folder_refused(tide, in_folder("m"), TIDE_IO, "config.json");
}

/* Only that nothing else happens than a refusal or another configuration. */
Test(model_config, a_flipped_bit_of_a_config_leads_nowhere)
{
    char text[1024];
    ModelConfig c;

    make_model();
    FILE *f = fopen(in_folder("m/config.json"), "r");
    cr_assert(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    for (size_t i = 0; i < 8 * n; i++) {
        text[i / 8] ^= (char)(1 << i % 8);
        text_write(in_folder("m/config.json"), text);
        TideStatus status = model_files_config(tide, in_folder("m"), &c);
        cr_assert(status == TIDE_OK || status == TIDE_BAD_FILE);
        cr_assert(status || (c.layers >= 1 && c.width >= 1 && c.vocab >= 1 && c.dropout <= 1));
        text[i / 8] ^= (char)(1 << i % 8);
    }
}

Test(model_config, what_a_config_leaves_out_is_gpt2)
{
    make_model();
    text_write(in_folder("m/config.json"),
               "{\"model_type\":\"gpt2\",\"n_inner\":null,\"hidden_act\":\"relu\","
               "\"intermediate_size\":37,\"n_ctx\":7}");
    ModelConfig c;
    cr_assert(!model_files_config(tide, in_folder("m"), &c), "%s", tide_message(tide));
    cr_expect(c.vocab == 50257 && c.positions == 1024 && c.seq == 1024 && c.width == 768 && c.layers == 12);
    cr_expect(c.heads == 12 && c.inner == 0 && !c.gelu_erf && !c.untied && !c.no_bias);
    cr_expect(c.dropout == 0.1f && c.attn_dropout == 0.1f);
    cr_expect_str_eq(c.family, "gpt");
    cr_expect_str_eq(c.name, "m");
}

static ModelConfig config_of(const char *text)
{
    ModelConfig c;

    mkdir(in_folder("m"), 0777);
    text_write(in_folder("m/config.json"), text);
    cr_assert(!model_files_config(tide, in_folder("m"), &c), "%s: %s", text, tide_message(tide));
    return c;
}

Test(model_config, what_a_config_leaves_out_is_llama)
{
    ModelConfig c =
        config_of(LLAMA "\"num_key_value_heads\":null,\"rope_scaling\":null,\"eos_token_id\":[1,2]}");

    cr_expect(c.vocab == 32000 && c.width == 4096 && c.inner == 11008 && c.layers == 32 && c.heads == 32);
    cr_expect(c.kv_heads == 32 && c.seq == 2048 && c.positions == 2048 && c.head_dim == 0);
    cr_expect(c.norm_eps == 1e-6 && c.rope.theta == 10000 && c.rope.scheme == ROPE_PLAIN);
    cr_expect(c.untied && !c.attention_bias && !c.mlp_bias && c.attn_dropout == 0);
    cr_expect_str_eq(c.family, "llama");
}

Test(model_config, rotary_positions_are_read_from_old_and_new_keys)
{
    ModelConfig a =
        config_of(LLAMA "\"rope_theta\":500000,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
                        "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                        "\"original_max_position_embeddings\":8192}}");
    ModelConfig b =
        config_of(LLAMA "\"rope_parameters\":{\"rope_theta\":5e5,\"rope_type\":\"llama3\",\"factor\":8.0,"
                        "\"low_freq_factor\":1,\"high_freq_factor\":4,"
                        "\"original_max_position_embeddings\":8192}}");
    ModelConfig c = config_of(LLAMA "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}}");
    ModelConfig d = config_of(LLAMA "\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}}");

    cr_expect(a.rope.theta == 500000 && a.rope.scheme == ROPE_LLAMA3 && a.rope.factor == 8);
    cr_expect(a.rope.low == 1 && a.rope.high == 4 && a.rope.original == 8192);
    cr_expect(b.rope.theta == a.rope.theta && b.rope.scheme == a.rope.scheme &&
              b.rope.factor == a.rope.factor);
    cr_expect(b.rope.low == a.rope.low && b.rope.high == a.rope.high && b.rope.original == a.rope.original);
    cr_expect(c.rope.theta == 10000 && c.rope.scheme == ROPE_LINEAR && c.rope.factor == 2.5);
    cr_expect(d.rope.scheme == ROPE_PLAIN);
}
