/* save.c - a model as transformers reads it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "models/files/architecture.h"
#include "models/files/model_files.h"
#include "runtime/base.h"
#include "runtime/io/out_file.h"
#include "runtime/io/safetensors.h"

/* A tensor to write, and where its numbers are: a piece of a parameter; 0: zeros. */
typedef struct Saved {
    TideTensor parameter;
    Piece piece;
} Saved;

typedef struct Save {
    const Model *model;
    const Architecture *architecture;
    TideRun *run;
    Saved *saved;        /* [n] */
    TensorSpec *tensors; /* [n] */
    int n;
    char *values;     /* of one parameter                    */
    char *transposed; /* of one that lies the other way there */
} Save;

static TideProgram *program_of(const Save *s)
{
    return s->model->program;
}

/* ---- What there is to write ----------------------------------------------------------- */

/* The head of a language model is no part of the model that the prefix stands for. */
static void add_tensor(Save *s, Saved saved, TideType type, TideShape shape)
{
    bool head = strcmp(saved.piece.name, s->architecture->head) == 0;
    TensorSpec *spec = &s->tensors[s->n];

    s->saved[s->n++] = saved;
    *spec = (TensorSpec){ .type = type, .shape = shape };
    snprintf(spec->name, sizeof spec->name, "%s%s", head ? "" : s->architecture->prefix, saved.piece.name);
}

static void add_piece(Save *s, TideTensor x, const Piece *p)
{
    TideShape shape = tide_tensor_shape(program_of(s), x);

    shape.dim[0] = p->rows;
    if (p->transposed) {
        shape.dim[0] = shape.dim[1];
        shape.dim[1] = p->rows;
    }
    add_tensor(s, (Saved){ x, *p }, tide_tensor_type(program_of(s), x), shape);
}

/* For "<layer>.weight" of a model without biases "<layer>.bias", as many zeros as the weight has rows. */
static void add_zero_bias(Save *s, TideTensor x)
{
    const char *name = tide_tensor_name(program_of(s), x);
    int length = (int)(strlen(name) - strlen(".weight"));
    Saved zeros = { .piece = { .rows = tide_tensor_shape(program_of(s), x).dim[0] } };

    snprintf(zeros.piece.name, sizeof zeros.piece.name, "%.*s.bias", length, name);
    add_tensor(s, zeros, tide_tensor_type(program_of(s), x), (TideShape){ 1, { zeros.piece.rows } });
}

/* Tables of rows that are looked up, and the head, have no biases anywhere. */
static bool lacks_bias(const Save *s, TideTensor x)
{
    const char *name = tide_tensor_name(program_of(s), x);

    return s->architecture->always_biased && s->model->config.no_bias && strcmp(name, "wte.weight") &&
           strcmp(name, "wpe.weight") && strcmp(name, s->architecture->head);
}

static TideStatus list_tensors(Save *s)
{
    int parameters = tide_parameter_count(program_of(s));
    size_t most = (size_t)parameters * (MOST_PIECES + 1);

    s->saved = calloc(most, sizeof *s->saved);
    s->tensors = calloc(most, sizeof *s->tensors);
    if (!s->saved || !s->tensors) return TIDE_NO_MEMORY;
    for (int i = 0; i < parameters; i++) {
        TideTensor x = tide_parameter_at(program_of(s), i);
        Piece piece[MOST_PIECES];
        int n = s->architecture->pieces(&s->model->config, tide_tensor_name(program_of(s), x),
                                        tide_tensor_shape(program_of(s), x).dim[0], piece);
        for (int p = 0; p < n; p++) add_piece(s, x, &piece[p]);
        if (lacks_bias(s, x)) add_zero_bias(s, x);
    }
    return TIDE_OK;
}

/* ---- Numbers ------------------------------------------------------------------------------ */

static TideStatus reserve(Save *s)
{
    size_t most = 0, turned = 0;

    for (int i = 0; i < s->n; i++) {
        size_t bytes = (size_t)shape_elements(s->tensors[i].shape) * type_bytes(s->tensors[i].type);
        size_t whole =
            s->saved[i].parameter.id ? tide_tensor_bytes(program_of(s), s->saved[i].parameter) : bytes;
        if (whole > most) most = whole;
        if (s->saved[i].piece.transposed && bytes > turned) turned = bytes;
    }
    s->values = malloc(most + 1);
    s->transposed = malloc(turned + 1);
    return s->values && s->transposed ? TIDE_OK : TIDE_NO_MEMORY;
}

/* from [rows, columns] to [columns, rows], of elements of so many bytes. */
static void transpose(const char *from, int64_t rows, int64_t columns, size_t size, char *to)
{
#pragma omp parallel for
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + (size_t)(c * rows + r) * size, from + (size_t)(r * columns + c) * size, size);
}

static TideStatus source(void *context, int i, const void **bytes)
{
    const Save *s = context;
    TideTensor x = s->saved[i].parameter;
    const Piece *p = &s->saved[i].piece;
    size_t size = type_bytes(s->tensors[i].type);

    *bytes = s->values;
    if (!x.id) {
        memset(s->values, 0, (size_t)p->rows * size);
        return TIDE_OK;
    }
    TRY(tide_read(s->run, x, s->values, tide_tensor_bytes(program_of(s), x)));
    TideShape shape = tide_tensor_shape(program_of(s), x);
    int64_t columns = shape.n > 1 ? shape.dim[1] : 1;
    *bytes = s->values + (size_t)(p->first * columns) * size;
    if (!p->transposed) return TIDE_OK;
    transpose(*bytes, p->rows, columns, size, s->transposed);
    *bytes = s->transposed;
    return TIDE_OK;
}

static TideStatus write_weights(Save *s, const char *path)
{
    static const char *const metadata[] = { "format", "pt", NULL }; /* which transformers wants to see */
    Tide *t = tide_program_device(program_of(s));
    TideStatus status = list_tensors(s);

    if (!status) status = reserve(s);
    if (status) return tide_fail(t, status, "no memory to save the weights to %s", path);
    return tensor_file_write(t, path, &(TensorOut){ s->tensors, s->n, metadata, source, s });
}

/* ---- Files ----------------------------------------------------------------------------------- */

static json_t *config_json(const Save *s, const char **reason)
{
    static const char *const types[] = {
        [TIDE_F32] = "float32", [TIDE_BF16] = "bfloat16", [TIDE_F16] = "float16"
    };
    const ModelConfig *c = &s->model->config;
    json_t *j = json_pack("{s:s, s:[s], s:s}", "model_type", s->architecture->model_type, "architectures",
                          s->architecture->class_name, "torch_dtype", types[c->dtype]);

    *reason = s->architecture->write(c, j);
    return j;
}

static TideStatus write_config(Tide *t, const char *path, const json_t *config)
{
    OutFile file;

    if (!out_file_open(&file, path))
        return tide_fail(t, TIDE_IO, "%s cannot be written: %s", path, strerror(errno));
    json_dumpf(config, file.to, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    fputc('\n', file.to);
    if (out_file_close(&file)) return TIDE_OK;
    return tide_fail(t, TIDE_IO, "%s cannot be written: %s", path, strerror(errno));
}

static TideStatus write_files(Save *s, const char *folder, const json_t *config)
{
    Tide *t = tide_program_device(program_of(s));
    size_t size = strlen(folder) + sizeof "/model.safetensors";
    char *path = malloc(size);

    if (!path) return tide_fail(t, TIDE_NO_MEMORY, "no memory to save to %s", folder);
    snprintf(path, size, "%s/model.safetensors", folder);
    TideStatus status = write_weights(s, path);
    snprintf(path, size, "%s/config.json", folder);
    if (!status) status = write_config(t, path, config);
    free(path);
    return status;
}

/* The configuration as JSON, owned by the caller; NULL where it cannot be said. */
static TideStatus describe(const Save *s, json_t **config)
{
    Tide *t = tide_program_device(program_of(s));
    const ModelConfig *c = &s->model->config;
    const char *reason = NULL;

    *config = NULL;
    if (!s->architecture)
        return tide_fail(t, TIDE_BAD_GRAPH, "models of family %s have no files of weights", c->family);
    *config = config_json(s, &reason);
    if (!reason) return TIDE_OK;
    json_decref(*config);
    *config = NULL;
    return tide_fail(t, TIDE_BAD_GRAPH, "a model of type %s cannot say %s", s->architecture->model_type,
                     reason);
}

static Save save_of(const Model *m, TideRun *r)
{
    return (Save){ .model = m, .architecture = architecture_by_family(m->config.family), .run = r };
}

TideStatus model_files_can_save(const Model *m)
{
    Save s = save_of(m, NULL);
    json_t *config;
    TideStatus status = describe(&s, &config);

    json_decref(config);
    return status;
}

TideStatus model_files_save(const Model *m, TideRun *r, const char *folder)
{
    Save s = save_of(m, r);
    json_t *config;
    TideStatus status = describe(&s, &config);

    if (!status && mkdir(folder, 0777) && errno != EEXIST)
        status = tide_fail(tide_program_device(m->program), TIDE_IO, "%s cannot be made: %s", folder,
                           strerror(errno));
    if (!status) status = write_files(&s, folder, config);
    json_decref(config);
    free(s.saved);
    free(s.tensors);
    free(s.values);
    free(s.transposed);
    return status;
}
