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

    random_normal(random_key(seed, name), 0, n, deviation, values);
}

/* Rows of the padding must be 0: they take no part in the loss and get no gradient. */
static int64_t elements_in_use(const Model *m, const char *name, TideShape s)
{
    if (family_has_classes(family_find(m->config.family), name)) s.dim[0] = m->config.vocab;
    return shape_elements(s);
}

/* Numbers of one tensor at a time: as they are made, and as the tensor stores them. */
typedef struct Staging {
    float *values;
    void *stored;
} Staging;

static TideStatus write_values(const Model *m, TideRun *r, TideTensor x, const Staging *s)
{
    TideShape shape = tide_tensor_shape(m->program, x);

    tide_narrow(tide_tensor_type(m->program, x), s->values, shape_elements(shape), s->stored);
    return tide_write(r, x, s->stored, tide_tensor_bytes(m->program, x));
}

TideTensor model_master_of(const Model *m, TideTensor x)
{
    char name[128];

    snprintf(name, sizeof name, "%s.master", tide_tensor_name(m->program, x));
    return tide_tensor_find(m->program, NULL, name);
}

static TideStatus write_parameter(const Model *m, TideRun *r, TideTensor x, uint64_t seed, const Staging *s)
{
    const char *name = tide_tensor_name(m->program, x);
    TideShape shape = tide_tensor_shape(m->program, x);
    TideTensor master = model_master_of(m, x);

    if (shape.n > 1) {
        int64_t n = elements_in_use(m, name, shape);
        fill_matrix(m, name, seed, s->values, n);
        memset(s->values + n, 0, (size_t)(shape_elements(shape) - n) * sizeof *s->values);
    } else
        fill_vector(name, s->values, shape_elements(shape));
    if (master.id) TRY(write_values(m, r, master, s));
    return write_values(m, r, x, s);
}

static TideStatus write_all(const Model *m, TideRun *r, uint64_t seed, const Staging *s)
{
    for (int i = 0; i < tide_parameter_count(m->program); i++)
        TRY(write_parameter(m, r, tide_parameter_at(m->program, i), seed, s));
    return TIDE_OK;
}

static TideStatus write_scaling(const Model *m, TideRun *r)
{
    TideScaling start = { .scale = m->config.loss_scale };

    return m->scaling.id ? tide_write(r, m->scaling, &start, sizeof start) : TIDE_OK;
}

TideStatus model_init(const Model *m, TideRun *r, uint64_t seed)
{
    int64_t most = 0;

    for (int i = 0; i < tide_parameter_count(m->program); i++) {
        int64_t n = shape_elements(tide_tensor_shape(m->program, tide_parameter_at(m->program, i)));
        if (n > most) most = n;
    }
    size_t bytes = (size_t)most * sizeof(float);
    Staging s = { malloc(bytes), malloc(bytes) };
    TideStatus status = s.values && s.stored ? write_all(m, r, seed, &s) : TIDE_NO_MEMORY;
    if (status == TIDE_NO_MEMORY)
        tide_fail(tide_program_device(m->program), status,
                  "no memory for twice %zu bytes of starting weights", bytes);
    free(s.values);
    free(s.stored);
    if (!status) status = write_scaling(m, r);
    return status;
}
