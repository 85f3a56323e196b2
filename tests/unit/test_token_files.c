/* test_token_files.c - llm.c's token files: shards, samples, epochs, positions, and files that are unfit. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "models/text/loader.h"
#include "models/text/text.h"
#include "models/text/token_file.h"
#include "tests/support/scratch_folder.h"

static Tide *tide;

static void begin(void)
{
    scratch_folder_make();
    cr_assert(!tide_open("cpu", (TideDeviceOptions){ 0 }, &tide), "cpu: %s", tide_message(tide));
}

static void end(void)
{
    tide_close(tide);
    scratch_folder_remove();
}

TestSuite(token_files, .init = begin, .fini = end);

/* ---- Files ---------------------------------------------------------------- */

/* What a file's header says, and the tokens that follow: first, first + 1, ... */
typedef struct File {
    int32_t magic, version, count; /* count 0: n */
    int32_t n, first;
    int width;
} File;

static size_t make_file(File f, unsigned char *to)
{
    int32_t header[256] = { f.magic, f.version, f.count ? f.count : f.n };

    memcpy(to, header, sizeof header);
    for (int32_t i = 0; i < f.n; i++) {
        uint32_t wide = (uint32_t)(f.first + i);
        uint16_t narrow = (uint16_t)wide;
        memcpy(to + 1024 + i * f.width, f.width == 2 ? (void *)&narrow : (void *)&wide, (size_t)f.width);
    }
    return 1024 + (size_t)f.n * (size_t)f.width;
}

static void write_bytes(const char *name, const unsigned char *bytes, size_t n)
{
    char path[64];

    snprintf(path, sizeof path, "%s/%s", scratch_folder(), name);
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(bytes, 1, n, f) == n && !fclose(f));
}

static unsigned char buffer[1 << 16];

static void write_file(const char *name, int32_t n, int32_t first)
{
    write_bytes(name, buffer, make_file((File){ 20240520, 1, 0, n, first, 2 }, buffer));
}

/* Open pattern below the scratch_folder(), and validate on v.bin. */
static TideStatus open_at(const char *pattern, const char *validate, int window, int vocab, Text **out)
{
    char train[64], other[64];
    TextSource source = { train, validate ? other : NULL, NULL, window, vocab };

    snprintf(train, sizeof train, "%s/%s", scratch_folder(), pattern);
    snprintf(other, sizeof other, "%s/%s", scratch_folder(), validate ? validate : "");
    return text_open(tide, source, out);
}

static Text *open_good(const char *pattern, const char *validate, int window)
{
    Text *x = NULL;

    cr_assert(!open_at(pattern, validate, window, 65536, &x), "%s", tide_message(tide));
    return x;
}

Test(token_files, shards_stand_in_the_order_of_their_names)
{
    write_file("b_2.bin", 100, 1000);
    write_file("b_1.bin", 50, 0);
    write_file("v.bin", 20, 7);
    Text *x = open_good("b_*.bin", "v.bin", 10);
    cr_expect_eq(x->train.n, 2);
    cr_expect_eq(x->train.shards[0].n, 50);
    cr_expect_eq(token_at(x->train.shards[1], 99), 1099);
    cr_expect_eq(part_windows(x->train, 10), 41 + 91);
    Place p = part_window(x->train, 10, 41);
    cr_expect(p.start == 0 && token_at(p.shard, 0) == 1000, "no window reaches from one shard into the next");
    cr_expect_null(x->tokenizer);
    text_free(x);
}

Test(token_files, the_last_tenth_of_all_shards_validates)
{
    write_file("a.bin", 60, 0);
    write_file("b.bin", 140, 60);
    Text *x = open_good("?.bin", NULL, 10);
    cr_expect_eq(part_tokens(x->train), 180);
    cr_expect_eq(part_tokens(x->validate), 20);
    cr_expect_eq(token_at(x->validate.shards[0], 0), 180);
    cr_expect_eq(token_at(x->train.shards[1], 119), 179);
    text_free(x);
}

Test(token_files, both_widths_are_read)
{
    write_bytes("w.bin", buffer, make_file((File){ 20240801, 7, 0, 30, 100000, 4 }, buffer));
    Text *x = NULL;
    cr_assert(!open_at("w.bin", "w.bin", 10, 100030, &x), "%s", tide_message(tide));
    cr_expect_eq(token_at(x->train.shards[0], 29), 100029, "the largest token of the vocabulary is one");
    text_free(x);
    cr_expect_eq(open_at("w.bin", "w.bin", 10, 100029, &x), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(tide), "token 29 is 100029") && strstr(tide_message(tide), "100030"), "%s",
              tide_message(tide));
}

/* ---- Samples -------------------------------------------------------------- */

static ModelConfig config_for(int batch, int accum)
{
    ModelConfig c;

    cr_assert(model_preset("gpt-char", &c));
    c.seq = 4;
    c.batch = batch;
    c.accum = accum;
    return c;
}

static Loader *start(const ModelConfig *c, const Text *x, DataPosition at)
{
    Loader *l = NULL;

    cr_assert(!loader_new(tide, c, (LoaderStart){ x->train, at }, &l), "%s", tide_message(tide));
    return l;
}

/* llm.c's rule: of n tokens (n - 1) / (batch * seq) samples, side by side; all once an epoch; the rows of a
 * sample, and the micro-steps of an update, side by side too. */
Test(token_files, an_epoch_holds_every_sample_once)
{
    enum { SAMPLE = 3 * 2 * 4 };
    ModelConfig c = config_for(3, 2);
    int in_order = 0;

    write_file("a.bin", 5 * SAMPLE + 1, 0); /* tokens tell where they stand */
    write_file("b.bin", 6 * SAMPLE, 10000); /* one token too few for a sixth */
    write_file("v.bin", 20, 0);
    Text *x = open_good("[ab].bin", "v.bin", 5);
    cr_assert_eq(config_epoch(&c, x->train), 10);
    Loader *l = start(&c, x, (DataPosition){ .seed = 3 });
    for (int epoch = 0; epoch < 3; epoch++) {
        int seen[10] = { 0 };
        for (int i = 0; i < 10; i++) {
            const StepData *d = loader_next(l);
            const int32_t *tokens = d->tokens;
            int sample = tokens[0] < 10000 ? tokens[0] / SAMPLE : 5 + (tokens[0] - 10000) / SAMPLE;
            seen[sample]++;
            in_order += sample == i;
            for (int j = 0; j < SAMPLE; j++) {
                cr_assert_eq(tokens[j], tokens[0] + j);
                cr_assert_eq(d->targets[j], tokens[0] + j + 1);
            }
            cr_expect_eq(d->next.epoch, i == 9 ? epoch + 1 : epoch);
            cr_expect_eq(d->next.sample, (i + 1) % 10);
        }
        for (int i = 0; i < 10; i++)
            cr_expect_eq(seen[i], 1, "epoch %d saw sample %d %d times", epoch, i, seen[i]);
    }
    cr_expect(in_order < 12, "%d of 30 samples stood where they stand in the files", in_order);
    loader_free(l);
    text_free(x);
}

/* However an update is cut into micro-steps, it sees the same. */
Test(token_files, accumulation_sees_the_same_samples)
{
    ModelConfig whole = config_for(6, 1), cut = config_for(2, 3);

    write_file("a.bin", 1000, 0);
    Text *x = open_good("a.bin", NULL, 5);
    Loader *a = start(&whole, x, (DataPosition){ .seed = 3 }),
           *b = start(&cut, x, (DataPosition){ .seed = 3 });
    for (int i = 0; i < 80; i++) {
        const StepData *u = loader_next(a), *v = loader_next(b);
        cr_expect_arr_eq(u->tokens, v->tokens, 6 * 4 * sizeof(int32_t));
        cr_expect_arr_eq(u->targets, v->targets, 6 * 4 * sizeof(int32_t));
    }
    loader_free(a);
    loader_free(b);
    text_free(x);
}

/* A position that was saved in the middle of an epoch goes on with what would have come. */
static void go_on_from_everywhere(const char *name)
{
    ModelConfig c = config_for(2, 1);
    Text *x = open_good(name, NULL, 5);
    Loader *l = start(&c, x, (DataPosition){ .seed = 11 });
    DataPosition saved = { .seed = 11 };

    for (int i = 0; i < 60; i++) {
        Loader *again = start(&c, x, saved);
        const StepData *want = loader_next(l), *got = loader_next(again);
        cr_expect_eq(got->step, i);
        cr_expect_arr_eq(got->tokens, want->tokens, 8 * sizeof(int32_t), "step %d of %s", i, name);
        cr_expect(!memcmp(&got->next, &want->next, sizeof saved));
        saved = want->next;
        loader_free(again);
    }
    loader_free(l);
    text_free(x);
}

Test(token_files, a_saved_position_goes_on)
{
    write_file("a.bin", 200, 0);
    write_bytes("a.txt",
                (const unsigned char *)"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", 62);
    go_on_from_everywhere("a.bin");
    go_on_from_everywhere("a.txt");
}

Test(token_files, positions_outside_the_data_are_refused)
{
    static const DataPosition outside[] = {
        { 1, 0, 0, 22 }, { 1, 0, 0, -1 }, { 1, 0, -1, 0 }, { 1, -1, 0, 0 }
    };
    ModelConfig c = config_for(2, 1);

    write_file("a.bin", 200, 0); /* 180 train: 22 samples of 8 */
    Text *x = open_good("a.bin", NULL, 5);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(loader_check(tide, &c, (LoaderStart){ x->train, outside[i] }), TIDE_BAD_FILE,
                     "position %d", i);
    cr_expect(!loader_check(tide, &c, (LoaderStart){ x->train, { 1, 0, 0, 21 } }), "%s", tide_message(tide));
    text_free(x);
}

/* A header and exactly batch * seq + 1 tokens are one sample; one token fewer is none. */
Test(token_files, one_sample_is_enough)
{
    ModelConfig c = config_for(2, 1);

    write_file("a.bin", 9, 0);
    write_file("b.bin", 8, 0);
    Text *x = open_good("a.bin", "a.bin", 5);
    cr_expect(!loader_check(tide, &c, (LoaderStart){ .part = x->train }), "%s", tide_message(tide));
    cr_expect_eq(config_epoch(&c, x->train), 1);
    text_free(x);
    x = open_good("b.bin", "a.bin", 5);
    cr_expect_eq(loader_check(tide, &c, (LoaderStart){ .part = x->train }), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(tide), "8 tokens") && strstr(tide_message(tide), "need 9"), "%s",
              tide_message(tide));
    text_free(x);
}

Test(token_files, a_shuffle_is_a_permutation)
{
    for (int64_t n = 1; n < 300; n += n < 20 ? 1 : 31) {
        for (int64_t round = 0; round < 4; round++) {
            int seen[300] = { 0 };
            for (int64_t i = 0; i < n; i++) seen[shuffled(5, round, i, n)]++;
            for (int64_t i = 0; i < n; i++) cr_assert_eq(seen[i], 1, "n %d, number %d", (int)n, (int)i);
        }
    }
    int same = 0;
    for (int i = 0; i < 1000; i++) same += shuffled(5, 0, i, 1000) == shuffled(5, 1, i, 1000);
    cr_expect(same < 12, "two epochs put %d of 1000 samples in the same place", same);
}

/* Offsets beyond 32 bits: a shard of more samples than those count. */
Test(token_files, offsets_have_64_bits)
{
    Part p = { (Tokens[]){ { NULL, INT32_MAX, 2 }, { NULL, INT32_MAX, 2 }, { NULL, INT32_MAX, 2 } }, 3,
               true };
    int64_t n = part_samples(p, 1), most = 0;

    cr_expect_eq(n, 3 * ((int64_t)INT32_MAX - 1));
    for (int64_t i = 0; i < 1000; i++) {
        int64_t at = shuffled(9, 0, i, n);
        cr_assert(at >= 0 && at < n);
        if (at > most) most = at;
    }
    cr_expect(most > (int64_t)UINT32_MAX, "%lld", (long long)most);
}

/* ---- Unfit files ---------------------------------------------------------- */

static void expect_unfit(File f, size_t more, const char *says)
{
    Text *x = NULL;
    size_t n = make_file(f, buffer);

    memset(buffer + n, 0, more);
    write_bytes("x.bin", buffer, n + more);
    cr_expect_eq(open_at("x.bin", NULL, 5, 1000, &x), TIDE_BAD_FILE, "%s was not refused", says);
    cr_expect_null(x);
    cr_expect(strstr(tide_message(tide), says), "'%s' is not in: %s", says, tide_message(tide));
}

Test(token_files, unfit_headers_are_refused)
{
    expect_unfit((File){ 20240520, 1, 101, 100, 0, 2 }, 0,
                 "has 1224 bytes, but 101 tokens of 2 bytes after a header "
                 "of 1024 take 1226: the file is cut short");
    expect_unfit((File){ 20240520, 1, 99, 100, 0, 2 }, 0, "the file is too long");
    expect_unfit((File){ 20240520, 1, 0, 100, 0, 2 }, 1, "the file is too long");
    expect_unfit((File){ 20240520, 1, INT32_MAX, 100, 0, 2 }, 0, "cut short");
    expect_unfit((File){ 20240520, 1, -5, 100, 0, 2 }, 0, "counts -5 tokens");
    expect_unfit((File){ 20240520, 1, 0, 0, 0, 2 }, 0, "counts 0 tokens");
    expect_unfit((File){ 20240520, 2, 0, 100, 0, 2 }, 0, "is of version 2; version 1");
    expect_unfit((File){ 20240801, 1, 0, 100, 0, 4 }, 0, "is of version 1; version 7");
    expect_unfit((File){ 20240522, 1, 0, 100, 0, 2 }, 0, "questions for an evaluation");
    expect_unfit((File){ 20240326, 3, 0, 100, 0, 2 }, 0, "a GPT-2 checkpoint");
    expect_unfit((File){ 77, 1, 0, 100, 0, 2 }, 0, "begins with 77");
    expect_unfit((File){ 20240520, 1, 0, 100, 950, 2 }, 0, "token 50 is 1000 (the largest is 1049)");
    expect_unfit((File){ 20240801, 7, 0, 100, -7, 4 }, 0, "token 0 is 4294967289");
}

Test(token_files, short_and_missing_files_are_refused)
{
    Text *x = NULL;

    write_file("a.bin", 30, 0);
    cr_expect_eq(open_at("none_*.bin", NULL, 5, 1000, &x), TIDE_IO);
    cr_expect(strstr(tide_message(tide), "none_*.bin: there is no such file"), "%s", tide_message(tide));
    cr_expect_eq(open_at("a.bin", NULL, 10, 1000, &x), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(tide), "3 of 30 tokens"), "%s", tide_message(tide));
    write_bytes("w.bin", buffer, make_file((File){ 20240801, 7, 0, 30, 0, 4 }, buffer));
    cr_expect_eq(open_at("[aw].bin", NULL, 5, 1000, &x), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(tide), "tokens of 4 bytes") && strstr(tide_message(tide), "tokens of 2"),
              "%s", tide_message(tide));
    write_bytes("e.bin", buffer, 0);
    cr_expect_eq(open_at("e.bin", NULL, 5, 1000, &x), TIDE_BAD_FILE);
    cr_expect_eq(open_at("../..", NULL, 5, 1000, &x), TIDE_IO);
}

/* Cut at any byte a file is refused; with any bit of its header turned too, but where nobody looks. */
Test(token_files, damaged_files_are_refused)
{
    static unsigned char whole[4096];
    size_t n = make_file((File){ 20240520, 1, 0, 100, 0, 2 }, whole);
    Text *x = NULL;

    for (size_t at = 0; at < n; at += at < 20 || at > 1000 ? 1 : 37) {
        write_bytes("x.bin", whole, at);
        cr_expect_eq(open_at("x.bin", NULL, 5, 1000, &x), TIDE_BAD_FILE, "cut at byte %zu", at);
    }
    for (size_t bit = 0; bit < 12 * 8; bit++) {
        whole[bit / 8] ^= (unsigned char)(1 << bit % 8);
        write_bytes("x.bin", whole, n);
        cr_expect_eq(open_at("x.bin", NULL, 5, 1000, &x), TIDE_BAD_FILE, "bit %zu", bit);
        whole[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}
