/* side.c - see side.h. */
#include "tests/support/side.h"
#include <stdlib.h>
#include <string.h>
#include "kernels/ops.h"
#include "runtime/base.h"

enum { GUARD = 256, POISON = 0xff };

static const Backend *backend(const Side *s)
{
    return s->tide->backend;
}

/* ---- Getting ready ---------------------------------------------------------------- */

void side_new(Side *s, Tide *t)
{
    s->tide = t;
    s->p = tide_program_new(t);
    s->g = tide_graph_new(s->p, "micro");
}

void side_free(Side *s)
{
    if (s->memory) backend(s)->device_free(s->tide->device, s->memory, s->bytes + s->scratch);
    if (s->stream) backend(s)->stream_free(s->stream);
    free(s->offset);
    tide_program_free(s->p);
}

/* A message of the device becomes that of the Tide. */
static bool works(const Side *s, TideStatus status, const char *what)
{
    if (status) tide_fail(s->tide, status, "%s: %s", what, backend(s)->message(s->tide->device));
    return !status;
}

static void lay_out(Side *s)
{
    size_t alignment = backend(s)->alignment, end = GUARD;

    for (int i = 1; i < s->p->n_tensors; i++) {
        const Tensor *t = s->p->tensors[i];
        s->offset[i] = end;
        if (!t->flat) end += align_up(t->bytes + GUARD, alignment);
    }
    for (int i = 1; i < s->p->n_tensors; i++) {
        const Tensor *t = s->p->tensors[i];
        if (t->flat) s->offset[i] = s->offset[t->flat] + t->flat_offset;
    }
    s->bytes = end;
    s->scratch = GUARD;
    for (int i = 0; i < s->g->n_nodes; i++) {
        size_t bytes = node_scratch(s->p, s->g->nodes[i]);
        if (bytes + GUARD > s->scratch) s->scratch = bytes + GUARD;
    }
}

static bool prepare_nodes(const Side *s)
{
    for (int i = 0; i < s->g->n_nodes; i++) {
        const Node *n = s->g->nodes[i];
        const Kernel *k = backend(s)->kernels[n->op->id];
        void *pointers[n->n_in + n->n_out];
        const Tensor *infos[n->n_in + n->n_out];
        KernelCall call = side_call(s, i, pointers, infos);
        if (k->prepare && !works(s, k->prepare(&call), n->name)) return false;
    }
    return true;
}

bool side_ready(Side *s)
{
    if (!s->g || tide_program_check(s->p)) return false;
    s->offset = calloc((size_t)s->p->n_tensors, sizeof *s->offset);
    if (!s->offset) return false;
    lay_out(s);
    void *memory = NULL;
    if (!works(s, backend(s)->device_alloc(s->tide->device, s->bytes + s->scratch, &memory), "memory"))
        return false;
    s->memory = memory;
    if (!works(s, backend(s)->stream_new(s->tide->device, 0, &s->stream), "stream")) return false;
    if (!works(s, backend(s)->fill(s->stream, memory, POISON, s->bytes + s->scratch), "fill")) return false;
    return works(s, backend(s)->stream_sync(s->stream), "fill") && (s->unprepared || prepare_nodes(s));
}

/* ---- Running ------------------------------------------------------------------ */

void *side_at(const Side *s, int tensor)
{
    return tensor ? s->memory + s->offset[tensor] : NULL;
}

static bool copy(const Side *s, void *to, const void *from)
{
    if (!works(s, backend(s)->copy(s->stream, to, from, s->bytes), "copy")) return false;
    return works(s, backend(s)->stream_sync(s->stream), "copy");
}

bool side_upload(const Side *s, const void *image)
{
    return copy(s, s->memory, image);
}

bool side_download(const Side *s, void *image)
{
    return copy(s, image, s->memory);
}

KernelCall side_call(const Side *s, int node, void **pointers, const Tensor **infos)
{
    const Node *n = s->g->nodes[node];

    node_infos(s->p, n, infos, infos + n->n_in);
    for (int i = 0; i < n->n_in; i++) pointers[i] = side_at(s, n->in[i].id);
    for (int i = 0; i < n->n_out; i++) pointers[n->n_in + i] = side_at(s, n->out[i].id);
    return (KernelCall){ .node = n,
                         .in = pointers,
                         .out = pointers + n->n_in,
                         .in_info = infos,
                         .out_info = infos + n->n_in,
                         .scratch = s->memory + s->bytes,
                         .stream = s->stream,
                         .device = s->tide->device };
}

static TideStatus run_node(const Side *s, int node)
{
    const Node *n = s->g->nodes[node];
    void *pointers[n->n_in + n->n_out];
    const Tensor *infos[n->n_in + n->n_out];
    KernelCall call = side_call(s, node, pointers, infos);

    TRY(backend(s)->fill(s->stream, s->memory + s->bytes, POISON, s->scratch));
    if (n->again) TRY(backend(s)->fill(s->stream, call.out[0], POISON, call.out_info[0]->bytes));
    return backend(s)->launch(backend(s)->kernels[n->op->id], &call);
}

bool side_run_node(const Side *s, int node)
{
    return works(s, run_node(s, node), s->g->nodes[node]->name) &&
           works(s, backend(s)->stream_sync(s->stream), s->g->nodes[node]->name);
}

bool side_run(const Side *s, bool again)
{
    for (int i = 0; i < s->g->n_nodes; i++)
        if (s->g->nodes[i]->again == again && !works(s, run_node(s, i), s->g->nodes[i]->name)) return false;
    return works(s, backend(s)->stream_sync(s->stream), "run");
}

/* ---- Building --------------------------------------------------------------------- */

TideTensor side_persistent(Side *s, const char *name, TideKind kind, TideType type, TideShape shape)
{
    char flat[80];

    snprintf(flat, sizeof flat, "%s.flat", name);
    return tide_flat_view(s->p, tide_flat(s->p, flat, kind, type), name, shape);
}

TideTensor side_parameter(Side *s, const char *name, TideShape shape)
{
    char gradient[64];
    TideTensor x = side_persistent(s, name, TIDE_PARAMETER, s->type, shape);

    snprintf(gradient, sizeof gradient, "%s.gradient", name);
    tide_set_gradient(s->p, x, side_persistent(s, gradient, TIDE_GRADIENT, s->grad, shape), s->accumulate);
    return x;
}

TideTensor side_input(Side *s, const char *name, TideShape shape)
{
    return tide_input(s->g, name, s->type, shape);
}

TideTensor side_ints(Side *s, const char *name, TideShape shape)
{
    return tide_input(s->g, name, TIDE_I32, shape);
}

TideTensor side_info(Side *s)
{
    return tide_input(s->g, "info", TIDE_I32, (TideShape){ 1, { TIDE_INFO_WORDS } });
}
