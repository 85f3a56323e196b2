/* hf_llama.c - Llama as transformers stores it (configuration_llama.py, modeling_llama.py and
 * modeling_rope_utils.py).
 *
 * Linear weights are [out, in] in files as well. Where the model keeps q, k and v, or gate and up, in one
 * matrix, called qkv_proj and gate_up_proj, its rows are tensors of their own in files. */
#include <string.h>
#include "models/files/architecture.h"
#include "runtime/base.h"

static const char *const schemes[] = {
    [ROPE_PLAIN] = "default", [ROPE_LINEAR] = "linear", [ROPE_LLAMA3] = "llama3"
};

static TideStatus read_sizes(const JsonAt *config, ModelConfig *c)
{
    c->vocab = 32000;
    c->width = 4096;
    c->inner = 11008;
    c->layers = c->heads = 32;
    c->positions = 2048;
    TRY(config_int(config, "vocab_size", 1 << 24, &c->vocab));
    TRY(config_int(config, "hidden_size", 1 << 20, &c->width));
    TRY(config_int(config, "intermediate_size", 1 << 24, &c->inner));
    TRY(config_int(config, "num_hidden_layers", 1000, &c->layers));
    TRY(config_int(config, "num_attention_heads", 1 << 16, &c->heads));
    TRY(config_int(config, "max_position_embeddings", 1 << 24, &c->positions));
    c->kv_heads = c->heads;
    TRY(config_int(config, "num_key_value_heads", 1 << 16, &c->kv_heads));
    TRY(config_int(config, "head_dim", 1 << 16, &c->head_dim));
    c->seq = c->positions;
    return TIDE_OK;
}

/* ---- Rotary positions ------------------------------------------------------------------ */

/* Numbers that a scheme cannot do without. */
static TideStatus read_needed(const JsonAt *rope, const char *key, double *out)
{
    JsonAt at;

    TRY(read_member(rope, key, &at));
    return read_real(&at, 1e-6, 1e9, out);
}

/* "dynamic" stretches only sequences that are longer than the model's longest, and those are refused. */
static TideStatus read_scheme(const JsonAt *rope, Rope *out)
{
    static const char *const names[] = { "default", "linear", "llama3", "dynamic" };
    JsonAt at;
    int which = 0;

    if (!config_has(rope, "rope_type", &at) && !config_has(rope, "type", &at)) return TIDE_OK;
    TRY(read_word(&at, names, sizeof names / sizeof *names, &which));
    out->scheme = which < ROPE_SCHEME_COUNT ? (RopeScheme)which : ROPE_PLAIN;
    if (out->scheme == ROPE_PLAIN) return TIDE_OK;
    TRY(read_needed(rope, "factor", &out->factor));
    if (out->scheme == ROPE_LINEAR) return TIDE_OK;
    TRY(read_needed(rope, "low_freq_factor", &out->low));
    TRY(read_needed(rope, "high_freq_factor", &out->high));
    if (out->high <= out->low)
        return read_refuse(rope, "has low_freq_factor %g and high_freq_factor %g; the second must be larger",
                           out->low, out->high);
    TRY(read_member(rope, "original_max_position_embeddings", &at));
    return config_int(rope, "original_max_position_embeddings", 1 << 24, &out->original);
}

/* Newer files have one object for all, older ones a number and an object beside it. */
static TideStatus read_rope(const JsonAt *config, Rope *rope)
{
    JsonAt at;
    bool stretched = config_has(config, "rope_parameters", &at) || config_has(config, "rope_scaling", &at);

    *rope = (Rope){ .theta = 10000 };
    TRY(config_real(config, "rope_theta", 1e12, &rope->theta));
    if (stretched && !json_is_object(at.value)) return read_refuse(&at, "must be an object");
    if (stretched) TRY(config_real(&at, "rope_theta", 1e12, &rope->theta));
    if (stretched) TRY(read_scheme(&at, rope));
    if (rope->theta > 1) return TIDE_OK;
    return read_refuse(config, "has rope_theta %g; it must be more than 1", rope->theta);
}

/* ---- The rest --------------------------------------------------------------------------- */

static TideStatus read_numbers(const JsonAt *config, ModelConfig *c)
{
    double dropout = 0, rotated = 1;

    c->norm_eps = 1e-6;
    TRY(config_real(config, "rms_norm_eps", 1, &c->norm_eps));
    TRY(config_real(config, "attention_dropout", 1, &dropout));
    c->attn_dropout = (float)dropout;
    TRY(config_real(config, "partial_rotary_factor", 1, &rotated));
    if (rotated == 1) return TIDE_OK;
    return read_refuse(config, "has partial_rotary_factor %g; only 1 is supported", rotated);
}

static TideStatus read(const JsonAt *config, ModelConfig *c)
{
    static const char *const activations[] = { "silu", "swish" };
    bool tied = false;
    int which;
    JsonAt at;

    TRY(read_sizes(config, c));
    TRY(read_rope(config, &c->rope));
    TRY(read_numbers(config, c));
    if (config_has(config, "hidden_act", &at)) TRY(read_word(&at, activations, 2, &which));
    TRY(config_flag(config, "attention_bias", &c->attention_bias));
    TRY(config_flag(config, "mlp_bias", &c->mlp_bias));
    TRY(config_flag(config, "tie_word_embeddings", &tied));
    c->untied = !tied;
    c->no_bias = true; /* of norms */
    return TIDE_OK;
}

/* As older versions of transformers write it, which newer ones read. */
static void write_rope(const Rope *rope, json_t *config)
{
    json_t *scaling = json_null();

    json_object_set_new(config, "rope_theta", json_real(rope->theta));
    if (rope->scheme != ROPE_PLAIN)
        scaling = json_pack("{s:s, s:f}", "rope_type", schemes[rope->scheme], "factor", rope->factor);
    if (rope->scheme == ROPE_LLAMA3) {
        json_object_set_new(scaling, "low_freq_factor", json_real(rope->low));
        json_object_set_new(scaling, "high_freq_factor", json_real(rope->high));
        json_object_set_new(scaling, "original_max_position_embeddings", json_integer(rope->original));
    }
    json_object_set_new(config, "rope_scaling", scaling);
}

static int head_dim_of(const ModelConfig *c)
{
    return c->head_dim ? c->head_dim : c->width / c->heads;
}

static const char *write(const ModelConfig *c, json_t *config)
{
    const struct {
        const char *key;
        int value;
    } sizes[] = { { "vocab_size", c->vocab },          { "hidden_size", c->width },
                  { "intermediate_size", c->inner },   { "num_hidden_layers", c->layers },
                  { "num_attention_heads", c->heads }, { "num_key_value_heads", c->kv_heads },
                  { "head_dim", head_dim_of(c) },      { "max_position_embeddings", c->positions } };

    if (c->dropout > 0) return "dropout of embeddings and residuals";
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        json_object_set_new(config, sizes[i].key, json_integer(sizes[i].value));
    write_rope(&c->rope, config);
    json_object_set_new(config, "rms_norm_eps", json_real(c->norm_eps));
    config_write_rate(config, "attention_dropout", c->attn_dropout);
    json_object_set_new(config, "hidden_act", json_string("silu"));
    json_object_set_new(config, "attention_bias", json_boolean(c->attention_bias));
    json_object_set_new(config, "mlp_bias", json_boolean(c->mlp_bias));
    json_object_set_new(config, "tie_word_embeddings", json_boolean(!c->untied));
    return NULL;
}

/* ---- Pieces ------------------------------------------------------------------------------- */

/* What a packed matrix is called, and what the stretches of its rows are called in files. */
typedef struct Packed {
    const char *name;
    const char *parts[3]; /* NULL: there are fewer */
} Packed;

static const Packed packs[] = { { ".qkv_proj.", { ".q_proj.", ".k_proj.", ".v_proj." } },
                                { ".gate_up_proj.", { ".gate_proj.", ".up_proj.", NULL } } };
enum { QKV, GATE_UP, N_PACKS };

static int64_t rows_of(const ModelConfig *c, int pack, int part)
{
    if (pack == GATE_UP) return c->inner;
    return (int64_t)head_dim_of(c) * (part == 0 ? c->heads : c->kv_heads);
}

static int pieces(const ModelConfig *c, const char *parameter, int64_t rows, Piece out[MOST_PIECES])
{
    bool classes = !strcmp(parameter, "model.embed_tokens.weight") || !strcmp(parameter, "lm_head.weight");

    for (int k = 0; k < N_PACKS; k++) {
        const char *at = strstr(parameter, packs[k].name);
        int64_t first = 0;
        int n = 0;
        for (; at && n < 3 && packs[k].parts[n]; n++) {
            out[n] = (Piece){ .first = first, .rows = rows_of(c, k, n) };
            first += out[n].rows;
            snprintf(out[n].name, sizeof out[n].name, "%.*s%s%s", (int)(at - parameter), parameter,
                     packs[k].parts[n], at + strlen(packs[k].name));
        }
        if (at) return n;
    }
    out[0] = (Piece){ .rows = classes ? c->vocab : rows };
    snprintf(out[0].name, sizeof out[0].name, "%s", parameter);
    return 1;
}

/* Wavelengths of rotary positions, which the configuration gives too. */
static const char *const ignored[] = { ".rotary_emb.inv_freq", NULL };

const Architecture architecture_llama = { .model_type = "llama",
                                          .class_name = "LlamaForCausalLM",
                                          .family = "llama",
                                          .prefix = "",
                                          .embedding = "model.embed_tokens.weight",
                                          .head = "lm_head.weight",
                                          .ignored = ignored,
                                          .read = read,
                                          .write = write,
                                          .pieces = pieces };
