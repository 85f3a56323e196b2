/* numeric.c - see numeric.h. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "tests/support/numeric.h"

enum { ALIGNMENT = 64, POISON = 0xff }; /* four bytes 0xff are a NaN */

static void *aligned_new(size_t bytes, int fill)
{
    size_t whole = align_up(bytes + 1, ALIGNMENT);
    void *p = aligned_alloc(ALIGNMENT, whole);

    if (p) memset(p, fill, whole);
    return p;
}

void **numeric_memory_new(const TideProgram *p)
{
    void **memory = calloc((size_t)p->n_tensors, sizeof *memory);

    for (int i = 1; memory && i < p->n_tensors; i++) {
        const Tensor *t = p->tensors[i];
        if (t->flat) continue;
        memory[i] = aligned_new(t->bytes, t->graph < 0 ? 0 : POISON);
        if (memory[i]) continue;
        numeric_memory_free(p, memory);
        return NULL;
    }
    for (int i = 1; memory && i < p->n_tensors; i++) {
        const Tensor *t = p->tensors[i];
        if (t->flat) memory[i] = (char *)memory[t->flat] + t->flat_offset;
    }
    return memory;
}

void numeric_memory_free(const TideProgram *p, void **memory)
{
    for (int i = 1; memory && i < p->n_tensors; i++)
        if (!p->tensors[i]->flat) free(memory[i]);
    free(memory);
}

void numeric_forget(const TideProgram *p, void **memory)
{
    for (int i = 1; i < p->n_tensors; i++)
        if (p->tensors[i]->graph >= 0 && p->tensors[i]->kind != TIDE_INPUT)
            memset(memory[i], POISON, p->tensors[i]->bytes);
}

TideStatus numeric_run_node(const TideGraph *g, int node, void **memory)
{
    const TideProgram *p = g->program;
    const Node *n = g->nodes[node];
    const Kernel *kernel = cpu_backend.kernels[n->op->id];
    const Tensor *in_info[n->n_in + 1], *out_info[OP_MAX_OUT];
    void *in[n->n_in + 1], *out[OP_MAX_OUT];

    node_infos(p, n, in_info, out_info);
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i].id ? memory[n->in[i].id] : NULL;
    for (int i = 0; i < n->n_out; i++) out[i] = n->out[i].id ? memory[n->out[i].id] : NULL;

    size_t bytes = kernel->scratch ? kernel->scratch(n, in_info, out_info) : 0;
    void *scratch = aligned_new(bytes, POISON);
    if (!scratch) return TIDE_NO_MEMORY;
    KernelCall call = { .node = n,
                        .in_info = in_info,
                        .out_info = out_info,
                        .in = in,
                        .out = out,
                        .scratch = scratch,
                        .device = p->tide ? p->tide->device : NULL };
    TideStatus status = kernel->run(&call);
    free(scratch);
    return status;
}

TideStatus numeric_run(const TideGraph *g, void **memory)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i]->again) TRY(numeric_run_node(g, i, memory));
    return TIDE_OK;
}

void scene_open(Scene *s)
{
    *s = (Scene){ .tide = NULL };
    if (tide_open("cpu", (TideDeviceOptions){ 0 }, &s->tide)) return;
    s->p = tide_program_new(s->tide);
    s->g = tide_graph_new(s->p, "micro");
}

TideTensor scene_persistent(Scene *s, const char *name, TideKind kind, TideShape shape)
{
    char flat[80];

    snprintf(flat, sizeof flat, "%s.flat", name);
    return tide_flat_view(s->p, tide_flat(s->p, flat, kind, TIDE_F32), name, shape);
}

TideTensor scene_parameter(Scene *s, const char *name, TideShape shape)
{
    char gradient[64];
    TideTensor x = scene_persistent(s, name, TIDE_PARAMETER, shape);

    snprintf(gradient, sizeof gradient, "%s.gradient", name);
    tide_set_gradient(s->p, x, scene_persistent(s, gradient, TIDE_GRADIENT, shape), false);
    return x;
}

const char *scene_ready(Scene *s)
{
    if (!s->g) return "no device or no memory";
    if (tide_program_check(s->p)) return tide_message(s->tide);
    s->memory = numeric_memory_new(s->p);
    return s->memory ? NULL : "no memory";
}

void scene_close(Scene *s)
{
    if (s->memory) numeric_memory_free(s->p, s->memory);
    tide_program_free(s->p);
    tide_close(s->tide);
}

float *scene_f32(const Scene *s, TideTensor x)
{
    return s->memory[x.id];
}
int32_t *scene_i32(const Scene *s, TideTensor x)
{
    return s->memory[x.id];
}
int64_t scene_elements(const Scene *s, TideTensor x)
{
    return shape_elements(s->p->tensors[x.id]->shape);
}

/* Looked up at run time, so that this file also links without OpenMP. */
bool numeric_threads(int n)
{
    void (*set)(int) = NULL;
    void *self = dlopen(NULL, RTLD_LAZY), *symbol = self ? dlsym(self, "omp_set_num_threads") : NULL;

    if (symbol) memcpy(&set, &symbol, sizeof set);
    if (set) set(n);
    if (self) dlclose(self);
    return set != NULL;
}

/* SplitMix64: the finalizer of (seed, index). */
static uint64_t random_word(uint64_t seed, uint64_t index)
{
    uint64_t z = (seed * 0x2545F4914F6CDD1Du) + (index + 1) * 0x9E3779B97F4A7C15u;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void numeric_random(float *x, int64_t n, float scale, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = scale * ((float)(random_word(seed, (uint64_t)i) >> 40) * 0x1p-23f - 1.0f);
}

void numeric_random_ints(int32_t *x, int64_t n, int32_t below, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (int32_t)((random_word(seed, (uint64_t)i) >> 33) % (uint64_t)below);
}

double numeric_error(const float *a, const double *b, int64_t n)
{
    double worst = 0, largest = 0;

    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(a[i])) return INFINITY;
        worst = fmax(worst, fabs((double)a[i] - b[i]));
        largest = fmax(largest, fabs(b[i]));
    }
    return worst / (largest > 0 ? largest : 1);
}

uint64_t numeric_hash(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;

    for (size_t i = 0; i < n; i++) hash = (hash ^ b[i]) * 1099511628211u;
    return hash;
}
