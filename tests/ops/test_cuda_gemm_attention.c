/* test_cuda_gemm_attention.c - linear layers and attention on a GPU against the CPU's kernels, in all
 * types and at odd sizes, by each engine that there is; skipped where there is no GPU. What is checked
 * besides the numbers (same bits again, nothing written outside): see agreement.h. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- Cases ----------------------------------------------------------------------------- */

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

/* What a wish in the numerics record is for; none: the fastest is chosen. */
typedef struct Case {
    AgreeCase agree;
    const int64_t (*sizes)[SIDE_SIZES]; /* past the last: zeros */
    const char *what, *wish;
} Case;

static const Case cases[] = {
    { { "linear", build_with_bias, 1, false }, linear_sizes, NULL, NULL },
    { { "linear, bias gradient fused", build_with_bias, 1, false }, linear_sizes, "bias_grad", "fused" },
    { { "linear, bias gradient apart", build_with_bias, 1, false }, linear_sizes, "bias_grad", "apart" },
    { { "linear without bias", build_without_bias, 1, false }, linear_sizes, NULL, NULL },
    { { "linear in blocks of rows", build_blocks, 0.25, false }, linear_sizes, NULL, NULL },
    { { "attention", build_heads, 0.5, false }, attention_sizes, NULL, NULL },
    { { "attention by cuDNN", build_heads, 0.5, false }, attention_sizes, "attention", "cudnn" },
    { { "grouped attention by cuDNN", build_groups, 0.5, false }, attention_sizes, "attention", "cudnn" },
    { { "attention by sequence, cuDNN", build_by_sequence, 0.5, false },
      attention_sizes,
      "attention",
      "cudnn" },
    { { "attention by flash", build_heads, 0.5, false }, attention_sizes, "attention", "flash" },
    { { "grouped attention by flash", build_groups, 0.5, false }, attention_sizes, "attention", "flash" },
    { { "attention with dropout", build_dropped, 0.5, false }, attention_sizes, NULL, NULL },
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* Each test has a cache of its own: a choice remembered from another would count as this one's. */
static Tide *open_gpu(void)
{
    const char *device = getenv("TIDE_TEST_DEVICE");
    char cache[] = "/tmp/tide-test-XXXXXX";
    Tide *t = NULL;

    if (mkdtemp(cache)) setenv("XDG_CACHE_HOME", cache, 1);
    if (!device || strcmp(device, "cpu") == 0) device = "cuda";
    if (!tide_open(device, (TideDeviceOptions){ 0 }, &t)) return t;
    fprintf(stderr, "%s: linear layers and attention on a GPU are not tested\n", tide_message(t));
    tide_close(t);
    return NULL;
}

/* Put a wish into the device's numerics record. */
static void make_wish(Tide *t, const char *what, const char *wish)
{
    char *text = t->backend->numerics_save(t->device);
    json_t *record = text ? json_loads(text, 0, NULL) : NULL;

    cr_assert(record);
    json_object_set_new(json_object_get(record, "choices"), what, json_string(wish));
    free(text);
    text = json_dumps(record, 0);
    cr_assert(text);
    cr_assert(!t->backend->numerics_load(t->device, text), "%s", t->backend->message(t->device));
    free(text);
    json_decref(record);
}

/* How many attention choices of the record begin with an engine's name. */
static int chosen(Tide *t, const char *engine)
{
    char *text = t->backend->numerics_save(t->device);
    json_t *record = text ? json_loads(text, 0, NULL) : NULL, *value;
    const char *key;
    int n = 0;

    cr_assert(record);
    json_object_foreach(json_object_get(record, "choices"), key, value)
    {
        bool counts = strncmp(key, "attention", 9) == 0 && strchr(key, ' ');
        n += counts && strncmp(json_string_value(value), engine, strlen(engine)) == 0;
    }
    free(text);
    json_decref(record);
    return n;
}

ParameterizedTestParameters(gpu, agrees_with_the_cpu)
{
    static int row[N_CASES];

    for (int i = 0; i < N_CASES; i++) row[i] = i;
    return cr_make_param_array(int, row, N_CASES);
}

ParameterizedTest(int *row, gpu, agrees_with_the_cpu)
{
    const Case *c = &cases[*row];
    Tide *t = open_gpu();
    char why[512] = "";

    if (!t) cr_skip_test("no GPU");
    if (c->wish) make_wish(t, c->what, c->wish);
    for (int k = 0; agree_types(k); k++)
        for (int i = 0; c->sizes[i][0]; i++) {
            const int64_t *n = c->sizes[i];
            cr_expect(agree(t, &c->agree, agree_types(k), n, why), "%s, %s, %d %d %d %d: %s", c->agree.name,
                      agree_types(k)->name, (int)n[0], (int)n[1], (int)n[2], (int)n[3], why);
        }
    bool has_cudnn = strstr(tide_versions(t), "cuDNN") != NULL;
    if (c->wish && strcmp(c->wish, "cudnn") == 0 && has_cudnn)
        cr_expect(chosen(t, "cudnn ") > 20, "cuDNN served %d shapes only", chosen(t, "cudnn "));
    if (c->wish && strcmp(c->wish, "flash") == 0)
        cr_expect(chosen(t, "cudnn ") == 0 && chosen(t, "flash") > 20, "flash was not chosen");
    tide_close(t);
}

/* ---- The numerics record ------------------------------------------------------------------ */

Test(gpu, honours_a_record_and_refuses_what_contradicts)
{
    const Case *c = &cases[0];
    Tide *t = open_gpu(), *other = NULL;
    char why[512] = "";

    if (!t) cr_skip_test("no GPU");
    cr_assert(agree(t, &c->agree, agree_types(1), linear_sizes[8], why), "%s", why);
    char *record = t->backend->numerics_save(t->device);
    cr_assert(record && strstr(record, "gemm bf16"));

    cr_assert(!tide_open("cuda", (TideDeviceOptions){ 0 }, &other), "%s", tide_message(other));
    cr_expect(!other->backend->numerics_load(other->device, record), "%s", tide_message(other));
    cr_expect(agree(other, &c->agree, agree_types(1), linear_sizes[8], why), "%s", why);
    char *again = other->backend->numerics_save(other->device);
    cr_expect(again && strstr(again, "gemm bf16"));

    char *word = strstr(record, "fused ");
    if (!word) word = strstr(record, "apart ");
    cr_assert(word);
    word[6] = word[6] == '1' ? '2' : '1';
    cr_expect_eq(t->backend->numerics_load(t->device, record), TIDE_BAD_FILE);
    cr_expect(strstr(t->backend->message(t->device), "already decided"), "%s",
              t->backend->message(t->device));
    cr_expect_eq(t->backend->numerics_load(t->device, "{}"), TIDE_BAD_FILE);
    free(record);
    free(again);
    tide_close(other);
    tide_close(t);
}
