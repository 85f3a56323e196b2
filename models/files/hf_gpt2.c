/* hf_gpt2.c - GPT-2 as transformers stores it (configuration_gpt2.py, modeling_gpt2.py).
 *
 * Its linear weights are [in, out] in files, which stems from a convolution of width 1; here they are
 * [out, in]. Otherwise the parameters have the names of the files. */
#include <math.h>
#include <string.h>
#include "models/files/architecture.h"
#include "runtime/base.h"

enum { GPT2_VOCAB = 50257, GPT2_POSITIONS = 1024, GPT2_WIDTH = 768, GPT2_DEPTH = 12 };

/* What activation_function may be, and whether it is the exact GELU or the one with tanh. */
typedef struct Activation {
    const char *name;
    bool erf;
} Activation;

static const Activation activations[] = { { "gelu_new", false },
                                          { "gelu_pytorch_tanh", false },
                                          { "gelu_fast", false },
                                          { "gelu", true },
                                          { "gelu_python", true } };
enum { N_ACTIVATIONS = sizeof activations / sizeof *activations };

static TideStatus read_sizes(const JsonAt *config, ModelConfig *c)
{
    c->vocab = GPT2_VOCAB;
    c->positions = GPT2_POSITIONS;
    c->width = GPT2_WIDTH;
    c->layers = c->heads = GPT2_DEPTH;
    TRY(config_int(config, "vocab_size", 1 << 24, &c->vocab));
    TRY(config_int(config, "n_positions", 1 << 24, &c->positions));
    TRY(config_int(config, "n_embd", 1 << 20, &c->width));
    TRY(config_int(config, "n_layer", 1000, &c->layers));
    TRY(config_int(config, "n_head", 1 << 16, &c->heads));
    TRY(config_int(config, "n_inner", 1 << 24, &c->inner));
    c->seq = c->positions;
    return TIDE_OK;
}

static TideStatus read_activation(const JsonAt *config, ModelConfig *c)
{
    const char *names[N_ACTIVATIONS];
    JsonAt at;
    int which = 0;

    if (!read_has(config, "activation_function")) return TIDE_OK;
    for (int i = 0; i < N_ACTIVATIONS; i++) names[i] = activations[i].name;
    TRY(read_member(config, "activation_function", &at));
    TRY(read_word(&at, names, N_ACTIVATIONS, &which));
    c->gelu_erf = activations[which].erf;
    return TIDE_OK;
}

static TideStatus read_dropout(const JsonAt *config, ModelConfig *c)
{
    double embed = 0.1, residual = 0.1, attention = 0.1;

    TRY(config_real(config, "embd_pdrop", 1, &embed));
    TRY(config_real(config, "resid_pdrop", 1, &residual));
    TRY(config_real(config, "attn_pdrop", 1, &attention));
    if (embed != residual)
        return read_refuse(config,
                           "has embd_pdrop %g and resid_pdrop %g; only one rate for both is supported", embed,
                           residual);
    c->dropout = (float)residual;
    c->attn_dropout = (float)attention;
    return TIDE_OK;
}

static TideStatus read_norm(const JsonAt *config)
{
    double eps = 1e-5;

    TRY(config_real(config, "layer_norm_epsilon", 1, &eps));
    if (fabs(eps - 1e-5) <= 1e-11) return TIDE_OK;
    return read_refuse(config, "has layer_norm_epsilon %g; only 1e-05 is supported", eps);
}

/* Keys of BERT's that some files carry as well (hidden_act, intermediate_size) say nothing here. */
static TideStatus read(const JsonAt *config, ModelConfig *c)
{
    bool tied = true;

    TRY(read_sizes(config, c));
    TRY(read_activation(config, c));
    TRY(read_dropout(config, c));
    TRY(read_norm(config));
    TRY(config_demand(config, "scale_attn_weights", true));
    TRY(config_demand(config, "scale_attn_by_inverse_layer_idx", false));
    TRY(config_demand(config, "add_cross_attention", false));
    TRY(config_flag(config, "tie_word_embeddings", &tied));
    c->untied = !tied;
    return TIDE_OK;
}

static const char *write(const ModelConfig *c, json_t *config)
{
    const struct {
        const char *key;
        int value;
    } sizes[] = { { "vocab_size", c->vocab }, { "n_positions", c->positions }, { "n_ctx", c->positions },
                  { "n_embd", c->width },     { "n_layer", c->layers },        { "n_head", c->heads },
                  { "n_inner", c->inner } };

    if (c->kv_heads != c->heads) return "keys and values shared by several heads";
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        json_object_set_new(config, sizes[i].key, json_integer(sizes[i].value));
    config_write_rate(config, "embd_pdrop", c->dropout);
    config_write_rate(config, "resid_pdrop", c->dropout);
    config_write_rate(config, "attn_pdrop", c->attn_dropout);
    config_write_rate(config, "layer_norm_epsilon", 1e-5f);
    json_object_set_new(config, "activation_function", json_string(c->gelu_erf ? "gelu" : "gelu_new"));
    if (c->vocab < GPT2_VOCAB) { /* where they are left out, they are GPT-2's last token */
        json_object_set_new(config, "bos_token_id", json_null());
        json_object_set_new(config, "eos_token_id", json_null());
    }
    json_object_set_new(config, "tie_word_embeddings", json_boolean(!c->untied));
    return NULL;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

static int pieces(const ModelConfig *c, const char *parameter, int64_t rows, Piece out[MOST_PIECES])
{
    bool classes = !strcmp(parameter, "wte.weight") || !strcmp(parameter, "lm_head.weight");

    out[0] = (Piece){ .rows = classes ? c->vocab : rows,
                      .transposed = ends_with(parameter, ".c_attn.weight") ||
                                    ends_with(parameter, ".c_proj.weight") ||
                                    ends_with(parameter, ".c_fc.weight") };
    snprintf(out[0].name, sizeof out[0].name, "%s", parameter);
    return 1;
}

/* The mask of the attention was saved as if it were a weight. */
static const char *const ignored[] = { ".attn.bias", ".attn.masked_bias", NULL };

const Architecture architecture_gpt2 = { .model_type = "gpt2",
                                         .class_name = "GPT2LMHeadModel",
                                         .family = "gpt",
                                         .prefix = "transformer.",
                                         .embedding = "wte.weight",
                                         .head = "lm_head.weight",
                                         .ignored = ignored,
                                         .always_biased = true,
                                         .read = read,
                                         .write = write,
                                         .pieces = pieces };
