/* program.c - the tensors of a program, persistent ones above all.
 *
 * Every parameter, gradient, master and moment is a view into a flat tensor, so
 * that an update and a norm take one launch for each flat. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/program.h"

enum { VIEW_ELEMENTS = 128 }; /* a view starts at a multiple of this many elements */

static const size_t bytes_of_type[] = { [TIDE_F32] = 4, [TIDE_BF16] = 2, [TIDE_F16] = 2, [TIDE_I32] = 4 };
static const char *const name_of_type[] = {
    [TIDE_F32] = "f32", [TIDE_BF16] = "bf16", [TIDE_F16] = "f16", [TIDE_I32] = "i32"
};

size_t type_bytes(TideType t)
{
    return bytes_of_type[t];
}
const char *type_name(TideType t)
{
    return name_of_type[t];
}

int64_t shape_elements(TideShape s)
{
    int64_t n = 1;

    for (int i = 0; i < s.n; i++) n *= s.dim[i];
    return n;
}

bool shape_is_sane(TideShape s)
{
    int64_t limit = (int64_t)1 << 46;

    if (s.n < 0 || s.n > TIDE_MAX_DIMS) return false;
    for (int i = 0; i < s.n; i++) {
        if (s.dim[i] < 1 || s.dim[i] > limit) return false;
        limit /= s.dim[i];
    }
    return limit > 0;
}

void program_refuse(TideProgram *p, TideStatus status, const char *format, ...)
{
    va_list args;

    if (p->status) return;
    p->status = status;
    va_start(args, format);
    vsnprintf(p->mistake, sizeof p->mistake, format, args);
    va_end(args);
}

char *program_format(TideProgram *p, const char *format, ...)
{
    va_list args, again;
    char *text = NULL;

    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length >= 0) text = malloc((size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    else
        program_refuse(p, TIDE_NO_MEMORY, "no memory for a name");
    va_end(again);
    va_end(args);
    return text;
}

bool program_grow(TideProgram *p, void *array, int n, size_t item)
{
    void **pointer = array;

    if (n & (n - 1)) return true; /* room up to the next power of two */
    void *grown = realloc(*pointer, (size_t)(n ? 2 * n : 1) * item);
    if (!grown) {
        program_refuse(p, TIDE_NO_MEMORY, "no memory for %d items of %zu bytes", 2 * n, item);
        return false;
    }
    *pointer = grown;
    return true;
}

int program_add_tensor(TideProgram *p, Tensor t)
{
    Tensor *copy = t.name ? malloc(sizeof *copy) : NULL;

    if (copy && program_grow(p, &p->tensors, p->n_tensors, sizeof *p->tensors)) {
        *copy = t;
        p->tensors[p->n_tensors] = copy;
        return p->n_tensors++;
    }
    program_refuse(p, TIDE_NO_MEMORY, "no memory for a tensor");
    free(copy);
    free(t.name);
    return 0;
}

TideProgram *tide_program_new(Tide *t)
{
    TideProgram *p = calloc(1, sizeof *p);

    if (!p) return NULL;
    p->tide = t;
    if (program_grow(p, &p->tensors, 0, sizeof *p->tensors)) { /* tensor 0 is "no tensor" */
        p->tensors[0] = NULL;
        p->n_tensors = 1;
    }
    return p;
}

void tide_program_free(TideProgram *p)
{
    if (!p) return;
    for (int i = 0; i < p->n_graphs; i++) graph_free(p->graphs[i]);
    for (int i = 1; i < p->n_tensors; i++) {
        free(p->tensors[i]->name);
        free(p->tensors[i]);
    }
    free(p->graphs);
    free(p->tensors);
    free(p);
}

/* Kernels know the types that their backend names and take all others for one of these. */
static TideStatus check_types(const TideProgram *p, const TideGraph *g, const Node *n)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const Tensor *t = program_tensor(p, i < n->n_in ? n->in[i].id : n->out[i - n->n_in].id);
        if (!t || p->tide->backend->types & 1u << t->type) continue;
        return tide_fail(p->tide, TIDE_BAD_GRAPH,
                         "graph %s: node %s works on %s, which is %s, but device %s "
                         "does not compute in that type",
                         g->name, n->name, t->name, type_name(t->type), p->tide->name);
    }
    return TIDE_OK;
}

TideStatus tide_program_check(const TideProgram *p)
{
    if (!p) return TIDE_NO_MEMORY;
    if (p->status) return tide_fail(p->tide, p->status, "%s", p->mistake);
    for (int i = 0; i < p->n_graphs; i++)
        for (int j = 0; j < p->graphs[i]->n_nodes; j++)
            TRY(check_types(p, p->graphs[i], p->graphs[i]->nodes[j]));
    return TIDE_OK;
}

Tide *tide_program_device(const TideProgram *p)
{
    return p->tide;
}

TideTensor tide_flat(TideProgram *p, const char *name, TideKind kind, TideType type)
{
    TideTensor flat = { 0 };

    if (!p || p->status) return flat;
    assert(kind == TIDE_PARAMETER || kind == TIDE_GRADIENT || kind == TIDE_STATE);
    flat.id = program_add_tensor(p, (Tensor){ .type = type,
                                              .kind = kind,
                                              .shape = { 1, { 0 } },
                                              .graph = -1,
                                              .name = program_format(p, "%s", name) });
    return flat;
}

TideTensor tide_flat_view(TideProgram *p, TideTensor flat, const char *name, TideShape shape)
{
    TideTensor view = { 0 };

    if (!p || p->status || !flat.id) return view;
    if (!shape_is_sane(shape)) {
        program_refuse(p, TIDE_BAD_GRAPH,
                       "%s: every dimension must be at least 1 and the whole fit in memory", name);
        return view;
    }
    Tensor *f = p->tensors[flat.id];
    size_t item = type_bytes(f->type), offset = align_up(f->bytes, VIEW_ELEMENTS * item);
    Tensor t = { .type = f->type,
                 .kind = f->kind,
                 .shape = shape,
                 .graph = -1,
                 .flat = flat.id,
                 .flat_offset = offset,
                 .bytes = (size_t)shape_elements(shape) * item,
                 .name = program_format(p, "%s", name) };

    f->bytes = align_up(offset + t.bytes, VIEW_ELEMENTS * item);
    f->shape.dim[0] = (int64_t)(f->bytes / item);
    view.id = program_add_tensor(p, t);
    return view;
}

void tide_set_gradient(TideProgram *p, TideTensor parameter, TideTensor gradient, bool accumulate)
{
    if (!p || p->status || !parameter.id || !gradient.id) return;
    Tensor *x = p->tensors[parameter.id], *dx = p->tensors[gradient.id];

    assert(x->kind == TIDE_PARAMETER && dx->kind == TIDE_GRADIENT);
    assert(shape_elements(x->shape) == shape_elements(dx->shape));
    assert(dx->type == TIDE_F32 || dx->type == x->type); /* what kernels write */
    x->gradient = gradient.id;
    dx->accumulate = accumulate;
}

static bool is_parameter_view(const Tensor *t)
{
    return t->kind == TIDE_PARAMETER && t->flat;
}

int tide_parameter_count(const TideProgram *p)
{
    int n = 0;

    for (int i = 1; i < p->n_tensors; i++) n += is_parameter_view(p->tensors[i]);
    return n;
}

TideTensor tide_parameter_at(const TideProgram *p, int i)
{
    for (int id = 1; id < p->n_tensors; id++)
        if (is_parameter_view(p->tensors[id]) && i-- == 0) return (TideTensor){ id };
    return (TideTensor){ 0 };
}

TideTensor tide_gradient_of(const TideProgram *p, TideTensor x)
{
    return (TideTensor){ p->tensors[x.id]->gradient };
}

const char *tide_tensor_name(const TideProgram *p, TideTensor x)
{
    return p->tensors[x.id]->name;
}
TideShape tide_tensor_shape(const TideProgram *p, TideTensor x)
{
    return p->tensors[x.id]->shape;
}
TideType tide_tensor_type(const TideProgram *p, TideTensor x)
{
    return p->tensors[x.id]->type;
}
size_t tide_tensor_bytes(const TideProgram *p, TideTensor x)
{
    return p->tensors[x.id]->bytes;
}

TideTensor tide_tensor_find(const TideProgram *p, const TideGraph *g, const char *name)
{
    int owner = g ? g->index : -1;

    for (int i = 1; i < p->n_tensors; i++)
        if (p->tensors[i]->graph == owner && strcmp(p->tensors[i]->name, name) == 0) return (TideTensor){ i };
    return (TideTensor){ 0 };
}

void node_infos(const TideProgram *p, const Node *n, const Tensor **in_info, const Tensor **out_info)
{
    for (int i = 0; i < n->n_in; i++) in_info[i] = program_tensor(p, n->in[i].id);
    for (int i = 0; i < n->n_out; i++) out_info[i] = program_tensor(p, n->out[i].id);
}

size_t node_scratch(const TideProgram *p, const Node *n)
{
    const Backend *be = p->tide->backend;
    const Tensor *in[n->n_in + 1], *out[OP_MAX_OUT];

    node_infos(p, n, in, out);
    if (be->scratch) return be->scratch(p->tide->device, n, in, out);
    const Kernel *k = be->kernels[n->op->id];
    return k->scratch ? k->scratch(n, in, out) : 0;
}

double node_flops(const TideProgram *p, const Node *n)
{
    const Tensor *in[n->n_in + 1], *out[OP_MAX_OUT];

    node_infos(p, n, in, out);
    if (n->op->flops) return n->op->flops(n, in, out);
    return out[0] ? (double)shape_elements(out[0]->shape) : 0;
}

/* ---- Hashes ------------------------------------------------------------- */

static uint64_t hash_bytes(uint64_t h, const void *data, size_t n)
{
    const unsigned char *byte = data;

    for (size_t i = 0; i < n; i++) h = (h ^ byte[i]) * 0x100000001b3u;
    return h;
}

static uint64_t hash_int(uint64_t h, int64_t value)
{
    return hash_bytes(h, &value, sizeof value);
}
static uint64_t hash_text(uint64_t h, const char *s)
{
    return hash_bytes(h, s, strlen(s) + 1);
}

static uint64_t hash_tensor(uint64_t h, const Tensor *t)
{
    h = hash_text(h, t->name);
    h = hash_int(hash_int(hash_int(h, t->type), t->kind), t->graph);
    h = hash_int(hash_int(h, t->flat), (int64_t)t->flat_offset);
    h = hash_int(hash_int(h, t->gradient), t->output);
    for (int i = 0; i < t->shape.n; i++) h = hash_int(h, t->shape.dim[i]);
    return h;
}

static uint64_t hash_node(uint64_t h, const Node *n)
{
    h = hash_text(h, n->op->name);
    h = hash_int(hash_int(h, n->again), n->phase);
    for (int i = 0; i < n->n_in; i++) h = hash_int(h, n->in[i].id);
    for (int i = 0; i < n->n_out; i++) h = hash_int(h, n->out[i].id);
    return hash_bytes(h, n->attr.bytes, sizeof n->attr.bytes);
}

static const uint64_t fnv_start = 0xcbf29ce484222325u;

uint64_t program_hash(const TideProgram *p)
{
    uint64_t h = fnv_start;

    for (int i = 1; i < p->n_tensors; i++) h = hash_tensor(h, p->tensors[i]);
    for (int i = 0; i < p->n_graphs; i++) {
        h = hash_text(h, p->graphs[i]->name);
        for (int j = 0; j < p->graphs[i]->n_nodes; j++) h = hash_node(h, p->graphs[i]->nodes[j]);
    }
    return h;
}

uint64_t numerics_hash(const TideProgram *p, const char *record)
{
    const Tide *t = p->tide;
    uint64_t h = hash_text(hash_text(fnv_start, t->backend->name), t->backend->versions(t->device));

    h = hash_int(h, t->options.tf32);
    return record ? hash_text(h, record) : h;
}
