/* stored.c - which files of a folder count, and the stretches of numbers that they hold. */

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "models/files/llama2c.h"
#include "models/files/stored.h"
#include "runtime/base.h"

enum { MOST_INDEX = 256 << 20, STRETCH = 1 << 20 }; /* bytes; elements that are converted at a time */

static const char whole_name[] = "model.safetensors", index_name[] = "model.safetensors.index.json";

static TideStatus no_memory(const StoredList *s)
{
    return tide_fail(s->tide, TIDE_NO_MEMORY, "%s: no memory for the names of its tensors", s->path);
}

/* "folder/name", owned by the caller; NULL without memory. */
static char *path_in(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);

    if (path) snprintf(path, size, "%s/%s", folder, name);
    return path;
}

static bool is_file(const char *folder, const char *name)
{
    char *path = path_in(folder, name);
    struct stat facts;
    bool there = path && stat(path, &facts) == 0 && !S_ISDIR(facts.st_mode);

    free(path);
    return there;
}

/* ---- One file ----------------------------------------------------------------- */

/* Open a file of the folder and keep it: *out is borrowed. */
static TideStatus keep_file(StoredList *s, const char *name, const TensorFile **out)
{
    TensorFile **files = realloc(s->files, (s->n_files + 1) * sizeof *files);
    char *path = path_in(s->path, name);

    if (files) s->files = files;
    TideStatus status = files && path ? tensor_file_open(s->tide, path, &files[s->n_files]) : no_memory(s);
    free(path);
    if (!status) *out = s->files[s->n_files++];
    return status;
}

static Stored stored_of(const TensorFile *f, const TensorEntry *e)
{
    Stored x = {
        .name = e->name, .path = f->path, .dtype = e->dtype, .n_dims = e->n_dims, .offset = e->offset
    };

    x.has_type = tensor_entry_type(e, &x.type);
    memcpy(x.dim, e->dim, sizeof x.dim);
    return x;
}

static TideStatus open_whole(StoredList *s, const char *name)
{
    const TensorFile *f;

    TRY(keep_file(s, name, &f));
    s->tensors = calloc(f->n_entries + 1, sizeof *s->tensors);
    if (!s->tensors) return no_memory(s);
    for (size_t i = 0; i < f->n_entries; i++) s->tensors[s->n++] = stored_of(f, &f->entries[i]);
    return TIDE_OK;
}

/* ---- Shards ------------------------------------------------------------------- */

/* A shard lies beside its index: a name that leads elsewhere may be meant to read what it should not. */
static TideStatus check_shard_name(const JsonAt *at, const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || n > 200 || strchr(name, '/') || strchr(name, '\\') || strstr(name, ".."))
        return read_refuse(at, "is \"%.60s\", which names no file beside the index", name);
    return TIDE_OK;
}

/* The file of that name among those that are open, or opened now. */
static TideStatus find_shard(StoredList *s, const JsonAt *at, const char *name, const TensorFile **out)
{
    size_t folder = strlen(s->path) + 1;

    for (size_t i = 0; i < s->n_files; i++)
        if (strcmp(s->files[i]->path + folder, name) == 0) {
            *out = s->files[i];
            return TIDE_OK;
        }
    if (is_file(s->path, name)) return keep_file(s, name, out);
    return read_refuse(at, "names the shard %.100s, which is not there; fetch all shards of the model", name);
}

static TideStatus add_from_shard(StoredList *s, const JsonAt *at)
{
    const char *name = NULL;
    const TensorFile *f = NULL;

    TRY(read_text(at, &name));
    TRY(check_shard_name(at, name));
    TRY(find_shard(s, at, name, &f));
    const TensorEntry *e = tensor_file_find(f, at->key);
    if (!e) return read_refuse(at, "names the shard %.100s, which has no tensor %.100s", name, at->key);
    s->tensors[s->n++] = stored_of(f, e);
    return TIDE_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Stored *)a)->name, ((const Stored *)b)->name);
}

/* What shards hold besides, and other files of the folder, is left alone. */
static TideStatus read_index(StoredList *s, const JsonFile *file)
{
    JsonAt root = read_root(file), map;

    TRY(read_member(&root, "weight_map", &map));
    if (!json_is_object(map.value) || !json_object_size(map.value))
        return read_refuse(&map, "must be an object of tensor names");
    s->tensors = calloc(json_object_size(map.value), sizeof *s->tensors);
    if (!s->tensors) return no_memory(s);
    json_t *object = (json_t *)(uintptr_t)map.value;
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        JsonAt at = {
            .file = file, .up = &map, .key = json_object_iter_key(i), .value = json_object_iter_value(i)
        };
        TRY(add_from_shard(s, &at));
    }
    qsort(s->tensors, s->n, sizeof *s->tensors, by_name);
    return TIDE_OK;
}

static TideStatus open_index(StoredList *s)
{
    char *path = path_in(s->path, index_name);
    JsonFile file = { 0 };

    if (!path) return no_memory(s);
    TideStatus status = read_open(s->tide, path, MOST_INDEX, &file);
    if (!status) status = read_index(s, &file);
    s->index = json_incref(file.root);
    read_close(&file);
    free(path);
    return status;
}

/* ---- A folder ------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

/* The only *.safetensors of a folder; several without an index may be of several models. */
static TideStatus open_only(StoredList *s)
{
    char only[256] = "";
    int n = 0;
    DIR *folder = opendir(s->path);

    if (!folder) return tide_fail(s->tide, TIDE_IO, "%s: cannot read it: %s", s->path, strerror(errno));
    for (struct dirent *d; (d = readdir(folder));)
        if (ends_with(d->d_name, ".safetensors") && n++ == 0) snprintf(only, sizeof only, "%s", d->d_name);
    closedir(folder);
    if (n == 1) return open_whole(s, only);
    if (n > 1)
        return tide_fail(
            s->tide, TIDE_BAD_FILE,
            "%s: it holds %d .safetensors files and neither %s nor %s, which would say which of them "
            "count",
            s->path, n, whole_name, index_name);
    return tide_fail(s->tide, TIDE_IO, "%s: it holds no weights: neither %s nor %s", s->path, whole_name,
                     index_name);
}

static TideStatus open_all(StoredList *s)
{
    struct stat facts;

    if (stat(s->path, &facts))
        return tide_fail(s->tide, TIDE_IO, "%s: cannot read it: %s", s->path, strerror(errno));
    if (!S_ISDIR(facts.st_mode)) return llama2c_open(s);
    if (is_file(s->path, whole_name)) return open_whole(s, whole_name);
    return is_file(s->path, index_name) ? open_index(s) : open_only(s);
}

TideStatus stored_open(Tide *t, const char *path, StoredList **out)
{
    StoredList *s = calloc(1, sizeof *s);

    *out = NULL;
    if (s) *s = (StoredList){ .tide = t, .path = strdup(path) };
    TideStatus status =
        s && s->path ? open_all(s) : tide_fail(t, TIDE_NO_MEMORY, "no memory to read %s", path);
    if (status)
        stored_close(s);
    else
        *out = s;
    return status;
}

void stored_close(StoredList *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->n_files; i++) tensor_file_close(s->files[i]);
    json_decref(s->index);
    free(s->files);
    free(s->names);
    free(s->path);
    free(s->tensors);
    free(s);
}

Stored *stored_find(const StoredList *s, const char *name)
{
    Stored key = { .name = name };

    return bsearch(&key, s->tensors, s->n, sizeof key, by_name);
}

/* ---- Numbers ---------------------------------------------------------------------- */

/* At most STRETCH numbers. */
static TideStatus read_stretch(const StoredList *s, const Stored *x, int64_t first, int64_t n, float *to)
{
    size_t size = type_bytes(x->type);
    int64_t offset = x->offset + first * (int64_t)size;
    void *raw = to;

    if (x->type == TIDE_F32) return file_read_at(s->tide, x->path, offset, to, (size_t)n * size);
    raw = malloc((size_t)n * size);
    if (!raw)
        return tide_fail(s->tide, TIDE_NO_MEMORY, "%s: no memory for %lld numbers", x->path, (long long)n);
    TideStatus status = file_read_at(s->tide, x->path, offset, raw, (size_t)n * size);
    if (!status) tide_widen(x->type, raw, n, to);
    free(raw);
    return status;
}

TideStatus stored_read(const StoredList *s, const Stored *x, int64_t first, int64_t n, float *to)
{
    assert(x->has_type && x->type != TIDE_I32);
    for (int64_t done = 0; done < n; done += STRETCH) {
        int64_t count = n - done < STRETCH ? n - done : STRETCH;
        TRY(read_stretch(s, x, first + done, count, to + done));
    }
    return TIDE_OK;
}
