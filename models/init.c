/* init.c - starting weights, the same for every device, plan and order of parameters. */
#include <stdlib.h>
#include <string.h>
#include "models/family.h"
#include "models/random.h"
#include "runtime/base.h"

/* Biases start at 0, the weights of norms at 1. */
static void fill_vector(const char *name, float *values, int64_t n)
{
    size_t length = strlen(name), tail = strlen(".weight");
    bool weight = length > tail && strcmp(name + length - tail, ".weight") == 0;

    for (int64_t i = 0; i < n; i++) values[i] = weight ? 1 : 0;
}

static void fill_matrix(const Model *m, const char *name, uint64_t seed, float *values, int64_t n)
{
    const Family *f = family_find(m->config.family);
    float deviation = (float)f->deviation(&m->config, name);

    random_normal(random_key(seed, name), 0, n, values);
    for (int64_t i = 0; i < n; i++) values[i] *= deviation;
}

/* Rows of the padding must be 0: they take no part in the loss and get no gradient. */
static int64_t elements_in_use(const Model *m, const char *name, TideShape s)
{
    if (strcmp(name, family_find(m->config.family)->classes) == 0) s.dim[0] = m->config.vocab;
    return shape_elements(s);
}

static TideStatus write_parameter(const Model *m, TideRun *r, TideTensor x, uint64_t seed, float *values)
{
    const char *name = tide_tensor_name(m->program, x);
    TideShape s = tide_tensor_shape(m->program, x);
    size_t bytes = tide_tensor_bytes(m->program, x);

    memset(values, 0, bytes);
    if (s.n > 1)
        fill_matrix(m, name, seed, values, elements_in_use(m, name, s));
    else
        fill_vector(name, values, shape_elements(s));
    return tide_write(r, x, values, bytes);
}

static TideStatus clear_moment(const Model *m, TideRun *r, TideTensor x, const char *suffix, float *values)
{
    char name[128];
    size_t bytes = tide_tensor_bytes(m->program, x);

    snprintf(name, sizeof name, "%s%s", tide_tensor_name(m->program, x), suffix);
    memset(values, 0, bytes);
    return tide_write(r, tide_tensor_find(m->program, NULL, name), values, bytes);
}

static TideStatus write_all(const Model *m, TideRun *r, uint64_t seed, float *values)
{
    for (int i = 0; i < tide_parameter_count(m->program); i++) {
        TideTensor x = tide_parameter_at(m->program, i);
        TRY(write_parameter(m, r, x, seed, values));
        TRY(clear_moment(m, r, x, ".m", values));
        TRY(clear_moment(m, r, x, ".v", values));
    }
    return TIDE_OK;
}

TideStatus model_init(const Model *m, TideRun *r, uint64_t seed)
{
    size_t most = 0;

    for (int i = 0; i < tide_parameter_count(m->program); i++) {
        size_t bytes = tide_tensor_bytes(m->program, tide_parameter_at(m->program, i));
        if (bytes > most) most = bytes;
    }
    float *values = malloc(most);
    if (!values)
        return tide_fail(tide_program_device(m->program), TIDE_NO_MEMORY,
                         "no memory for %zu bytes of starting weights", most);
    TideStatus status = write_all(m, r, seed, values);
    free(values);
    return status;
}
