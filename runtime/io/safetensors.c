/* safetensors.c - reading: nothing that a header says is believed before it was checked. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/base.h"
#include "runtime/io/safetensors.h"

enum { LENGTH_BYTES = 8, MOST_HEADER = 100000000 }; /* the most is the format's own */

/* The element types of the format, and their bits. */
typedef struct FileType {
    const char *name;
    int bits;
    int type; /* a TideType; -1: the library has none such */
} FileType;

static const FileType file_types[] = {
    { "F32", 32, TIDE_F32 }, { "F16", 16, TIDE_F16 },  { "BF16", 16, TIDE_BF16 }, { "I32", 32, TIDE_I32 },
    { "F64", 64, -1 },       { "I64", 64, -1 },        { "U64", 64, -1 },         { "C64", 64, -1 },
    { "U32", 32, -1 },       { "I16", 16, -1 },        { "U16", 16, -1 },         { "BOOL", 8, -1 },
    { "U8", 8, -1 },         { "I8", 8, -1 },          { "F8_E5M2", 8, -1 },      { "F8_E4M3", 8, -1 },
    { "F8_E8M0", 8, -1 },    { "F8_E4M3FNUZ", 8, -1 }, { "F8_E5M2FNUZ", 8, -1 },  { "F6_E2M3", 6, -1 },
    { "F6_E3M2", 6, -1 },    { "F4", 4, -1 },
};
enum { N_FILE_TYPES = sizeof file_types / sizeof *file_types };

bool tensor_entry_type(const TensorEntry *e, TideType *out)
{
    for (int i = 0; i < N_FILE_TYPES; i++)
        if (file_types[i].type >= 0 && strcmp(file_types[i].name, e->dtype) == 0) {
            *out = (TideType)file_types[i].type;
            return true;
        }
    return false;
}

char *dims_text(int n, const int64_t *dim, char text[DIMS_TEXT])
{
    int used = snprintf(text, DIMS_TEXT, "[");

    for (int i = 0; i < n && used < DIMS_TEXT; i++)
        used += snprintf(text + used, (size_t)(DIMS_TEXT - used), "%s%lld", i ? ", " : "", (long long)dim[i]);
    if (used < DIMS_TEXT) snprintf(text + used, (size_t)(DIMS_TEXT - used), "]");
    return text;
}

/* ---- Bytes of a file -------------------------------------------------------- */

static TideStatus cannot_read(Tide *t, const char *path, int error)
{
    return tide_fail(t, TIDE_IO, "%s: cannot read it: %s", path, strerror(error));
}

/* pread() may give less than was asked for. */
static TideStatus read_fully(Tide *t, const char *path, int file, int64_t offset, void *to, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(file, (char *)to + done, n - done, (off_t)(offset + (int64_t)done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return cannot_read(t, path, errno);
        if (got == 0)
            return tide_fail(t, TIDE_IO, "%s: it ends at byte %lld, before the %zu bytes at %lld", path,
                             (long long)offset + (long long)done, n, (long long)offset);
        done += (size_t)got;
    }
    return TIDE_OK;
}

TideStatus file_read_at(Tide *t, const char *path, int64_t offset, void *to, size_t n)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);

    if (file < 0) return cannot_read(t, path, errno);
    TideStatus status = read_fully(t, path, file, offset, to, n);
    close(file);
    return status;
}

/* ---- The header as text ------------------------------------------------------ */

static uint64_t little_endian(const unsigned char *b)
{
    uint64_t n = 0;

    for (int i = LENGTH_BYTES - 1; i >= 0; i--) n = n << 8 | b[i];
    return n;
}

static TideStatus check_length(const TensorFile *f, const unsigned char first[LENGTH_BYTES])
{
    unsigned long long length = little_endian(first);

    if (memcmp(first, "version ", LENGTH_BYTES) == 0)
        return tide_fail(f->tide, TIDE_BAD_FILE,
                         "%s: this is a git-lfs pointer, not the weights (its first 8 bytes, \"version \", "
                         "would be a header of %llu bytes); fetch the file itself with `git lfs pull`",
                         f->path, length);
    if (length > MOST_HEADER)
        return tide_fail(f->tide, TIDE_BAD_FILE, "%s: its header would have %llu bytes; the most is %d",
                         f->path, length, MOST_HEADER);
    if ((int64_t)length > f->bytes - LENGTH_BYTES)
        return tide_fail(f->tide, TIDE_BAD_FILE,
                         "%s: its header would have %llu bytes, but only %lld follow its length; the file "
                         "is cut off or no safetensors file",
                         f->path, length, (long long)f->bytes - LENGTH_BYTES);
    return TIDE_OK;
}

/* Messages go to terminals, and a file may hold anything. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
}

static TideStatus parse_header(TensorFile *f, int file, size_t length)
{
    char *text = malloc(length + 1);
    json_error_t error;
    TideStatus status;

    if (!text)
        return tide_fail(f->tide, TIDE_NO_MEMORY, "%s: no memory for a header of %zu bytes", f->path, length);
    status = read_fully(f->tide, f->path, file, LENGTH_BYTES, text, length);
    if (!status) {
        f->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
        make_printable(error.text);
        if (!f->header)
            status = tide_fail(f->tide, TIDE_BAD_FILE, "%s: byte %d of its header of %zu: %s", f->path,
                               error.position, length, error.text);
    }
    free(text);
    return status;
}

static TideStatus read_header(TensorFile *f, int file, size_t *length)
{
    unsigned char first[LENGTH_BYTES];
    struct stat facts;

    if (fstat(file, &facts)) return cannot_read(f->tide, f->path, errno);
    if (!S_ISREG(facts.st_mode))
        return tide_fail(f->tide, TIDE_IO, "%s: cannot read it: it is no regular file", f->path);
    f->bytes = facts.st_size;
    if (f->bytes < LENGTH_BYTES)
        return tide_fail(f->tide, TIDE_BAD_FILE,
                         "%s: it has %lld bytes; a safetensors file begins with %d that tell the length of "
                         "its header",
                         f->path, (long long)f->bytes, LENGTH_BYTES);
    TRY(read_fully(f->tide, f->path, file, 0, first, LENGTH_BYTES));
    TRY(check_length(f, first));
    *length = (size_t)little_endian(first);
    return parse_header(f, file, *length);
}

/* ---- Entries -------------------------------------------------------------------- */

static TideStatus read_metadata(const JsonAt *at)
{
    const char *text;

    if (json_is_null(at->value)) return TIDE_OK;
    if (!json_is_object(at->value)) return read_refuse(at, "must be an object of strings");
    json_t *object = (json_t *)(uintptr_t)at->value;
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        JsonAt value = {
            .file = at->file, .up = at, .key = json_object_iter_key(i), .value = json_object_iter_value(i)
        };
        TRY(read_text(&value, &text));
    }
    return TIDE_OK;
}

static TideStatus read_shape(const JsonAt *entry, TensorEntry *e)
{
    JsonAt at;
    size_t n = 0;

    TRY(read_member(entry, "shape", &at));
    TRY(read_array(&at, 0, TENSOR_DIMS, &n));
    e->n_dims = (int)n;
    for (size_t i = 0; i < n; i++) {
        JsonAt item = read_item(&at, i);
        TRY(read_int(&item, 0, INT64_MAX, &e->dim[i]));
    }
    return TIDE_OK;
}

/* *bytes of a tensor of that shape and type. */
static TideStatus size_of(const JsonAt *entry, const TensorEntry *e, int bits, int64_t *bytes)
{
    int64_t elements = 1, all_bits = 0;
    char dims[DIMS_TEXT];
    bool over = false;

    for (int i = 0; i < e->n_dims; i++) over |= __builtin_mul_overflow(elements, e->dim[i], &elements);
    over |= __builtin_mul_overflow(elements, (int64_t)bits, &all_bits);
    if (over)
        return read_refuse(entry, "has the shape %s of %s, which is more than 2^63 bits",
                           dims_text(e->n_dims, e->dim, dims), e->dtype);
    if (all_bits % 8)
        return read_refuse(entry, "has the shape %s of %s, %lld bits, which are no whole bytes",
                           dims_text(e->n_dims, e->dim, dims), e->dtype, (long long)all_bits);
    *bytes = all_bits / 8;
    return TIDE_OK;
}

/* e->offset counts from the end of the header. */
static TideStatus read_offsets(const JsonAt *entry, TensorEntry *e, int64_t bytes)
{
    JsonAt at;
    size_t n = 0;
    int64_t end = 0;
    char dims[DIMS_TEXT];

    TRY(read_member(entry, "data_offsets", &at));
    TRY(read_array(&at, 2, 2, &n));
    JsonAt first = read_item(&at, 0), second = read_item(&at, 1);
    TRY(read_int(&first, 0, INT64_MAX, &e->offset));
    TRY(read_int(&second, e->offset, INT64_MAX, &end));
    e->bytes = end - e->offset;
    if (e->bytes == bytes) return TIDE_OK;
    return read_refuse(entry, "has %lld bytes, from %lld to %lld, but the shape %s of %s takes %lld",
                       (long long)e->bytes, (long long)e->offset, (long long)end,
                       dims_text(e->n_dims, e->dim, dims), e->dtype, (long long)bytes);
}

/* Keys that the format does not know are left alone, as its own reader does. */
static TideStatus read_entry(const JsonAt *at, TensorEntry *e)
{
    const char *names[N_FILE_TYPES];
    JsonAt dtype;
    int type = 0;
    int64_t bytes = 0;

    for (int i = 0; i < N_FILE_TYPES; i++) names[i] = file_types[i].name;
    *e = (TensorEntry){ .name = at->key };
    TRY(read_member(at, "dtype", &dtype));
    TRY(read_word(&dtype, names, N_FILE_TYPES, &type));
    e->dtype = file_types[type].name;
    TRY(read_shape(at, e));
    TRY(size_of(at, e, file_types[type].bits, &bytes));
    return read_offsets(at, e, bytes);
}

static TideStatus read_entries(TensorFile *f)
{
    static const char metadata[] = "__metadata__";
    JsonFile file = { .tide = f->tide, .path = f->path, .root = f->header };
    JsonAt root = read_root(&file);

    if (!json_is_object(f->header)) return read_refuse(&root, "must be an object of tensors");
    f->entries = calloc(json_object_size(f->header) + 1, sizeof *f->entries);
    if (!f->entries)
        return tide_fail(f->tide, TIDE_NO_MEMORY, "%s: no memory for %zu tensors", f->path,
                         json_object_size(f->header));
    for (void *i = json_object_iter(f->header); i; i = json_object_iter_next(f->header, i)) {
        JsonAt at = {
            .file = &file, .up = &root, .key = json_object_iter_key(i), .value = json_object_iter_value(i)
        };
        if (strcmp(at.key, metadata) == 0)
            TRY(read_metadata(&at));
        else
            TRY(read_entry(&at, &f->entries[f->n_entries++]));
    }
    return TIDE_OK;
}

/* ---- The bytes behind the header --------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const TensorEntry *x = a, *y = b;

    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const TensorEntry *)a)->name, ((const TensorEntry *)b)->name);
}

/* Every byte behind the header belongs to exactly one tensor. Offsets count from the file's start then. */
static TideStatus check_places(TensorFile *f, int64_t data)
{
    int64_t end = 0;

    qsort(f->entries, f->n_entries, sizeof *f->entries, by_place);
    for (size_t i = 0; i < f->n_entries; i++) {
        TensorEntry *e = &f->entries[i];
        if (e->offset != end)
            return tide_fail(f->tide, TIDE_BAD_FILE,
                             "%s: tensor %.80s begins at byte %lld of the data, but the one before it ends "
                             "at %lld; tensors follow one another without a hole and share nothing",
                             f->path, e->name, (long long)e->offset, (long long)end);
        end += e->bytes; /* at most e->offset + e->bytes, which was read as an int64_t */
        e->offset += data;
    }
    if (end != f->bytes - data)
        return tide_fail(
            f->tide, TIDE_BAD_FILE,
            "%s: its tensors take %lld bytes, but %lld follow the header; the file is cut off or "
            "has something behind its end",
            f->path, (long long)end, (long long)(f->bytes - data));
    qsort(f->entries, f->n_entries, sizeof *f->entries, by_name);
    return TIDE_OK;
}

static TideStatus read_file(TensorFile *f)
{
    size_t length = 0;
    int file = open(f->path, O_RDONLY | O_CLOEXEC);

    if (file < 0) return cannot_read(f->tide, f->path, errno);
    TideStatus status = read_header(f, file, &length);
    close(file);
    if (!status) status = read_entries(f);
    return status ? status : check_places(f, (int64_t)length + LENGTH_BYTES);
}

/* ---- For callers --------------------------------------------------------------------- */

TideStatus tensor_file_open(Tide *t, const char *path, TensorFile **out)
{
    TensorFile *f = calloc(1, sizeof *f);

    *out = NULL;
    if (f) *f = (TensorFile){ .tide = t, .path = strdup(path) };
    TideStatus status =
        f && f->path ? read_file(f) : tide_fail(t, TIDE_NO_MEMORY, "no memory to read %s", path);
    if (status)
        tensor_file_close(f);
    else
        *out = f;
    return status;
}

void tensor_file_close(TensorFile *f)
{
    if (!f) return;
    json_decref(f->header);
    free(f->entries);
    free(f->path);
    free(f);
}

const TensorEntry *tensor_file_find(const TensorFile *f, const char *name)
{
    TensorEntry key = { .name = name };

    return bsearch(&key, f->entries, f->n_entries, sizeof key, by_name);
}

const char *tensor_file_metadata(const TensorFile *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->header, "__metadata__"), key));
}
