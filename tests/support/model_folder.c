/* model_folder.c - models in files for tests. */
#define _DEFAULT_SOURCE
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "models/files/model_files.h"
#include "tests/support/model_folder.h"

enum { ROOM = 256 }; /* tensors */

void folder_refused(Tide *t, const char *path, TideStatus wanted, const char *words)
{
    ModelConfig c;
    Model *m = NULL;
    char copy[256], *rest;
    TideStatus status = model_files_config(t, path, &c);

    if (!status) status = model_new(t, &c, &m);
    if (!status) status = model_files_check(m, path);
    cr_expect_eq(status, wanted, "%s: %d, %s", words, (int)status, tide_message(t));
    snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok_r(copy, "|", &rest); w; w = strtok_r(NULL, "|", &rest))
        cr_expect(strstr(tide_message(t), w), "'%s' is not in: %s", w, tide_message(t));
    model_free(m);
}

/* ---- Contents ------------------------------------------------------------------------ */

static size_t bytes_of(const TensorSpec *s)
{
    return (size_t)shape_elements(s->shape) * type_bytes(s->type);
}

static Contents contents_new(void)
{
    Contents c = { calloc(ROOM, sizeof *c.specs), calloc(ROOM, sizeof *c.bytes), 0 };

    cr_assert(c.specs && c.bytes);
    return c;
}

void contents_add(Contents *c, const char *name, TideType type, TideShape shape)
{
    TensorSpec *s = &c->specs[c->n];

    cr_assert(c->n < ROOM);
    *s = (TensorSpec){ .type = type, .shape = shape };
    snprintf(s->name, sizeof s->name, "%s", name);
    c->bytes[c->n] = calloc(bytes_of(s) + 1, 1);
    cr_assert(c->bytes[c->n++]);
}

Contents contents_read(Tide *t, const char *path)
{
    Contents c = contents_new();
    TensorFile *f;

    cr_assert(!tensor_file_open(t, path, &f), "%s", tide_message(t));
    for (size_t i = 0; i < f->n_entries; i++) {
        const TensorEntry *e = &f->entries[i];
        TideShape shape = { .n = e->n_dims };
        TideType type;
        cr_assert(e->n_dims <= TIDE_MAX_DIMS && tensor_entry_type(e, &type));
        for (int d = 0; d < e->n_dims; d++) shape.dim[d] = e->dim[d];
        contents_add(&c, e->name, type, shape);
        cr_assert(!file_read_at(t, path, e->offset, c.bytes[i], (size_t)e->bytes));
    }
    tensor_file_close(f);
    return c;
}

static TideStatus source(void *context, int i, const void **bytes)
{
    *bytes = ((const Contents *)context)->bytes[i];
    return TIDE_OK;
}

void contents_write(Tide *t, const char *path, const Contents *c)
{
    TensorOut out = { c->specs, c->n, NULL, source, (void *)(uintptr_t)c };

    cr_assert(!tensor_file_write(t, path, &out), "%s", tide_message(t));
}

void contents_free(Contents *c)
{
    for (int i = 0; i < c->n; i++) free(c->bytes[i]);
    free(c->bytes);
    free(c->specs);
}

int contents_find(const Contents *c, const char *name)
{
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->specs[i].name, name) == 0) return i;
    cr_assert(false, "there is no %s", name);
    return -1;
}

void contents_drop(Contents *c, int i)
{
    free(c->bytes[i]);
    c->n--;
    memmove(c->specs + i, c->specs + i + 1, (size_t)(c->n - i) * sizeof *c->specs);
    memmove(c->bytes + i, c->bytes + i + 1, (size_t)(c->n - i) * sizeof *c->bytes);
}

void contents_narrow(Contents *c, int i, TideType type)
{
    int64_t n = shape_elements(c->specs[i].shape);
    unsigned char *narrow = malloc((size_t)n * type_bytes(type) + 1);

    cr_assert(narrow && c->specs[i].type == TIDE_F32);
    tide_narrow(type, (const float *)(const void *)c->bytes[i], n, narrow);
    free(c->bytes[i]);
    c->bytes[i] = narrow;
    c->specs[i].type = type;
}

void text_write(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    cr_assert(f, "%s", path);
    fputs(text, f);
    fclose(f);
}
