/* model_choice.c - from --model to a configuration, and from a model to --export. */
#include "examples/model_choice.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "models/files/model_files.h"

static int refuse_model(const Options *o)
{
    const char *names[64], *near;
    char list[512] = "";
    int n = 0;

    for (size_t at = 0; n < 64 && (names[n] = model_preset_name(n)) != NULL && at < sizeof list; n++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", n ? " " : "", names[n]);
    if (!o->model)
        return refuse(o, "--model is missing; the presets are: %s; or give a folder with a config.json",
                      list);
    near = nearest_name(o->model, names, n);
    return refuse(o, "there is no model %s%s%s%s The presets are: %s", o->model,
                  near ? "; did you mean " : ".", near ? near : "", near ? "?" : "", list);
}

int model_find(Session *s, ModelConfig *config)
{
    const Options *o = s->options;

    if (!o->model) return refuse_model(o);
    if (model_preset(o->model, config)) return EXIT_DONE;
    if (!model_files_are(o->model)) return refuse_model(o);
    s->files = o->model;
    return EXIT_DONE;
}

/* An option that changes what the weights mean; NULL: none was given. Most would be found by the shapes of
 * the tensors, but heads have none. */
static const char *changing_option(const Options *o)
{
    const struct {
        const char *name;
        bool given;
    } options[] = { { "--layers", o->layers },     { "--width", o->width }, { "--heads", o->heads },
                    { "--kv-heads", o->kv_heads }, { "--vocab", o->vocab }, { "--no-bias", o->no_bias },
                    { "--gelu", o->gelu } };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].given) return options[i].name;
    return NULL;
}

int model_read_config(const Session *s, ModelConfig *config)
{
    const Options *o = s->options;
    const char *odd = changing_option(o);
    TideStatus status = model_files_config(s->tide, s->files, config);

    if (status) return session_fail(s, status);
    if (odd)
        return refuse(o, "%s would change what the weights of %s mean; leave %s out", odd, s->files, odd);
    return EXIT_DONE;
}

TideStatus model_begin(const Session *s, TideRun *r)
{
    TideStatus status = model_init(s->model, r, (uint64_t)s->options->seed);

    return status || !s->files ? status : model_files_load(s->model, r, s->files);
}

/* ---- Export ----------------------------------------------------------------------------- */

/* The folder that a path lies in. */
static void parent_of(const char *path, char *parent, size_t size)
{
    snprintf(parent, size, "%s", path);
    for (size_t n = strlen(parent); n > 1 && parent[n - 1] == '/'; n--) parent[n - 1] = 0;
    char *slash = strrchr(parent, '/');
    if (!slash)
        snprintf(parent, size, ".");
    else
        slash[slash == parent] = 0;
}

int export_check(const Session *s)
{
    const char *folder = s->options->export_folder;
    char parent[4096];
    struct stat facts;

    if (!folder) return EXIT_DONE;
    if (model_files_can_save(s->model)) return session_fail(s, TIDE_BAD_GRAPH);
    bool there = stat(folder, &facts) == 0;
    if (there && !S_ISDIR(facts.st_mode)) return refuse(s->options, "--export %s is no folder", folder);
    parent_of(folder, parent, sizeof parent);
    if (access(there ? folder : parent, W_OK | X_OK))
        return refuse(s->options, "--export %s cannot be written: %s", folder, strerror(errno));
    return EXIT_DONE;
}

TideStatus export_model(const Session *s, TideRun *r)
{
    const char *folder = s->options->export_folder;

    return folder ? model_files_save(s->model, r, folder) : TIDE_OK;
}
