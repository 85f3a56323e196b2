/* cudnn_attention.c - builds and runs the engines that cuDNN has for attention. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/cuda/attention_engines.h"
#include "kernels/cuda/cudnn/cudnn_describe.h"
#include "kernels/cuda/cudnn/cudnn_graph.h"
#include "runtime/base.h"

struct CudnnAttention {
    AttentionShape s;
    CudnnGraph graph; /* owns the descriptors */
    CudnnDescriptor plan;
    cudnnHandle_t handle;
    int64_t workspace; /* bytes that the engine takes, behind delta */
    float scale, lowest, one;
};

/* ---- The library -------------------------------------------------------------------- */

enum { LEAST_VERSION = 90100 };

TideStatus cudnn_attention_open(Device *d, void **handle)
{
    cudnnHandle_t h = NULL;

    *handle = NULL;
    if (cudnnGetVersion() < LEAST_VERSION) return TIDE_OK; /* our own kernels serve */
    cudnnStatus_t status = cudnnCreate(&h);
    if (status) return cuda_fail(d, TIDE_DEVICE, "cudnnCreate: %s", cudnnGetErrorString(status));
    *handle = h;
    return TIDE_OK;
}

void cudnn_attention_close(void *handle)
{
    if (handle) cudnnDestroy(handle);
}

size_t cudnn_attention_version(void)
{
    return cudnnGetVersion();
}

/* ---- Scratch ---------------------------------------------------------------------------- */

enum { LONGEST = 4096, BLOCK_TOKENS = 128, SMALL_BYTES = 4096 };

/* Backward keeps the gradients of a head's scores, 2 bytes each, and per-head gradients of keys that
 * are shared. Longer sequences are not worth that much memory. */
size_t cudnn_attention_scratch_bytes(const AttentionShape *s)
{
    bool fits = (s->type == TIDE_BF16 || s->type == TIDE_F16) && !s->dropout && s->head_dim % 8 == 0 &&
                s->tokens <= LONGEST;
    size_t tokens = align_up((size_t)s->tokens, BLOCK_TOKENS), heads = (size_t)(s->batch * s->heads);
    size_t shared = s->heads == s->kv_heads ? 0 : 2 * tokens * align_up((size_t)s->head_dim, 64) * 2;

    if (!fits) return 0;
    if (!s->backward) return SMALL_BYTES;
    return attention_delta_bytes(s) + heads * (tokens * tokens * 2 + shared) + SMALL_BYTES;
}

size_t cudnn_attention_workspace(const CudnnAttention *a)
{
    return (size_t)a->workspace + (a->s.backward ? attention_delta_bytes(&a->s) : 0);
}

/* ---- Engines ---------------------------------------------------------------------------- */

static CudnnValue one_descriptor(CudnnDescriptor *d)
{
    return (CudnnValue){ CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, d };
}

static CudnnDescriptor describe(CudnnGraph *g, const CudnnTarget *target, const AttentionShape *s)
{
    cudnnHandle_t handle = target->handle;

    if (s->backward)
        cudnn_describe_attention_grad(g, s);
    else
        cudnn_describe_attention(g, s);
    CudnnDescriptor all = cudnn_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnn_set(g, all, CUDNN_ATTR_OPERATIONGRAPH_OPS,
              (CudnnValue){ CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops, g->ops });
    if (handle)
        cudnn_set(g, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, (CudnnValue){ CUDNN_TYPE_HANDLE, 1, &handle });
    cudnn_finish(g, all, "graph");
    return all;
}

/* Say for which device, where that is not the handle's. */
static void aim(CudnnGraph *g, CudnnDescriptor d, cudnnBackendAttributeName_t name, const CudnnTarget *target)
{
    CudnnDescriptor properties = target->properties;

    if (properties) cudnn_set(g, d, name, one_descriptor(&properties));
}

/* Engines are asked for by number, with knobs: both are the name. */
typedef struct Knob {
    cudnnBackendKnobType_t type;
    int64_t value;
} Knob;
enum { MAX_KNOBS = 16 };

static bool is_deterministic(CudnnDescriptor engine)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t n = 0;
    bool same = !cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, notes);

    for (int64_t i = 0; same && i < n; i++) same = notes[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    return same;
}

static bool read_knob(CudnnDescriptor choice, Knob *k)
{
    int64_t n = 0;

    return !cudnnBackendGetAttribute(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &n,
                                     &k->type) &&
           !cudnnBackendGetAttribute(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &n,
                                     &k->value);
}

/* "cudnn <engine> <knob>=<value> ..." of a configuration; false if it is none that we may use. */
static bool write_name(CudnnGraph *g, CudnnDescriptor config, char *name)
{
    CudnnDescriptor engine = cudnn_make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR), choices[MAX_KNOBS];
    int64_t n = 0, number = 0;

    for (int i = 0; i < MAX_KNOBS; i++) choices[i] = cudnn_make(g, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    if (g->status ||
        cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                 &engine) ||
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, &number) ||
        !is_deterministic(engine))
        return false;
    int length = snprintf(name, NUMERICS_VALUE_BYTES, "cudnn %lld", (long long)number);
    n = 0;
    if (cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 MAX_KNOBS, &n, choices))
        return false;
    for (int64_t i = 0; i < n && i < MAX_KNOBS; i++) {
        Knob k;
        if (!read_knob(choices[i], &k)) return false;
        length += snprintf(name + length, (size_t)(NUMERICS_VALUE_BYTES - length), " %d=%lld", (int)k.type,
                           (long long)k.value);
    }
    return true;
}

/* Append the names of what one kind of heuristic proposes; returns how many there are now. */
static int ask(CudnnGraph *g, CudnnDescriptor heuristic, CudnnName *names, int have, int most)
{
    CudnnDescriptor config[CUDNN_GRAPH_OPS];
    int64_t n = 0;
    int tries = most < CUDNN_GRAPH_OPS ? most : CUDNN_GRAPH_OPS;

    for (int i = 0; i < tries; i++) config[i] = cudnn_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->status || cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, tries, &n, config))
        return have;
    for (int64_t i = 0; i < n && have < most; i++) have += write_name(g, config[i], names[have]);
    return have;
}

int cudnn_attention_names(const CudnnTarget *target, const AttentionShape *s, CudnnName *names, int n,
                          char *why)
{
    CudnnGraph *g = calloc(1, sizeof *g);
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int have = 0;

    snprintf(why, NUMERICS_VALUE_BYTES, "no engine serves this shape");
    if (!g) return 0;
    CudnnDescriptor all = describe(g, target, s);
    CudnnDescriptor heuristic = cudnn_make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnn_set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, one_descriptor(&all));
    cudnn_set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, (CudnnValue){ CUDNN_TYPE_HEUR_MODE, 1, &mode });
    aim(g, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target);
    cudnn_finish(g, heuristic, "heuristic");
    if (g->status)
        snprintf(why, NUMERICS_VALUE_BYTES, "%s: %s", g->what, cudnnGetErrorString(g->status));
    else
        have = ask(g, heuristic, names, 0, n);
    cudnn_graph_free(g);
    free(g);
    return have;
}

/* ---- Building ------------------------------------------------------------------------------- */

/* The engine and its knobs from a name; false if it is no such name. */
static bool read_name(const char *name, int64_t *engine, Knob *knobs, int *n)
{
    char *at = NULL;

    *n = 0;
    if (strncmp(name, "cudnn ", 6) != 0) return false;
    *engine = strtoll(name + 6, &at, 10);
    if (at == name + 6) return false;
    while (*at && *n < MAX_KNOBS) {
        char *end = NULL;
        Knob *k = &knobs[(*n)++];
        k->type = (cudnnBackendKnobType_t)strtol(at, &end, 10);
        if (end == at || *end != '=') return false;
        at = end + 1;
        k->value = strtoll(at, &end, 10);
        if (end == at) return false;
        at = end;
    }
    return *at == 0;
}

static CudnnDescriptor configure(CudnnGraph *g, const CudnnTarget *target, CudnnDescriptor all,
                                 const char *name)
{
    int64_t number = 0;
    Knob knobs[MAX_KNOBS];
    CudnnDescriptor choices[MAX_KNOBS];
    int n = 0;

    if (!read_name(name, &number, knobs, &n)) return NULL;
    CudnnDescriptor engine = cudnn_make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnn_set(g, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, one_descriptor(&all));
    cudnn_set(g, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, (CudnnValue){ CUDNN_TYPE_INT64, 1, &number });
    aim(g, engine, CUDNN_ATTR_ENGINE_DEVICEPROP, target);
    cudnn_finish(g, engine, "engine");
    for (int i = 0; i < n; i++) {
        choices[i] = cudnn_make(g, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        cudnn_set(g, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                  (CudnnValue){ CUDNN_TYPE_KNOB_TYPE, 1, &knobs[i].type });
        cudnn_set(g, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                  (CudnnValue){ CUDNN_TYPE_INT64, 1, &knobs[i].value });
        cudnn_finish(g, choices[i], "knob");
    }
    CudnnDescriptor config = cudnn_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    cudnn_set(g, config, CUDNN_ATTR_ENGINECFG_ENGINE, one_descriptor(&engine));
    if (n)
        cudnn_set(g, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                  (CudnnValue){ CUDNN_TYPE_BACKEND_DESCRIPTOR, n, choices });
    cudnn_finish(g, config, "engine configuration");
    return config;
}

/* The execution plan, which compiles the kernel. */
static void build(CudnnAttention *a, const CudnnTarget *target, const char *name)
{
    CudnnGraph *g = &a->graph;
    CudnnDescriptor config = configure(g, target, describe(g, target, &a->s), name);
    int64_t n = 0;

    if (!config) return;
    CudnnDescriptor plan = cudnn_make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (a->handle)
        cudnn_set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                  (CudnnValue){ CUDNN_TYPE_HANDLE, 1, &a->handle });
    cudnn_set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, one_descriptor(&config));
    aim(g, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target);
    cudnn_finish(g, plan, "execution plan");
    if (!g->status && !cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                CUDNN_TYPE_INT64, 1, &n, &a->workspace))
        a->plan = plan;
}

CudnnAttention *cudnn_attention_new(const CudnnTarget *target, const AttentionShape *s, const char *name,
                                    char *why)
{
    CudnnAttention *a = calloc(1, sizeof *a);

    snprintf(why, NUMERICS_VALUE_BYTES, "no such engine as \"%.60s\"", name);
    if (!a) return NULL;
    *a = (CudnnAttention){ .s = *s, .handle = target->handle, .lowest = -FLT_MAX, .one = 1.0f };
    a->scale = 1.0f / sqrtf((float)s->head_dim);
    build(a, target, name);
    bool fits = a->plan && cudnn_attention_workspace(a) <= cudnn_attention_scratch_bytes(s);
    if (fits) return a;
    if (a->graph.status)
        snprintf(why, NUMERICS_VALUE_BYTES, "%s: %s", a->graph.what, cudnnGetErrorString(a->graph.status));
    else if (a->plan)
        snprintf(why, NUMERICS_VALUE_BYTES, "it takes %zu bytes of scratch, %zu were planned",
                 cudnn_attention_workspace(a), cudnn_attention_scratch_bytes(s));
    cudnn_attention_free(a);
    return NULL;
}

void cudnn_attention_free(CudnnAttention *a)
{
    if (!a) return;
    cudnn_graph_free(&a->graph);
    free(a);
}

/* ---- Running ---------------------------------------------------------------------------------- */

typedef struct Binding {
    int64_t id;
    const void *at;
} Binding;
enum { MAX_BINDINGS = 13 };

/* Queries, keys and values inside a packed row, element_bytes each. */
static const void *part(const AttentionShape *s, const void *packed, int64_t heads_before)
{
    return (const char *)packed + heads_before * s->head_dim * (int64_t)type_bytes((TideType)s->type);
}

static int bind(const CudnnAttention *a, const AttentionCall *c, Binding *b)
{
    const AttentionShape *s = &a->s;
    int64_t k = s->heads, v = s->heads + s->kv_heads;
    int n = 0;

    b[n++] = (Binding){ ID_Q, part(s, c->qkv, 0) };
    b[n++] = (Binding){ ID_K, part(s, c->qkv, k) };
    b[n++] = (Binding){ ID_V, part(s, c->qkv, v) };
    b[n++] = (Binding){ ID_SCALE, &a->scale };
    b[n++] = (Binding){ ID_LOWEST, &a->lowest };
    b[n++] = (Binding){ ID_STATS, s->backward ? c->lse : c->lse_out };
    b[n++] = (Binding){ ID_O, s->backward ? c->o : c->out };
    if (!s->backward) return n;
    b[n++] = (Binding){ ID_DO, c->d_o };
    b[n++] = (Binding){ ID_DQ, part(s, c->out, 0) };
    b[n++] = (Binding){ ID_DK, part(s, c->out, k) };
    b[n++] = (Binding){ ID_DV, part(s, c->out, v) };
    b[n++] = (Binding){ ID_DELTA, c->scratch };
    b[n++] = (Binding){ ID_ONE, &a->one };
    return n;
}

/* A variant pack is a small host object that holds the addresses of one call. */
static cudnnStatus_t execute(const CudnnAttention *a, const AttentionCall *c)
{
    Binding b[MAX_BINDINGS];
    int64_t ids[MAX_BINDINGS];
    const void *at[MAX_BINDINGS], *workspace = c->scratch;
    int n = bind(a, c, b);
    CudnnGraph g = { 0 };

    if (a->s.backward) workspace = (const char *)c->scratch + attention_delta_bytes(&a->s);
    for (int i = 0; i < n; i++) {
        ids[i] = b[i].id;
        at[i] = b[i].at;
    }
    CudnnDescriptor pack = cudnn_make(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    cudnn_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, (CudnnValue){ CUDNN_TYPE_INT64, n, ids });
    cudnn_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, (CudnnValue){ CUDNN_TYPE_VOID_PTR, n, at });
    cudnn_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
              (CudnnValue){ CUDNN_TYPE_VOID_PTR, 1, &workspace });
    cudnn_finish(&g, pack, "variant pack");
    cudnnStatus_t status = g.status ? g.status : cudnnBackendExecute(a->handle, a->plan, pack);
    cudnn_graph_free(&g);
    return status;
}

TideStatus cudnn_attention_run(Device *d, CudnnAttention *a, const AttentionCall *c)
{
    cudnnStatus_t status = cudnnSetStream(a->handle, c->stream);

    if (!status) status = execute(a, c);
    if (!status) return TIDE_OK;
    return cuda_fail(d, TIDE_DEVICE, "cuDNN attention%s [%lld sequences, %lld positions, %d heads of %d]: %s",
                     a->s.backward ? " gradient" : "", (long long)a->s.batch, (long long)a->s.tokens,
                     a->s.heads, a->s.head_dim, cudnnGetErrorString(status));
}
