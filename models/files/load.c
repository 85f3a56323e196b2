/* load.c - from the tensors of files to the parameters of a model. */
#include <stdlib.h>
#include <string.h>
#include "models/files/architecture.h"
#include "models/files/model_files.h"
#include "models/files/stored.h"
#include "runtime/base.h"

enum { STRETCH = 1 << 20 }; /* numbers that are read at a time */

typedef struct Load {
    const Model *model;
    const Architecture *architecture;
    StoredList *files;
    float *values;      /* the numbers of one parameter */
    float *rows;        /* a stretch of them, as the file orders them */
    int64_t most, room; /* numbers of values and rows */
} Load;

/* ---- Finding tensors --------------------------------------------------------------- */

static Stored *find(const Load *l, const char *name)
{
    Stored *x = stored_find(l->files, name);
    char longer[256];

    if (x || !*l->architecture->prefix) return x;
    snprintf(longer, sizeof longer, "%.64s%.128s", l->architecture->prefix, name);
    return stored_find(l->files, longer);
}

static TideStatus find_or_refuse(const Load *l, const char *name, Stored **out)
{
    Tide *t = l->files->tide;
    bool head = strcmp(name, l->architecture->head) == 0;

    *out = find(l, name);
    if (*out) return TIDE_OK;
    return tide_fail(t, TIDE_BAD_FILE, "%s: there is no tensor %s%s", l->files->path, name,
                     head ? ", but tie_word_embeddings is false, so the head is not the embedding" : "");
}

static TideStatus check_shape(const Load *l, const Stored *x, int n, const int64_t *dim)
{
    char has[DIMS_TEXT], wants[DIMS_TEXT];

    if (x->n_dims != n || memcmp(x->dim, dim, (size_t)n * sizeof *dim) != 0)
        return tide_fail(l->files->tide, TIDE_BAD_FILE,
                         "%s: tensor %s has the shape %s, but the model needs %s", x->path, x->name,
                         dims_text(x->n_dims, x->dim, has), dims_text(n, dim, wants));
    if (!x->has_type || x->type == TIDE_I32)
        return tide_fail(l->files->tide, TIDE_BAD_FILE,
                         "%s: tensor %s is of type %s; weights are F32, F16 or BF16", x->path, x->name,
                         x->dtype);
    return TIDE_OK;
}

/* The tensor that fills a piece of a parameter of that shape. */
static TideStatus find_piece(const Load *l, const Piece *p, TideShape shape, Stored **out)
{
    int64_t columns = shape.n > 1 ? shape.dim[1] : 0;
    int64_t dim[2] = { p->transposed ? columns : p->rows, p->transposed ? p->rows : columns };

    TRY(find_or_refuse(l, p->name, out));
    return check_shape(l, *out, shape.n, dim);
}

static int pieces_of(const Load *l, TideTensor x, Piece out[MOST_PIECES])
{
    const TideProgram *p = l->model->program;

    return l->architecture->pieces(&l->model->config, tide_tensor_name(p, x), tide_tensor_shape(p, x).dim[0],
                                   out);
}

/* ---- Checking ------------------------------------------------------------------------ */

static TideStatus check_parameter(const Load *l, TideTensor x)
{
    Piece piece[MOST_PIECES];
    int n = pieces_of(l, x, piece);

    for (int i = 0; i < n; i++) {
        Stored *stored;
        TRY(find_piece(l, &piece[i], tide_tensor_shape(l->model->program, x), &stored));
        stored->used = true;
    }
    return TIDE_OK;
}

/* A head beside an embedding that it is tied to must be that embedding, or one of them would be lost. */
static TideStatus check_tied_head(const Load *l, const Stored *head)
{
    const Stored *embedding = find(l, l->architecture->embedding);
    int64_t n = embedding->dim[0] * embedding->dim[1];

    TRY(check_shape(l, head, embedding->n_dims, embedding->dim));
    for (int64_t first = 0; first < n; first += l->room) {
        int64_t count = n - first < l->room ? n - first : l->room;
        TRY(stored_read(l->files, embedding, first, count, l->rows));
        TRY(stored_read(l->files, head, first, count, l->values));
        if (memcmp(l->rows, l->values, (size_t)count * sizeof(float)) != 0)
            return tide_fail(l->files->tide, TIDE_BAD_FILE,
                             "%s: tensors %s and %s differ, but the model has one matrix for both; set "
                             "tie_word_embeddings to false in config.json",
                             head->path, head->name, embedding->name);
    }
    return TIDE_OK;
}

static bool is_ignored(const Architecture *a, const char *name)
{
    size_t n = strlen(name);

    for (const char *const *end = a->ignored; *end; end++) {
        size_t m = strlen(*end);
        if (n >= m && strcmp(name + n - m, *end) == 0) return true;
    }
    return false;
}

/* What nobody asks for would be lost: layers, or biases. */
static TideStatus check_rest(const Load *l)
{
    const Architecture *a = l->architecture;

    for (size_t i = 0; i < l->files->n; i++) {
        const Stored *x = &l->files->tensors[i];
        if (x->used || is_ignored(a, x->name)) continue;
        if (strcmp(x->name, a->head) == 0 && !l->model->config.untied)
            TRY(check_tied_head(l, x));
        else
            return tide_fail(l->files->tide, TIDE_BAD_FILE,
                             "%s: tensor %s has no place in a model of %d layers, width %d and %s biases",
                             x->path, x->name, l->model->config.layers, l->model->config.width,
                             l->model->config.no_bias ? "no" : "with");
    }
    return TIDE_OK;
}

static TideStatus check_all(const Load *l)
{
    const TideProgram *p = l->model->program;

    for (int i = 0; i < tide_parameter_count(p); i++) TRY(check_parameter(l, tide_parameter_at(p, i)));
    return check_rest(l);
}

/* ---- Reading --------------------------------------------------------------------------- */

/* Where a row of a tensor stands here: in a head of llama2.c, whose neighbours turn together, row 2j + r is
 * row r * n/2 + j. */
static int64_t place_of(const Stored *x, int64_t row)
{
    int64_t n = x->pairs, head, inside;

    if (!n) return row;
    head = row / n;
    inside = row % n;
    return head * n + inside % 2 * (n / 2) + inside / 2;
}

/* count rows of a tensor, from first on, to their places in a parameter of so many columns. */
static void place_rows(const Load *l, const Stored *x, int64_t first, int64_t count, int64_t columns)
{
    for (int64_t i = 0; i < count; i++)
        memcpy(l->values + place_of(x, first + i) * columns, l->rows + i * columns,
               (size_t)columns * sizeof(float));
}

/* The same for a tensor that is transposed: its rows are columns here, its `height` columns the rows. */
static void place_transposed(float *to, const float *rows, int64_t count, int64_t height, int64_t columns)
{
#pragma omp parallel for
    for (int64_t row = 0; row < height; row++)
        for (int64_t i = 0; i < count; i++) to[row * columns + i] = rows[i * height + row];
}

/* The values of a piece of a parameter of so many columns, which begin at the piece's first row. */
static TideStatus read_piece(const Load *l, const Piece *p, const Stored *x, int64_t columns)
{
    Load at = *l;
    int64_t rows = p->transposed ? columns : p->rows, width = p->transposed ? p->rows : columns;
    int64_t step = l->room / width;

    at.values += p->first * columns;
    for (int64_t first = 0; first < rows; first += step) {
        int64_t count = rows - first < step ? rows - first : step;
        TRY(stored_read(l->files, x, first * width, count * width, l->rows));
        if (p->transposed)
            place_transposed(at.values + first, l->rows, count, width, columns);
        else
            place_rows(&at, x, first, count, columns);
    }
    return TIDE_OK;
}

static TideStatus read_parameter(const Load *l, TideTensor x)
{
    TideShape shape = tide_tensor_shape(l->model->program, x);
    Piece piece[MOST_PIECES];
    int n = pieces_of(l, x, piece);

    memset(l->values, 0, (size_t)shape_elements(shape) * sizeof(float)); /* rows that pad the vocabulary */
    for (int i = 0; i < n; i++) {
        Stored *stored;
        TRY(find_piece(l, &piece[i], shape, &stored));
        TRY(read_piece(l, &piece[i], stored, shape.n > 1 ? shape.dim[1] : 1));
    }
    return TIDE_OK;
}

/* Round n numbers to a narrower type where they stand. */
static void narrow_in_place(const Load *l, TideType type, int64_t n)
{
    size_t size = type_bytes(type);

    for (int64_t first = 0; type != TIDE_F32 && first < n; first += l->room) {
        int64_t count = n - first < l->room ? n - first : l->room;
        tide_narrow(type, l->values + first, count, l->rows);
        memcpy((char *)l->values + first * (int64_t)size, l->rows, (size_t)count * size);
    }
}

static TideStatus load_parameter(const Load *l, TideRun *r, TideTensor x)
{
    const TideProgram *p = l->model->program;
    TideTensor master = model_master_of(l->model, x);

    TRY(read_parameter(l, x));
    if (master.id) TRY(tide_write(r, master, l->values, tide_tensor_bytes(p, master)));
    narrow_in_place(l, tide_tensor_type(p, x), shape_elements(tide_tensor_shape(p, x)));
    return tide_write(r, x, l->values, tide_tensor_bytes(p, x));
}

/* ---- For callers -------------------------------------------------------------------------- */

/* Memory for the largest parameter, and for a stretch that holds a row of any, however it lies. */
static TideStatus reserve(Load *l)
{
    const TideProgram *p = l->model->program;

    l->room = STRETCH;
    for (int i = 0; i < tide_parameter_count(p); i++) {
        TideShape s = tide_tensor_shape(p, tide_parameter_at(p, i));
        int64_t n = shape_elements(s);
        if (n > l->most) l->most = n;
        for (int d = 0; d < s.n; d++)
            if (s.dim[d] > l->room) l->room = s.dim[d];
    }
    if (l->room > l->most) l->room = l->most;
    l->values = malloc((size_t)l->most * sizeof *l->values);
    l->rows = malloc((size_t)l->room * sizeof *l->rows);
    if (l->values && l->rows) return TIDE_OK;
    return tide_fail(l->files->tide, TIDE_NO_MEMORY, "no memory for %lld numbers, the largest tensor of %s",
                     (long long)l->most, l->files->path);
}

static TideStatus load_open(const Model *m, const char *path, Load *l)
{
    Tide *t = tide_program_device(m->program);

    *l = (Load){ .model = m, .architecture = architecture_by_family(m->config.family) };
    if (!l->architecture)
        return tide_fail(t, TIDE_BAD_GRAPH, "models of family %s have no files of weights", m->config.family);
    TRY(stored_open(t, path, &l->files));
    TRY(reserve(l));
    return check_all(l);
}

static void load_close(Load *l)
{
    stored_close(l->files);
    free(l->values);
    free(l->rows);
}

TideStatus model_files_check(const Model *m, const char *path)
{
    Load l;
    TideStatus status = load_open(m, path, &l);

    load_close(&l);
    return status;
}

TideStatus model_files_load(const Model *m, TideRun *r, const char *path)
{
    Load l;
    TideStatus status = load_open(m, path, &l);

    for (int i = 0; !status && i < tide_parameter_count(m->program); i++)
        status = load_parameter(&l, r, tide_parameter_at(m->program, i));
    load_close(&l);
    return status;
}
