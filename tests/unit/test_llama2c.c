/* test_llama2c.c - checkpoints of llama2.c: both orders of the same tensors, and what is refused. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "models/files/llama2c.h"
#include "models/files/model_files.h"
#include "tests/support/scratch_folder.h"

enum {
    DIM = 8,
    HIDDEN = 12,
    LAYERS = 2,
    HEADS = 4,
    KV_HEADS = 2,
    VOCAB = 10,
    SEQ = 6,
    KV = DIM / HEADS * KV_HEADS
};
enum { WQ, WK, WV, WO, W1, W2, W3, ATTENTION_NORM, FFN_NORM, NORM, EMBEDDING, HEAD, TABLES, N_PARTS };

/* Elements of each part, in all layers. */
static const int elements[N_PARTS] = { [WQ] = LAYERS * DIM * DIM,     [WK] = LAYERS * KV * DIM,
                                       [WV] = LAYERS * KV * DIM,      [WO] = LAYERS * DIM * DIM,
                                       [W1] = LAYERS * HIDDEN * DIM,  [W2] = LAYERS * DIM * HIDDEN,
                                       [W3] = LAYERS * HIDDEN * DIM,  [ATTENTION_NORM] = LAYERS * DIM,
                                       [FFN_NORM] = LAYERS * DIM,     [NORM] = DIM,
                                       [EMBEDDING] = VOCAB * DIM,     [HEAD] = VOCAB * DIM,
                                       [TABLES] = SEQ * (DIM / HEADS) };
static const int order_v0[] = { EMBEDDING, ATTENTION_NORM, WQ,     WK,  WV, WO, FFN_NORM, W1, W2,
                                W3,        NORM,           TABLES, HEAD };
static const int order_v1[] = { ATTENTION_NORM, FFN_NORM, NORM, EMBEDDING, WQ, WK, WV, WO, W1, W2, W3, HEAD };

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

TestSuite(llama2c, .init = begin, .fini = end, .timeout = 120);

/* Element i of a part is 1000 * part + i. */
static void write_parts(FILE *f, const int *order, int n)
{
    for (int p = 0; p < n; p++)
        for (int i = 0; i < elements[order[p]]; i++) {
            float x = (float)(1000 * order[p] + i);
            fwrite(&x, sizeof x, 1, f);
        }
}

/* sizes NULL: the usual ones. A tied file ends before the head. */
static void write_v0(const char *path, const int32_t *sizes, bool tied)
{
    const int32_t usual[7] = { DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, tied ? VOCAB : -VOCAB, SEQ };
    FILE *f = fopen(path, "wb");

    cr_assert(f);
    fwrite(sizes ? sizes : usual, sizeof *usual, 7, f);
    write_parts(f, order_v0, tied ? 12 : 13);
    fclose(f);
}

static void write_v1(const char *path, int32_t version, bool tied)
{
    const int32_t head[9] = { 0x616b3432, version, DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, SEQ };
    unsigned char rest[256 - sizeof head] = { tied };
    FILE *f = fopen(path, "wb");

    cr_assert(f);
    fwrite(head, sizeof head, 1, f);
    fwrite(rest, sizeof rest, 1, f);
    write_parts(f, order_v1, tied ? 11 : 12);
    fclose(f);
}

/* The first number of a tensor is the one that its place in its part says; its shape and pairing too. */
static void expect_tensor(const StoredList *s, const char *name, const Stored *like, int first)
{
    Stored *x = stored_find(s, name);
    float value = 0;

    cr_assert(x, "%s", name);
    cr_expect(x->n_dims == like->n_dims && x->dim[0] == like->dim[0] && x->dim[1] == like->dim[1], "%s",
              name);
    cr_expect_eq(x->pairs, like->pairs, "%s", name);
    cr_assert(!stored_read(s, x, 1, 1, &value), "%s", tide_message(tide));
    cr_expect_eq(value, (float)(first + 1), "%s: %g", name, (double)value);
}

static void expect_all(const char *path, bool tied)
{
    const Stored square = { .n_dims = 2, .dim = { DIM, DIM } }, up = { .n_dims = 2, .dim = { HIDDEN, DIM } };
    const Stored vector = { .n_dims = 1, .dim = { DIM } }, down = { .n_dims = 2, .dim = { DIM, HIDDEN } };
    const Stored classes = { .n_dims = 2, .dim = { VOCAB, DIM } }, v = { .n_dims = 2, .dim = { KV, DIM } };
    Stored q = square, k = v;
    StoredList *s;

    q.pairs = k.pairs = DIM / HEADS;
    cr_assert(!stored_open(tide, path, &s), "%s", tide_message(tide));
    cr_expect_eq(s->n, (size_t)(LAYERS * 9 + 2 + !tied));
    expect_tensor(s, "model.embed_tokens.weight", &classes, 1000 * EMBEDDING);
    expect_tensor(s, "model.norm.weight", &vector, 1000 * NORM);
    expect_tensor(s, "model.layers.1.input_layernorm.weight", &vector, 1000 * ATTENTION_NORM + DIM);
    expect_tensor(s, "model.layers.1.post_attention_layernorm.weight", &vector, 1000 * FFN_NORM + DIM);
    expect_tensor(s, "model.layers.0.self_attn.q_proj.weight", &q, 1000 * WQ);
    expect_tensor(s, "model.layers.1.self_attn.k_proj.weight", &k, 1000 * WK + KV * DIM);
    expect_tensor(s, "model.layers.1.self_attn.v_proj.weight", &v, 1000 * WV + KV * DIM);
    expect_tensor(s, "model.layers.1.self_attn.o_proj.weight", &square, 1000 * WO + DIM * DIM);
    expect_tensor(s, "model.layers.1.mlp.gate_proj.weight", &up, 1000 * W1 + HIDDEN * DIM);
    expect_tensor(s, "model.layers.1.mlp.down_proj.weight", &down, 1000 * W2 + HIDDEN * DIM);
    expect_tensor(s, "model.layers.1.mlp.up_proj.weight", &up, 1000 * W3 + HIDDEN * DIM);
    if (!tied) expect_tensor(s, "lm_head.weight", &classes, 1000 * HEAD);
    stored_close(s);
}

Test(llama2c, both_versions_hold_the_same_tensors)
{
    for (int tied = 0; tied < 2; tied++) {
        write_v0(in_folder("v0.bin"), NULL, tied);
        write_v1(in_folder("v1.bin"), 1, tied);
        expect_all(in_folder("v0.bin"), tied);
        expect_all(in_folder("v1.bin"), tied);
    }
}

Test(llama2c, the_header_is_the_configuration)
{
    ModelConfig c;

    write_v0(in_folder("v0.bin"), NULL, false);
    cr_assert(model_files_are(in_folder("v0.bin")));
    cr_assert(!model_files_config(tide, in_folder("v0.bin"), &c), "%s", tide_message(tide));
    cr_expect(c.width == DIM && c.inner == HIDDEN && c.layers == LAYERS && c.heads == HEADS && c.untied);
    cr_expect(c.kv_heads == KV_HEADS && c.vocab == VOCAB && c.seq == SEQ && c.positions == SEQ);
    cr_expect(c.rope.theta == 10000 && c.norm_eps == 1e-5 && c.rope.scheme == ROPE_PLAIN);
    cr_expect_str_eq(c.family, "llama");
}

static void expect_refusal(const char *path, const char *words)
{
    char copy[256], *rest;
    Llama2c h;

    cr_expect_eq(llama2c_header(tide, path, &h), TIDE_BAD_FILE, "%s", words);
    snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok_r(copy, "|", &rest); w; w = strtok_r(NULL, "|", &rest))
        cr_expect(strstr(tide_message(tide), w), "'%s' is not in: %s", w, tide_message(tide));
}

Test(llama2c, what_cannot_be_is_refused_with_its_numbers)
{
    static const struct {
        int32_t sizes[7];
        const char *words;
    } cases[] = {
        { { 0, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, SEQ }, "dim is 0" },
        { { -8, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, SEQ }, "dim is -8" },
        { { INT32_MAX, INT32_MAX, LAYERS, HEADS, KV_HEADS, VOCAB, SEQ }, "dim is 2147483647" },
        { { DIM, HIDDEN, 5000, HEADS, KV_HEADS, VOCAB, SEQ }, "n_layers is 5000" },
        { { DIM, HIDDEN, LAYERS, 3, KV_HEADS, VOCAB, SEQ }, "n_heads 3" },
        { { DIM, HIDDEN, LAYERS, HEADS, 3, VOCAB, SEQ }, "n_kv_heads 3" },
        { { DIM, HIDDEN, LAYERS, 8, 8, VOCAB, SEQ }, "even" },
        { { DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, INT32_MIN, SEQ }, "vocab_size is -2147483648" },
        { { DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB + 1, SEQ }, "vocabulary of 11 has" },
        { { DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, 0 }, "seq_len is 0" },
    };
    struct stat facts;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_v0(in_folder("bad.bin"), cases[i].sizes, true);
        expect_refusal(in_folder("bad.bin"), cases[i].words);
    }
    write_v1(in_folder("bad.bin"), 2, true);
    expect_refusal(in_folder("bad.bin"), "version 2|0 and 1");
    write_v0(in_folder("bad.bin"), NULL, true);
    cr_assert(!stat(in_folder("bad.bin"), &facts) && !truncate(in_folder("bad.bin"), facts.st_size - 1));
    expect_refusal(in_folder("bad.bin"), "it has|bytes|version 0");
    cr_assert(!truncate(in_folder("bad.bin"), 20));
    expect_refusal(in_folder("bad.bin"), "20 bytes");
}

/* Whatever the header says, every tensor that is told lies inside the file. */
Test(llama2c, a_flipped_bit_leads_nowhere)
{
    struct stat facts;

    write_v1(in_folder("v1.bin"), 1, true);
    cr_assert(!stat(in_folder("v1.bin"), &facts));
    for (int bit = 0; bit < 37 * 8; bit++) {
        FILE *f = fopen(in_folder("v1.bin"), "r+b");
        StoredList *s;
        cr_assert(f && !fseek(f, bit / 8, SEEK_SET));
        int byte = fgetc(f);
        cr_assert(!fseek(f, bit / 8, SEEK_SET));
        fputc(byte ^ 1 << bit % 8, f);
        fclose(f);
        if (!stored_open(tide, in_folder("v1.bin"), &s)) {
            for (size_t i = 0; i < s->n; i++) {
                const Stored *x = &s->tensors[i];
                int64_t n = x->dim[0] * (x->n_dims > 1 ? x->dim[1] : 1);
                cr_expect_leq(x->offset + 4 * n, facts.st_size, "bit %d, %s", bit, x->name);
            }
            stored_close(s);
        }
        write_v1(in_folder("v1.bin"), 1, true);
    }
}

Test(llama2c, stories260K_is_one)
{
    const char *data = getenv("TIDE_TEST_DATA");
    char path[1024];
    Llama2c h;

    snprintf(path, sizeof path, "%s/ckpt/stories260K/stories260K.bin", data ? data : "");
    if (access(path, R_OK)) cr_skip_test("TIDE_TEST_DATA holds no stories260K");
    cr_assert(!llama2c_header(tide, path, &h), "%s", tide_message(tide));
    cr_expect(h.version == 0 && h.dim == 64 && h.hidden == 172 && h.layers == 5 && h.heads == 8 &&
              h.kv_heads == 4);
    cr_expect(h.vocab == 512 && h.seq == 512 && h.shared);
}
