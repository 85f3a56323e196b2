/* test_safetensors.c - nothing that contradicts the format is read, and what is written is read as it was. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/io/safetensors.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/train.h"

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

TestSuite(safetensors, .init = begin, .fini = end, .timeout = 120);

/* ---- Files made by hand ---------------------------------------------------------------- */

/* A file whose length field says `length`, with that header and so many zeros behind it. */
static void write_file(const char *path, uint64_t length, const char *header, size_t header_bytes,
                       size_t data)
{
    FILE *f = fopen(path, "wb");

    cr_assert(f);
    for (int i = 0; i < 8; i++) fputc((int)(length >> 8 * i & 0xff), f);
    cr_assert_eq(fwrite(header, 1, header_bytes, f), header_bytes);
    for (size_t i = 0; i < data; i++) fputc(0, f);
    fclose(f);
}

/* The status of opening it, closed again. */
static TideStatus try_open(const char *path)
{
    TensorFile *f = NULL;
    TideStatus status = tensor_file_open(tide, path, &f);

    cr_expect_eq(f == NULL, status != TIDE_OK);
    tensor_file_close(f);
    return status;
}

typedef struct Case {
    const char *header;
    size_t data;
    const char *words; /* that the message must hold, separated by |; NULL: the file is valid */
} Case;

#define A(text) "{\"a\":{" text "}}"
#define I32(text) A("\"dtype\":\"I32\"," text)
// clang-format off
static const Case cases[] = {
    { "{}", 0, NULL },
    { " \t\r\n{} \n", 0, NULL },
    { "{\"__metadata__\":{\"k\":\"v\"}}", 0, NULL },
    { "{\"__metadata__\":null}", 0, NULL },
    { A("\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]"), 16, NULL },
    { A("\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]"), 4, NULL },
    { A("\"dtype\":\"F32\",\"shape\":[2,0],\"data_offsets\":[0,0]"), 0, NULL },
    { A("\"dtype\":\"F4\",\"shape\":[1,2],\"data_offsets\":[0,1]"), 1, NULL },
    { A("\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3],\"more\":1"), 3, NULL },
    { "{\"b\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[2,5]},"
      "\"a\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[0,2]}}", 5, NULL },
    { "", 0, "byte 0 of its header of 0" },
    { "{", 0, "header of 1" },
    { "\xff", 0, "header of 1" },
    { "{} {}", 0, "header of 5" },
    { "[]", 0, "must be an object" },
    { "{\"a\":1}", 0, "must be an object" },
    { "{\"__metadata__\":{\"k\":1}}", 0, "__metadata__.k|must be a string" },
    { "{\"__metadata__\":[]}", 0, "__metadata__|object of strings" },
    { A("\"shape\":[1],\"data_offsets\":[0,4]"), 4, "lacks the key|dtype" },
    { A("\"dtype\":\"F32\",\"data_offsets\":[0,4]"), 4, "lacks the key|shape" },
    { A("\"dtype\":\"F32\",\"shape\":[1]"), 4, "lacks the key|data_offsets" },
    { A("\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]"), 4, "F33|BF16" },
    { A("\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]"), 4, "a.dtype is 7" },
    { A("\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]"), 4, "a.shape is 1" },
    { A("\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]"), 4, "shape[0] is -1" },
    { A("\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]"), 4, "shape[0] is 1.5" },
    { A("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]"), 4, "9 items|0 to 8" },
    { A("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]"), 4, "data_offsets has 1" },
    { A("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,-4]"), 4, "data_offsets[1] is -4" },
    { A("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]"), 4, "data_offsets[1] is 0" },
    { A("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4.0]"), 4, "data_offsets[1] is 4" },
    { I32("\"shape\":[2,2],\"data_offsets\":[0,4]"), 4, "has 4 bytes|[2, 2] of I32 takes 16" },
    { I32("\"shape\":[2,18446744073709551614],\"data_offsets\":[0,16]"), 16, "18446744073709551614" },
    { I32("\"shape\":[2,9223372036854775807],\"data_offsets\":[0,16]"), 16, "9223372036854775807" },
    { A("\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,16]"), 16,
      "more than 2^63 bits" },
    { A("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]"), 1, "12 bits|no whole bytes" },
    { A("\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[1,5]"), 5, "begins at byte 1|ends at 0" },
    { A("\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]"), 12, "take 4 bytes, but 12 follow" },
    { A("\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]"), 2, "take 4 bytes, but 2 follow" },
    { "{\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]},"
      "\"b\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
      "begins at byte 0|ends at 4" },
    { "{\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]},"
      "\"b\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[2,6]}}", 6,
      "tensor b begins at byte 2|ends at 4" },
    { "{\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]},"
      "\"b\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[5,6]}}", 6,
      "tensor b begins at byte 5|ends at 4" },
    { "{\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]},"
      "\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "duplicate" },
};
// clang-format on

static void expect_words(const char *what, const char *words)
{
    char copy[256], *save;

    snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok_r(copy, "|", &save); w; w = strtok_r(NULL, "|", &save))
        cr_expect(strstr(tide_message(tide), w), "%s: '%s' is not in: %s", what, w, tide_message(tide));
}

Test(safetensors, headers_are_read_or_refused)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *c = &cases[i];
        const char *path = in_folder("case.safetensors");
        write_file(path, strlen(c->header), c->header, strlen(c->header), c->data);
        TideStatus status = try_open(path);
        cr_expect_eq(status, c->words ? TIDE_BAD_FILE : TIDE_OK, "%s: %d, %s", c->header, (int)status,
                     tide_message(tide));
        if (c->words) expect_words(c->header, c->words);
    }
}

Test(safetensors, lengths_that_cannot_be_are_refused)
{
    static const struct {
        uint64_t length;
        const char *words;
    } lengths[] = {
        { UINT64_MAX, "18446744073709551615|100000000" },
        { 0xffffff000000003c, "100000000" },
        { (uint64_t)1 << 63, "9223372036854775808" },
        { 150000000, "150000000|100000000" },
        { 100000000, "only 16 follow" },
        { 17, "17 bytes, but only 16 follow" },
        { 0, "header of 0" },
    };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const char *path = in_folder("length.safetensors");
        write_file(path, lengths[i].length, "{}", 2, 14);
        cr_expect_eq(try_open(path), TIDE_BAD_FILE);
        expect_words("length", lengths[i].words);
    }
}

Test(safetensors, what_is_no_such_file_is_told)
{
    const char *path = in_folder("pointer.safetensors");
    FILE *f = fopen(path, "w");

    cr_assert(f);
    fputs("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9948728430\n", f);
    fclose(f);
    cr_expect_eq(try_open(path), TIDE_BAD_FILE);
    expect_words("pointer", "git-lfs|git lfs pull|2336927755350992246");
    cr_expect_eq(try_open(in_folder("nothing")), TIDE_IO);
    cr_expect_eq(try_open(scratch_folder()), TIDE_IO);
    expect_words("folder", "no regular file");
    f = fopen(path, "w");
    cr_assert(f && fwrite("1234567", 1, 7, f) == 7);
    fclose(f);
    cr_expect_eq(try_open(path), TIDE_BAD_FILE);
    expect_words("short", "has 7 bytes");
}

/* Data of 5 GiB that no disk has to hold: offsets beyond 32 bits. */
Test(safetensors, a_tensor_behind_4_gib_is_read)
{
    const char *path = in_folder("large.safetensors"),
               *header = "{\"a\":{\"dtype\":\"I8\",\"shape\":[5368709120],\"data_offsets\":[0,5368709120]},"
                         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[5368709120,5368709128]}}";
    float in[2] = { 1.5f, -2 }, out[2] = { 0 };
    TensorFile *file;

    write_file(path, strlen(header), header, strlen(header), 0);
    FILE *f = fopen(path, "r+b");
    cr_assert(f && !fseeko(f, (off_t)(8 + strlen(header)) + 5368709120, SEEK_SET));
    cr_assert_eq(fwrite(in, sizeof *in, 2, f), 2);
    fclose(f);
    cr_assert(!tensor_file_open(tide, path, &file), "%s", tide_message(tide));
    const TensorEntry *b = tensor_file_find(file, "b");
    cr_assert(b && b->n_dims == 1 && b->dim[0] == 2 && !tensor_file_find(file, "c"));
    cr_assert(!file_read_at(tide, path, b->offset, out, sizeof out), "%s", tide_message(tide));
    cr_expect(out[0] == in[0] && out[1] == in[1]);
    cr_assert(!truncate(path, 4096)); /* what shrinks while it is read is a status, no signal */
    cr_expect_eq(file_read_at(tide, path, b->offset, out, sizeof out), TIDE_IO);
    tensor_file_close(file);
}

/* ---- Writing ------------------------------------------------------------------------------ */

static const TensorSpec specs[] = { { "half", TIDE_F16, { 2, { 3, 5 } } },
                                    { "b\"rain", TIDE_BF16, { 1, { 7 } } },
                                    { "float", TIDE_F32, { 2, { 2, 3 } } },
                                    { "none", TIDE_F32, { 2, { 0, 3 } } },
                                    { "state", TIDE_I32, { 1, { 8 } } } };
enum { N_SPECS = sizeof specs / sizeof *specs };

static size_t bytes_of(const TensorSpec *s)
{
    return (size_t)shape_elements(s->shape) * type_bytes(s->type);
}

static unsigned char byte_of(int tensor, size_t i)
{
    return (unsigned char)(i * 7 + (size_t)tensor * 31 + 1);
}

static TideStatus source(void *context, int i, const void **bytes)
{
    static unsigned char buffer[256];
    const int *fails_at = context;

    if (fails_at && *fails_at == i) return tide_fail(tide, TIDE_DEVICE, "tensor %d is lost", i);
    for (size_t k = 0; k < bytes_of(&specs[i]); k++) buffer[k] = byte_of(i, k);
    *bytes = buffer;
    return TIDE_OK;
}

static TideStatus write_specs(const char *path, int *fails_at)
{
    static const char *const metadata[] = { "format", "pt", "who", "a test", NULL };

    return tensor_file_write(tide, path, &(TensorOut){ specs, N_SPECS, metadata, source, fails_at });
}

Test(safetensors, what_is_written_is_read)
{
    const char *path = in_folder("written.safetensors");
    TensorFile *f;
    TideType type;

    cr_assert(!write_specs(path, NULL), "%s", tide_message(tide));
    cr_assert(!tensor_file_open(tide, path, &f), "%s", tide_message(tide));
    cr_expect_eq(f->n_entries, N_SPECS);
    cr_expect_str_eq(tensor_file_metadata(f, "who"), "a test");
    cr_expect_null(tensor_file_metadata(f, "whom"));
    for (int i = 0; i < N_SPECS; i++) {
        unsigned char bytes[256];
        const TensorEntry *e = tensor_file_find(f, specs[i].name);
        cr_assert(e, "%s", specs[i].name);
        cr_expect(tensor_entry_type(e, &type) && type == specs[i].type);
        cr_expect_eq(e->n_dims, specs[i].shape.n);
        cr_expect_eq(e->offset % (int64_t)type_bytes(type), 0);
        cr_assert_eq((size_t)e->bytes, bytes_of(&specs[i]));
        cr_assert(!file_read_at(tide, path, e->offset, bytes, (size_t)e->bytes));
        for (size_t k = 0; k < bytes_of(&specs[i]); k++) cr_assert_eq(bytes[k], byte_of(i, k));
    }
    tensor_file_close(f);
}

static int files_in_folder(void)
{
    int n = 0;
    DIR *d = opendir(scratch_folder());

    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

Test(safetensors, a_failure_while_writing_leaves_the_old_file)
{
    const char *path = in_folder("kept.safetensors");
    int third = 2;
    struct stat before, after;

    cr_assert(!write_specs(path, NULL));
    cr_assert(!stat(path, &before));
    cr_expect_eq(write_specs(path, &third), TIDE_DEVICE);
    cr_expect_str_eq(tide_message(tide), "tensor 2 is lost");
    cr_assert(!stat(path, &after));
    cr_expect(before.st_ino == after.st_ino && before.st_size == after.st_size);
    cr_expect_eq(files_in_folder(), 1);
    cr_expect_eq(write_specs("/dev/full", NULL), TIDE_IO);
    cr_expect_eq(write_specs(in_folder("no/folder"), NULL), TIDE_IO);
}

/* ---- Damage ---------------------------------------------------------------------------------- */

static size_t read_bytes(const char *path, unsigned char *to, size_t room)
{
    FILE *f = fopen(path, "rb");

    cr_assert(f);
    size_t n = fread(to, 1, room, f);
    fclose(f);
    return n;
}

static void write_bytes(const char *path, const unsigned char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");

    cr_assert(f && fwrite(bytes, 1, n, f) == n);
    fclose(f);
}

Test(safetensors, a_file_cut_anywhere_is_refused)
{
    unsigned char bytes[4096];

    cr_assert(!write_specs(in_folder("a"), NULL));
    size_t n = read_bytes(in_folder("a"), bytes, sizeof bytes);
    for (size_t length = 0; length < n; length++) {
        write_bytes(in_folder("b"), bytes, length);
        cr_expect_eq(try_open(in_folder("b")), TIDE_BAD_FILE, "%zu of %zu bytes", length, n);
    }
}

/* Whatever a damaged header says, every tensor that is told lies inside the file. */
static void expect_inside(const char *path, size_t size)
{
    TensorFile *f;

    if (tensor_file_open(tide, path, &f)) return;
    for (size_t i = 0; i < f->n_entries; i++) {
        const TensorEntry *e = &f->entries[i];
        int64_t elements = 1;
        for (int d = 0; d < e->n_dims; d++) elements *= e->dim[d];
        cr_assert(e->offset >= 8 && e->bytes >= 0 && e->offset + e->bytes <= (int64_t)size);
        cr_assert(elements <= 8 * e->bytes);
    }
    tensor_file_close(f);
}

Test(safetensors, a_flipped_bit_leads_nowhere)
{
    unsigned char bytes[4096];

    cr_assert(!write_specs(in_folder("a"), NULL));
    size_t n = read_bytes(in_folder("a"), bytes, sizeof bytes);
    size_t header = 8 + bytes[0] + 256u * bytes[1];
    for (size_t i = 0; i < header; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (unsigned char)(1 << bit);
            write_bytes(in_folder("b"), bytes, n);
            expect_inside(in_folder("b"), n);
            bytes[i] ^= (unsigned char)(1 << bit);
        }
}

/* ---- Files of others ------------------------------------------------------------------------- */

static int try_folder(const char *name, TideStatus wanted)
{
    const char *data = getenv("TIDE_TEST_DATA");
    char path[1024];
    int n = 0;

    snprintf(path, sizeof path, "%s/safetensors/%s", data ? data : "", name);
    DIR *d = opendir(path);
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/safetensors/%s/%s", data, name, e->d_name);
        cr_expect_eq(try_open(path), wanted, "%s: %s", e->d_name, tide_message(tide));
        n++;
    }
    closedir(d);
    return n;
}

Test(safetensors, cases_of_the_reference_reader)
{
    int valid = try_folder("valid", TIDE_OK), invalid = try_folder("invalid", TIDE_BAD_FILE);

    if (!valid && !invalid) cr_skip_test("TIDE_TEST_DATA holds no safetensors");
    cr_expect(valid > 0 && invalid > 0);
}
