/* agreement_dense.c - linear layers and attention as cases of agreement.h, by each engine that there is. */
#include <jansson.h>
#include <stdlib.h>
#include "kernels/ops.h"
#include "tests/support/agreement.h"

static const TideTensor none = { 0 };

/* ---- Linear layers: sizes are B, T, K, N ----------------------------------------- */

static TideTensor linear_tensor(Side *s, const char *name, int64_t width)
{
    return side_input(s, name, (TideShape){ 3, { s->size[0], s->size[1], width } });
}

static TideTensor linear_weight(Side *s)
{
    return side_parameter(s, "weight", (TideShape){ 2, { s->size[3], s->size[2] } });
}

static void build_linear(Side *s, bool bias)
{
    TideTensor x = linear_tensor(s, "x", s->size[2]), dy = linear_tensor(s, "dy", s->size[3]);
    TideTensor weight = linear_weight(s);
    TideTensor b = bias ? side_parameter(s, "bias", (TideShape){ 1, { s->size[3] } }) : none;
    TideRows all = { 0 };

    tide_linear(s->g, x, weight, b, all);
    tide_linear_dx(s->g, dy, weight, x, none, all);
    tide_linear_dw(s->g, x, dy, weight, b, all);
}

static void build_with_bias(Side *s)
{
    build_linear(s, true);
}

static void build_without_bias(Side *s)
{
    build_linear(s, false);
}

/* Three blocks of rows, as the loss takes them: outputs are gradients at once, dx is a chain of blocks
 * and dweight a sum over them. */
static void build_blocks(Side *s)
{
    TideTensor x = linear_tensor(s, "x", s->size[2]);
    TideTensor weight = linear_weight(s), dx = none;
    int64_t rows = s->size[0] * s->size[1], count = (rows + 2) / 3;

    for (int64_t first = 0; first < rows; first += count) {
        TideRows block = { .count = first + count < rows ? count : rows - first, .x_first = first };
        TideTensor y = tide_linear(s->g, x, weight, none, block);
        dx = tide_linear_dx(s->g, y, weight, x, dx, block);
        tide_linear_dw(s->g, x, y, weight, none, block);
    }
    tide_backward(s->g, x, dx); /* nothing is behind x: it only rounds the sum of dweight */
}

/* ---- Attention: sizes are B, T, heads, head_dim -------------------------------------- */

static void build_attention(Side *s, TideAttention a)
{
    int64_t width = (int64_t)(a.heads + 2 * a.kv_heads) * a.head_dim;
    TideShape o_shape = { 3, { s->size[0], s->size[1], (int64_t)a.heads * a.head_dim } };
    TideTensor qkv = side_input(s, "qkv", (TideShape){ 3, { s->size[0], s->size[1], width } });
    TideTensor info = a.dropout > 0 ? side_info(s) : none, d_o = side_input(s, "do", o_shape);
    TideTensor o = tide_attention(s->g, qkv, info, a);

    tide_attention_grad(s->g, qkv, o, graph_sibling(s->g, o, 1), info, d_o, a);
}

static TideAttention heads_of(const Side *s)
{
    return (
        TideAttention){ .heads = (int)s->size[2], .kv_heads = (int)s->size[2], .head_dim = (int)s->size[3] };
}

static void build_heads(Side *s)
{
    build_attention(s, heads_of(s));
}

/* Keys shared by three or five heads, where that many there are. */
static void build_groups(Side *s)
{
    TideAttention a = heads_of(s);

    a.kv_heads = a.heads % 5 == 0 ? a.heads / 5 : a.heads % 3 == 0 ? a.heads / 3 : a.heads;
    build_attention(s, a);
}

static void build_dropped(Side *s)
{
    TideAttention a = heads_of(s);

    a.dropout = 0.2f;
    a.site = 3;
    a.count = 1; /* sequence by sequence: the keys of dropout must not notice */
    build_attention(s, a);
}

static void build_by_sequence(Side *s)
{
    TideAttention a = heads_of(s);

    a.count = 1;
    build_attention(s, a);
}

static const int64_t linear_sizes[][SIDE_SIZES] = {
    { 1, 1, 8, 16 },       { 1, 2, 16, 2 },       { 3, 17, 24, 7 },
    { 1, 63, 64, 257 },    { 3, 64, 80, 96 },     { 1, 65, 200, 1000 },
    { 3, 127, 128, 75 },   { 1, 129, 1600, 511 }, { 1, 1025, 768, 2304 },
    { 1, 17, 75, 50257 },  { 3, 3, 96, 50304 },   { 1, 65, 64, 128256 },
    { 3, 1025, 100, 300 }, { 1, 63, 1, 1 },       { 0 }
};

static const int64_t attention_sizes[][SIDE_SIZES] = {
    { 1, 1, 1, 8 },     { 3, 2, 3, 16 },   { 1, 17, 25, 64 }, { 3, 63, 3, 80 },    { 1, 64, 1, 96 },
    { 3, 65, 25, 128 }, { 1, 127, 3, 64 }, { 3, 129, 3, 8 },  { 1, 1025, 25, 64 }, { 3, 1025, 3, 128 },
    { 1, 129, 1, 256 }, { 1, 65, 3, 72 },  { 1, 63, 1, 5 },   { 3, 64, 5, 32 },    { 0 }
};

static const AgreeDense cases[] = {
    { { "linear", build_with_bias, 1 }, linear_sizes, false, NULL, NULL },
    { { "linear, bias gradient fused", build_with_bias, 1 }, linear_sizes, false, "bias_grad", "fused" },
    { { "linear, bias gradient apart", build_with_bias, 1 }, linear_sizes, false, "bias_grad", "apart" },
    { { "linear without bias", build_without_bias, 1 }, linear_sizes, false, NULL, NULL },
    { { "linear in blocks of rows", build_blocks, 0.25 }, linear_sizes, false, NULL, NULL },
    { { "attention", build_heads, 0.5 }, attention_sizes, true, NULL, NULL },
    { { "attention by cuDNN", build_heads, 0.5 }, attention_sizes, true, "attention", "cudnn" },
    { { "grouped attention by cuDNN", build_groups, 0.5 }, attention_sizes, true, "attention", "cudnn" },
    { { "attention by sequence, cuDNN", build_by_sequence, 0.5 },
      attention_sizes,
      true,
      "attention",
      "cudnn" },
    { { "attention by flash", build_heads, 0.5 }, attention_sizes, true, "attention", "flash" },
    { { "grouped attention by flash", build_groups, 0.5 }, attention_sizes, true, "attention", "flash" },
    { { "attention with dropout", build_dropped, 0.5 }, attention_sizes, true, NULL, NULL },
};
enum { N_CASES = sizeof cases / sizeof *cases };

const AgreeDense *agree_dense(int i)
{
    return i >= 0 && i < N_CASES ? &cases[i] : NULL;
}

bool agree_wish(Tide *t, const char *what, const char *wish)
{
    char *text = t->backend->numerics_save ? t->backend->numerics_save(t->device) : NULL;
    json_t *record = text ? json_loads(text, 0, NULL) : NULL;

    free(text);
    json_object_set_new(json_object_get(record, "choices"), what, json_string(wish));
    text = record ? json_dumps(record, 0) : NULL;
    bool good = text && !t->backend->numerics_load(t->device, text);
    free(text);
    json_decref(record);
    return good;
}
