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

/* ---- Types ------------------------------------------------------------------------- */

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t to_bf16(float x)
{
    uint32_t bits = bits_of(x);

    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u); /* NaN stays one */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Scaling by 2^-112 moves f16's exponents to where f32 has them, subnormals included. */
static float from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;

    if (rest >= 0x7c00u) return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    return float_of(sign | bits_of(float_of(rest << 13) * 0x1p112f));
}

static uint16_t to_f16(float x)
{
    uint32_t sign = bits_of(x) >> 16 & 0x8000u, rest = bits_of(x) & 0x7fffffffu;

    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 on: infinite */
    if (rest < 0x38800000u) { /* below 2^-14: adding 1/2 rounds to multiples of 2^-24 */
        uint32_t units = bits_of(float_of(rest) + 0.5f) - bits_of(0.5f);
        return (uint16_t)(sign | units);
    }
    rest += 0xfffu + (rest >> 13 & 1u);
    return (uint16_t)(sign | (rest - 0x38000000u) >> 13);
}

void side_widen(TideType from_type, const void *from, int64_t n, float *to)
{
    const uint16_t *half = from;

    if (from_type == TIDE_F32)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = from_type == TIDE_BF16 ? float_of((uint32_t)half[i] << 16) : from_f16(half[i]);
}

void side_narrow(TideType to_type, const float *from, int64_t n, void *to)
{
    uint16_t *half = to;

    if (to_type == TIDE_F32)
        memcpy(to, from, (size_t)n * sizeof *from);
    else
        for (int64_t i = 0; i < n; i++) half[i] = to_type == TIDE_BF16 ? to_bf16(from[i]) : to_f16(from[i]);
}
