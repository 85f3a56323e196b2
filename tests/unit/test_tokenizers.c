/* test_tokenizers.c - tokenizers against published tokens, and files that are unfit. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "models/text/bpe.h"
#include "models/text/token_file.h"
#include "models/text/tokenizer.h"
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

TestSuite(tokenizers, .init = begin, .fini = end);

/* A path below TIDE_TEST_DATA; skips the test without it. */
static const char *data_path(const char *name, char path[512])
{
    if (!getenv("TIDE_TEST_DATA")) cr_skip_test("set TIDE_TEST_DATA");
    snprintf(path, 512, "%s/%s", getenv("TIDE_TEST_DATA"), name);
    if (access(path, R_OK)) cr_skip_test("no %s", path);
    return path;
}

static Tokenizer *open_known(const char *name)
{
    char path[512];
    Tokenizer *k = NULL;

    cr_assert(!tokenizer_open(tide, data_path(name, path), &k), "%s", tide_message(tide));
    return k;
}

static void expect_tokens(Tokenizer *k, const char *text, size_t n, const int32_t *tokens, int64_t count)
{
    TokenList list = { 0 };

    cr_assert(!tokenizer_encode(tide, k, text, n, &list), "%s", tide_message(tide));
    cr_expect_eq(list.n, count, "'%.60s' has %lld tokens, not %lld", text, (long long)list.n,
                 (long long)count);
    for (int64_t i = 0; i < list.n && i < count; i++)
        cr_assert_eq(list.at[i], tokens[i], "'%.60s': token %lld is %d, not %d", text, (long long)i,
                     list.at[i], tokens[i]);
    token_list_free(&list);
}

/* What is decoded must be what was encoded; a mark is said by no bytes. */
static void expect_back(Tokenizer *k, const char *text, size_t n)
{
    TokenList list = { 0 };
    size_t at = 0, bytes;

    cr_assert(!tokenizer_encode(tide, k, text, n, &list), "%s", tide_message(tide));
    for (int64_t i = 0; i < list.n; i++) {
        const char *piece = tokenizer_piece(k, i ? list.at[i - 1] : k->begin, list.at[i], &bytes);
        cr_assert(at + bytes <= n && !memcmp(piece, text + at, bytes), "token %lld at byte %zu", (long long)i,
                  at);
        at += bytes;
    }
    cr_expect_eq(at, n);
    token_list_free(&list);
}

/* ---- GPT-2 ---------------------------------------------------------------- */

/* "[1, 22, 333]" as numbers; how many. */
static int64_t read_numbers(char *s, int32_t *to, int64_t most)
{
    int64_t n = 0;

    while (*s && n < most) {
        if (*s < '0' || *s > '9')
            s++;
        else
            to[n++] = (int32_t)strtol(s, &s, 10);
    }
    return n;
}

static void check_cases(FILE *f, Tokenizer *k, int *cases)
{
    static char text[1 << 14], encoded[1 << 14];
    static int32_t tokens[1 << 12];
    char *line = encoded;

    while (fgets(line, sizeof encoded, f)) {
        if (strncmp(line, "Sample: ", 8)) continue;
        strcpy(text, line + 8);
        text[strcspn(text, "\n")] = 0;
        cr_assert(fgets(line, sizeof encoded, f) && !strncmp(line, "Encoded: ", 9));
        expect_tokens(k, text, strlen(text), tokens, read_numbers(line, tokens, 1 << 12));
        expect_back(k, text, strlen(text));
        ++*cases;
    }
}

Test(tokenizers, gpt2_gives_the_known_tokens)
{
    char path[512];
    Tokenizer *k = open_known("gpt2");
    FILE *f = fopen(data_path("gpt2/r50k_base_cases.txt", path), "r");
    int cases = 0;

    cr_assert(f);
    cr_expect_eq(k->vocab, 50257);
    cr_expect_eq(k->begin, 50256);
    check_cases(f, k, &cases);
    cr_expect_eq(cases, 64);
    fclose(f);
    tokenizer_free(k);
}

/* Published with tiktoken. */
Test(tokenizers, gpt2_knows_marks_and_long_zeros)
{
    Tokenizer *k = open_known("gpt2");

    expect_tokens(k, "hello world", 11, (int32_t[]){ 31373, 995 }, 2);
    expect_tokens(k, "hello <|endoftext|>", 19, (int32_t[]){ 31373, 220, 50256 }, 3);
    expect_tokens(k, "0000000000000000", 16, (int32_t[]){ 25645 }, 1);
    expect_tokens(k, "00000000000000000", 17, (int32_t[]){ 8269, 10535, 830 }, 3);
    tokenizer_free(k);
}

static void expect_stream(const TokenList *list, int64_t first, const char *name)
{
    char path[512];
    Bytes map;
    Tokens known;

    cr_assert(!token_file_open(tide, data_path(name, path), 50257, &map, &known), "%s", tide_message(tide));
    cr_assert(first + known.n <= list->n);
    for (int64_t i = 0; i < known.n; i++)
        cr_assert_eq(list->at[first + i], token_at(known, i), "%s: token %lld", name, (long long)i);
    bytes_free(&map);
}

/* llm.c's recipe: a mark before each piece of a text, which ends with an empty line. */
Test(tokenizers, gpt2_makes_the_published_stream)
{
    char path[512];
    Tokenizer *k = open_known("gpt2");
    TokenList list = { 0 };
    Bytes text;

    cr_assert(!bytes_read(tide, data_path("tinyshakespeare.txt", path), &text), "%s", tide_message(tide));
    for (size_t at = 0, length; at < text.n; at += length) {
        const char *from = (const char *)text.at + at;
        for (length = 0; at + length < text.n && (length < 2 || memcmp(from + length - 2, "\n\n", 2));)
            length++;
        cr_assert(!token_list_add(tide, &list, 50256));
        cr_assert(!tokenizer_encode(tide, k, from, length, &list), "%s", tide_message(tide));
    }
    cr_expect_eq(list.n, 32768 + 305260);
    expect_stream(&list, 0, "llmc/tiny_shakespeare_val.bin");
    expect_stream(&list, 32768, "llmc/tiny_shakespeare_train.bin");
    token_list_free(&list);
    bytes_free(&text);
    tokenizer_free(k);
}

/* GPT-2's rule for words, alternative by alternative; "|" where the words part. */
Test(tokenizers, words_part_where_the_rule_says)
{
    static const char *const cases[] = {
        "it|'s| we|'ll|'|LL", "a| b|  | c",    "a|\n|\n|b",     "   | x",       "x|   ",      "12|ab|3|!?|x",
        " 12| !?| '|s",       "caf\xc3\xa9|!", "'\xe2\x82\xac", "a|\xc2\xa0|b", "\xd9\xa3|z", NULL
    };

    for (int i = 0; cases[i]; i++) {
        char text[64], parted[64] = "";
        size_t n = 0, length;
        for (const char *c = cases[i]; *c; c++)
            if (*c != '|') text[n++] = *c;
        text[n] = 0;
        for (size_t at = 0; at < n; at += length) {
            length = bpe_word((const unsigned char *)text + at, n - at);
            cr_assert(length > 0);
            if (at) strcat(parted, "|");
            strncat(parted, text + at, length);
        }
        cr_expect_str_eq(parted, cases[i]);
    }
}

/* ---- Files of our own ----------------------------------------------------- */

static const char *write_as(const char *name, const void *bytes, size_t n, char path[64])
{
    snprintf(path, 64, "%s/%s", scratch_folder(), name);
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(bytes, 1, n, f) == n && !fclose(f));
    return path;
}

/* A vocabulary of the printable bytes, some words and the mark, 6 words short of it where they are NULL. */
static size_t make_encoder(char *to, const char *const *words)
{
    size_t n = (size_t)sprintf(to, "{");
    int id = 0;

    for (int byte = 33; byte < 127; byte++)
        n += (size_t)sprintf(to + n, "\"%s%c\": %d, ", byte == '"' || byte == '\\' ? "\\" : "", byte, id++);
    for (int code = 256; code < 256 + 68; code++) /* the bytes that are not printable */
        n += (size_t)sprintf(to + n, "\"\\u%04x\": %d, ", (unsigned)code, id++);
    for (int code = 161; code < 256; code++)
        if (code != 173) n += (size_t)sprintf(to + n, "\"\\u%04x\": %d, ", (unsigned)code, id++);
    for (; *words; words++) n += (size_t)sprintf(to + n, "\"%s\": %d, ", *words, id++);
    return n + (size_t)sprintf(to + n, "\"<|endoftext|>\": %d}", id);
}

static const char *const words[] = { "ab", "aba", "bb", "\\u0120a", NULL };
static const char merges[] = "#version: 0.2\na b\nab a\nb b\n\xc4\xa0 a\n";

static TideStatus open_own(const char *encoder, size_t n_encoder, const char *lines, size_t n_lines,
                           Tokenizer **k)
{
    char a[64], b[64];

    write_as("encoder.json", encoder, n_encoder, a);
    write_as("vocab.bpe", lines, n_lines, b);
    return tokenizer_open(tide, scratch_folder(), k);
}

Test(tokenizers, merges_go_by_rank_and_from_the_left)
{
    static char encoder[1 << 14];
    size_t n = make_encoder(encoder, words);
    Tokenizer *k = NULL;
    int32_t a = 'a' - 33, b = 'b' - 33, ab = 256, aba = 257, bb = 258, space_a = 259;

    cr_assert(!open_own(encoder, n, merges, sizeof merges - 1, &k), "%s", tide_message(tide));
    cr_expect_eq(k->vocab, 261);
    expect_tokens(k, "ababa", 5, (int32_t[]){ ab, aba }, 2); /* by way of ab ab a */
    expect_tokens(k, "bbb", 3, (int32_t[]){ bb, b }, 2);
    expect_tokens(k, "a a", 3, (int32_t[]){ a, space_a }, 2);
    expect_tokens(k, "abb", 3, (int32_t[]){ ab, b }, 2);
    expect_back(k, "a\xff\xfe\x80 \xe2\x82", 8); /* no UTF-8 */
    tokenizer_free(k);
}

static void expect_unfit(const char *encoder, size_t n, const char *lines, const char *says)
{
    Tokenizer *k = NULL;

    cr_expect_eq(open_own(encoder, n, lines, strlen(lines), &k), TIDE_BAD_FILE, "%s was not refused", says);
    cr_expect_null(k);
    cr_expect(strstr(tide_message(tide), says), "'%s' is not in: %s", says, tide_message(tide));
}

Test(tokenizers, unfit_vocabularies_are_refused)
{
    static char encoder[1 << 14], other[1 << 14];
    size_t n = make_encoder(encoder, words);

    expect_unfit(encoder, n, "a b\nab ba\n", "line 2: the vocabulary has no 'ba'");
    expect_unfit(encoder, n, "ab a\na b\n", "line 1: no earlier line makes 'ab'");
    expect_unfit(encoder, n, "a b\na b\n", "line 2: an earlier line makes 'ab'");
    expect_unfit(encoder, n, "a b c\n", "line 1: must hold two parts");
    expect_unfit(encoder, n, "ab\n", "line 1: must hold two parts");
    expect_unfit(encoder, n, "#version: 0.2\n", "holds no merges");
    expect_unfit("{}", 2, merges, "has 0 tokens");
    expect_unfit("[1, 2]", 6, merges, "has 0 tokens");
    strcpy(other, encoder);
    memcpy(strstr(other, "\"ab\": 256"), "\"ab\": 257", 9);
    expect_unfit(other, n, merges, "is 257, as another entry is");
    strcpy(other, encoder);
    memcpy(strstr(other, "\"ab\": 256"), "\"ab\": 999", 9);
    expect_unfit(other, n, merges, "999");
    memcpy(strstr(strcpy(other, encoder), "<|endoftext|>"), "<|endoftexts>", 13);
    expect_unfit(other, n, merges, "<|endoftext|>");
}

/* Cut anywhere, and with any bit turned, files are read or refused, and what is read can be used. */
Test(tokenizers, damaged_vocabularies_do_no_harm)
{
    static char encoder[1 << 14], lines[64];
    size_t n = make_encoder(encoder, words), n_lines = sizeof merges - 1;

    for (size_t i = 0; i < 400; i++) {
        size_t at = i * n / 400, line_at = i % n_lines;
        Tokenizer *k = NULL;
        TokenList list = { 0 };
        memcpy(lines, merges, n_lines);
        cr_expect_eq(open_own(encoder, at, lines, n_lines, &k), TIDE_BAD_FILE, "cut at byte %zu", at);
        lines[line_at] = (char)(lines[line_at] ^ 1 << i % 8);
        encoder[at] = (char)(encoder[at] ^ 1 << i % 7);
        if (!open_own(encoder, n, i % 2 ? lines : merges, n_lines, &k)) {
            tokenizer_encode(tide, k, "ab abba <|endoftext|> it's", 26, &list);
            tokenizer_free(k);
        }
        encoder[at] = (char)(encoder[at] ^ 1 << i % 7);
        token_list_free(&list);
    }
}

/* ---- llama2.c ------------------------------------------------------------- */

Test(tokenizers, llama2c_gives_the_known_tokens)
{
    Tokenizer *k = open_known("ckpt/stories260K/tok512.bin");

    cr_expect_eq(k->vocab, 512);
    cr_expect_eq(k->begin, 1);
    expect_tokens(k, "", 0, NULL, 0);
    expect_tokens(k, "Once upon a time", 16, (int32_t[]){ 403, 407, 261, 378 }, 4);
    expect_tokens(k, "Timmy\nloved caf\xc3\xa9", 17,
                  (int32_t[]){ 405, 13, 421, 414, 396, 280, 412, 431, 485 }, 9);
    expect_back(k, "Once upon a time, there \xf0\x9f\x8c\x8d \xff\x80 was", 34);
    tokenizer_free(k);
}

/* 3 marks, 256 bytes, and pieces of ours: score, length, text each. */
static size_t make_pieces(unsigned char *to)
{
    static const struct {
        float score;
        const char *text;
    } ours[] = { { -1, " " }, { -2, "a" }, { -3, "b" }, { -4, "ab" }, { -3.5f, "ba" }, { -9, "aba" } };
    uint32_t longest = 7;
    size_t n = 4;

    memcpy(to, &longest, 4);
    for (int i = 0; i < 259 + 6; i++) {
        char name[16];
        float score = i < 259 ? 0 : ours[i - 259].score;
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)(i - 3) & 255);
        const char *text = i < 3     ? ((const char *[]){ "<unk>", "\n<s>\n", "\n</s>\n" })[i]
                           : i < 259 ? name
                                     : ours[i - 259].text;
        uint32_t length = (uint32_t)strlen(text);
        memcpy(to + n, &score, 4);
        memcpy(to + n + 4, &length, 4);
        memcpy(to + n + 8, text, length);
        n += 8 + length;
    }
    return n;
}

static TideStatus open_pieces(const unsigned char *bytes, size_t n, Tokenizer **k)
{
    char path[64];

    return tokenizer_open(tide, write_as("tokenizer.bin", bytes, n, path), k);
}

Test(tokenizers, pieces_merge_by_score)
{
    static unsigned char bytes[1 << 14];
    size_t n = make_pieces(bytes), length;
    Tokenizer *k = NULL;
    int32_t space = 259, a = 260, ab = 262, ba = 263, aba = 264;

    cr_assert(!open_pieces(bytes, n, &k), "%s", tide_message(tide));
    expect_tokens(k, "ab", 2, (int32_t[]){ space, ab }, 2);
    expect_tokens(k, "aba", 3, (int32_t[]){ space, aba }, 2); /* ba first: -3.5 against -4; then a and ba */
    expect_tokens(k, "aab\n", 4, (int32_t[]){ space, a, ab, 3 + '\n' }, 4);
    expect_tokens(k, "bab", 3, (int32_t[]){ space, ba, 261 }, 3);
    cr_expect_eq(*tokenizer_piece(k, 1, 3 + 'x', &length), 'x');
    cr_expect_eq(length, 1);
    tokenizer_piece(k, -1, 1, &length);
    cr_expect_eq(length, 0, "a mark is said by no bytes");
    tokenizer_free(k);
}

Test(tokenizers, unfit_pieces_are_refused)
{
    static unsigned char bytes[1 << 14], other[1 << 14];
    size_t n = make_pieces(bytes), refused = 0;
    Tokenizer *k = NULL;

    for (size_t at = 0; at < n; at++) {
        TokenList list = { 0 };
        if (open_pieces(bytes, at, &k))
            refused++;
        else
            tokenizer_free(k); /* it ends behind a piece of ours */
        memcpy(other, bytes, n);
        other[at] ^= (unsigned char)(1 << at % 8);
        if (open_pieces(other, n, &k)) continue;
        tokenizer_encode(tide, k, "ab abba\n\xff", 9, &list);
        token_list_free(&list);
        tokenizer_free(k);
    }
    cr_expect_eq(refused, n - 6);
    bytes[0] = 2;
    cr_expect_eq(open_pieces(bytes, n, &k), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(tide), "has 5 bytes, but the longest is said to have 2"), "%s",
              tide_message(tide));
}

/* ---- Others --------------------------------------------------------------- */

Test(tokenizers, other_kinds_are_refused_with_advice)
{
    char path[64];
    Tokenizer *k = NULL;

    cr_expect_eq(tokenizer_open(tide, scratch_folder(), &k), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(tide), "holds no tokenizer") && strstr(tide_message(tide), "token files"),
              "%s", tide_message(tide));
    write_as("tokenizer.json", "{}", 2, path);
    cr_expect_eq(tokenizer_open(tide, scratch_folder(), &k), TIDE_BAD_FILE);
    cr_expect(strstr(tide_message(tide), "tokenizer.json") && strstr(tide_message(tide), "token files"), "%s",
              tide_message(tide));
    cr_expect_eq(tokenizer_open(tide, path, &k), TIDE_BAD_FILE);
    cr_expect_eq(tokenizer_open(tide, "/nonexistent/gpt2", &k), TIDE_IO);
    cr_expect_null(k);
}

Test(tokenizers, bytes_are_tokens)
{
    Tokenizer *k = NULL;
    size_t n;

    cr_assert(!tokenizer_open(tide, NULL, &k), "%s", tide_message(tide));
    expect_tokens(k, "a\xff\n", 3, (int32_t[]){ 'a', 255, '\n' }, 3);
    expect_back(k, "a\xff\0b", 4);
    tokenizer_piece(k, -1, 256, &n);
    cr_expect_eq(n, 0);
    tokenizer_piece(k, -1, -1, &n);
    cr_expect_eq(n, 0);
    tokenizer_free(k);
}
