/* safetensors_write.c - writing: tensors one after another, of which the caller holds one at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base.h"
#include "runtime/io/out_file.h"
#include "runtime/io/safetensors.h"

static const char *const dtypes[] = {
    [TIDE_F32] = "F32", [TIDE_BF16] = "BF16", [TIDE_F16] = "F16", [TIDE_I32] = "I32"
};

typedef struct Place {
    const TensorSpec *spec;
    int index; /* the caller's */
} Place;

static size_t bytes_of(const TensorSpec *s)
{
    return (size_t)shape_elements(s->shape) * type_bytes(s->type);
}

/* The widest elements first, so that all are aligned; then by name. */
static int by_alignment(const void *a, const void *b)
{
    const TensorSpec *x = ((const Place *)a)->spec, *y = ((const Place *)b)->spec;
    size_t m = type_bytes(x->type), n = type_bytes(y->type);

    return m != n ? (m > n ? -1 : 1) : strcmp(x->name, y->name);
}

static json_t *shape_json(TideShape s)
{
    json_t *j = json_array();

    for (int i = 0; i < s.n; i++) json_array_append_new(j, json_integer((json_int_t)s.dim[i]));
    return j;
}

static json_t *header_json(const TensorOut *o, const Place *order)
{
    json_t *j = json_object(), *metadata = json_object();
    size_t at = 0;

    for (const char *const *m = o->metadata; m && m[0]; m += 2)
        json_object_set_new(metadata, m[0], json_string(m[1]));
    if (json_object_size(metadata)) json_object_set(j, "__metadata__", metadata);
    json_decref(metadata);
    for (int i = 0; i < o->n; i++) {
        const TensorSpec *s = order[i].spec;
        size_t end = at + bytes_of(s);
        json_object_set_new(j, s->name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtypes[s->type], "shape",
                                      shape_json(s->shape), "data_offsets", (json_int_t)at, (json_int_t)end));
        at = end;
    }
    return j;
}

/* The length, the header, and spaces until the data stand at a multiple of 8. */
static bool write_header(FILE *to, const char *text)
{
    uint64_t length = strlen(text), padded = align_up(length, 8);

    for (int i = 0; i < 8; i++) fputc((int)(padded >> 8 * i & 0xff), to);
    fprintf(to, "%s%*s", text, (int)(padded - length), "");
    return !ferror(to);
}

static TideStatus failed(Tide *t, const char *path)
{
    return tide_fail(t, TIDE_IO, "%s cannot be written: %s", path, strerror(errno));
}

static TideStatus write_data(Tide *t, const char *path, FILE *to, const TensorOut *o, const Place *order)
{
    for (int i = 0; i < o->n; i++) {
        const void *bytes = NULL;
        size_t n = bytes_of(order[i].spec);
        TRY(o->source(o->context, order[i].index, &bytes));
        if (fwrite(bytes, 1, n, to) != n) return failed(t, path);
    }
    return TIDE_OK;
}

/* What is no regular file (a pipe) has nothing to wait for. */
static bool reach_disk(FILE *to)
{
    return fflush(to) == 0 && (fsync(fileno(to)) == 0 || errno == EINVAL || errno == EROFS);
}

static TideStatus write_file(Tide *t, const char *path, const TensorOut *o, const Place *order)
{
    OutFile file;
    json_t *header = header_json(o, order);
    char *text = json_dumps(header, JSON_COMPACT);
    TideStatus status = TIDE_OK;

    json_decref(header);
    if (!text) return tide_fail(t, TIDE_NO_MEMORY, "%s: no memory for a header of %d tensors", path, o->n);
    if (!out_file_open(&file, path)) {
        free(text);
        return failed(t, path);
    }
    if (!write_header(file.to, text)) status = failed(t, path);
    free(text);
    if (!status) status = write_data(t, path, file.to, o, order);
    if (!status && !reach_disk(file.to)) status = failed(t, path);
    if (status)
        out_file_discard(&file);
    else if (!out_file_close(&file))
        status = failed(t, path);
    return status;
}

TideStatus tensor_file_write(Tide *t, const char *path, const TensorOut *o)
{
    Place *order = calloc((size_t)o->n + 1, sizeof *order);

    if (!order) return tide_fail(t, TIDE_NO_MEMORY, "%s: no memory for %d tensors", path, o->n);
    for (int i = 0; i < o->n; i++) order[i] = (Place){ &o->tensors[i], i };
    qsort(order, (size_t)o->n, sizeof *order, by_alignment);
    TideStatus status = write_file(t, path, o, order);
    free(order);
    return status;
}
