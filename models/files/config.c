/* config.c - from config.json, or the header of llama2.c, to a configuration. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "models/files/architecture.h"
#include "models/files/llama2c.h"
#include "models/files/model_files.h"
#include "runtime/base.h"

enum { MOST_CONFIG = 16 << 20, BATCH = 8 };

static bool is_folder(const char *path)
{
    struct stat facts;

    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

bool model_files_are(const char *path)
{
    size_t n = strlen(path);

    return is_folder(path) || (n > 4 && strcmp(path + n - 4, ".bin") == 0);
}

/* What no file says. */
static ModelConfig defaults(void)
{
    return (ModelConfig){ .batch = BATCH,
                          .accum = 1,
                          .beta1 = 0.9f,
                          .beta2 = 0.95f,
                          .eps = 1e-8f,
                          .weight_decay = 0.1f,
                          .clip = 1.0f };
}

/* The last part of a path. */
static void take_name(const char *path, ModelConfig *c)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/') n--;
    size_t first = n;
    while (first > 0 && path[first - 1] != '/') first--;
    snprintf(c->name, sizeof c->name, "%.*s",
             (int)(n - first < sizeof c->name ? n - first : sizeof c->name - 1), path + first);
}

static TideStatus read_config(const JsonAt *root, ModelConfig *c)
{
    const char *type = NULL;
    JsonAt at;

    TRY(read_member(root, "model_type", &at));
    TRY(read_text(&at, &type));
    const Architecture *a = architecture_by_type(type);
    if (!a)
        return read_refuse(&at, "is \"%.40s\"; models of these types can be read: %s", type,
                           architecture_types());
    if (read_has(root, "quantization_config"))
        return read_refuse(root, "has a quantization_config; only weights in F32, F16 or BF16 can be read");
    snprintf(c->family, sizeof c->family, "%s", a->family);
    return a->read(root, c);
}

static TideStatus read_folder(Tide *t, const char *path, ModelConfig *c)
{
    size_t size = strlen(path) + sizeof "/config.json";
    char *file = malloc(size);
    JsonFile json = { 0 };

    if (!file) return tide_fail(t, TIDE_NO_MEMORY, "no memory to read %s", path);
    snprintf(file, size, "%s/config.json", path);
    TideStatus status = read_open(t, file, MOST_CONFIG, &json);
    JsonAt root = read_root(&json);
    if (!status) status = read_config(&root, c);
    read_close(&json);
    free(file);
    return status;
}

/* What the header does not say is fixed in run.c. */
static TideStatus read_llama2c(Tide *t, const char *path, ModelConfig *c)
{
    Llama2c h;

    TRY(llama2c_header(t, path, &h));
    snprintf(c->family, sizeof c->family, "llama");
    c->layers = h.layers;
    c->width = h.dim;
    c->heads = h.heads;
    c->kv_heads = h.kv_heads;
    c->vocab = h.vocab;
    c->inner = h.hidden;
    c->seq = c->positions = h.seq;
    c->untied = !h.shared;
    c->no_bias = true;
    c->norm_eps = 1e-5;
    c->rope = (Rope){ .theta = 10000 };
    return TIDE_OK;
}

TideStatus model_files_config(Tide *t, const char *path, ModelConfig *out)
{
    *out = defaults();
    take_name(path, out);
    if (is_folder(path)) return read_folder(t, path, out);
    return read_llama2c(t, path, out);
}
