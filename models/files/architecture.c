/* architecture.c - the architectures, and how keys of a config.json are read. */
#include <stdlib.h>
#include <string.h>
#include "models/files/architecture.h"
#include "runtime/base.h"

static const Architecture *const architectures[] = { &architecture_gpt2, &architecture_llama };
enum { N_ARCHITECTURES = sizeof architectures / sizeof *architectures };

const Architecture *architecture_by_type(const char *model_type)
{
    for (int i = 0; i < N_ARCHITECTURES; i++)
        if (strcmp(architectures[i]->model_type, model_type) == 0) return architectures[i];
    return NULL;
}

const Architecture *architecture_by_family(const char *family)
{
    for (int i = 0; i < N_ARCHITECTURES; i++)
        if (strcmp(architectures[i]->family, family) == 0) return architectures[i];
    return NULL;
}

const char *architecture_types(void)
{
    static char list[128];
    size_t used = 0;

    for (int i = 0; i < N_ARCHITECTURES && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                 architectures[i]->model_type);
    return list;
}

bool config_has(const JsonAt *config, const char *key, JsonAt *at)
{
    const json_t *value = json_object_get(config->value, key);

    *at = (JsonAt){ .file = config->file, .up = config, .key = key, .value = value };
    return value && !json_is_null(value);
}

TideStatus config_int(const JsonAt *config, const char *key, int most, int *out)
{
    JsonAt at;
    int64_t n = 0;

    if (!config_has(config, key, &at)) return TIDE_OK;
    TRY(read_int(&at, 1, most, &n));
    *out = (int)n;
    return TIDE_OK;
}

TideStatus config_real(const JsonAt *config, const char *key, double most, double *out)
{
    JsonAt at;

    return config_has(config, key, &at) ? read_real(&at, 0, most, out) : TIDE_OK;
}

TideStatus config_flag(const JsonAt *config, const char *key, bool *out)
{
    JsonAt at;

    return config_has(config, key, &at) ? read_flag(&at, out) : TIDE_OK;
}

TideStatus config_demand(const JsonAt *config, const char *key, bool needed)
{
    bool is = needed;
    JsonAt at;

    TRY(config_flag(config, key, &is));
    if (is == needed) return TIDE_OK;
    config_has(config, key, &at);
    return read_refuse(&at, "is %s; a model of that kind is not supported", is ? "true" : "false");
}

void config_write_rate(json_t *config, const char *key, float rate)
{
    char text[32];

    snprintf(text, sizeof text, "%.6g", (double)rate);
    json_object_set_new(config, key, json_real(strtod(text, NULL)));
}
