/* agreement.c - see agreement.h. */
#include "tests/support/agreement.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/ops.h"
#include "tests/support/numeric.h"
#include "tests/support/reference.h"

typedef struct Twin {
    const AgreeCase *c;
    Side cpu, other;
    void **memory;              /* of the CPU's side, by tensor id             */
    unsigned char *start, *end; /* images of the other's: before, after a run */
    unsigned char *more;        /* after another one                          */
    double tolerance;
    AgreeErrors *errors; /* or NULL */
    char *why;
} Twin;

static const Tensor *tensor_of(const Side *s, int id)
{
    return s->p->tensors[id];
}

/* The CPU's tensor of the same name; 0: it has none, as narrow gradients alone are summed apart. */
static int cpu_id(const Twin *w, int id)
{
    const Tensor *t = tensor_of(&w->other, id);

    return tide_tensor_find(w->cpu.p, t->graph < 0 ? NULL : w->cpu.g, t->name).id;
}

/* ---- Numbers ------------------------------------------------------------------- */

/* Parameters of a step, or small integers. id is the other side's, from here on. */
static void fill_ints(const Twin *w, int id)
{
    const Tensor *t = tensor_of(&w->other, id);
    const TideStepInfo step = { .seed = 77,
                                .step = 3,
                                .micro = 1,
                                .row = 1,
                                .loss_scale = 0.25f,
                                .grad_scale = 0.5f,
                                .lr = 0.01f,
                                .bias1 = 0.3f,
                                .bias2 = 0.2f };
    int32_t *x = w->memory[cpu_id(w, id)];
    int64_t n = shape_elements(t->shape);

    if (t->shape.n == 1 && t->bytes == sizeof step) {
        memcpy(x, &step, sizeof step);
    } else {
        numeric_random_ints(x, n, (int32_t)w->cpu.size[3] + 2, (uint64_t)id);
        for (int64_t i = 0; i < n; i++) x[i] -= 1; /* one below and one above the classes too */
    }
    memcpy(w->start + w->other.offset[id], x, t->bytes);
}

/* Numbers that the other side's type can hold; states are moments and not negative. */
static void fill_floats(const Twin *w, int id)
{
    const Tensor *t = tensor_of(&w->other, id);
    float *x = w->memory[cpu_id(w, id)];
    int64_t n = shape_elements(t->shape);

    numeric_random(x, n, (float)w->c->scale, (uint64_t)id);
    for (int64_t i = 0; t->kind == TIDE_STATE && i < n; i++) x[i] = fabsf(x[i]);
    tide_narrow(t->type, x, n, w->start + w->other.offset[id]);
    tide_widen(t->type, w->start + w->other.offset[id], n, x);
}

static void fill(const Twin *w)
{
    for (int id = 1; id < w->other.p->n_tensors; id++) {
        const Tensor *t = tensor_of(&w->other, id);
        if (t->flat || (t->graph >= 0 && t->kind != TIDE_INPUT)) continue;
        if (t->type == TIDE_I32)
            fill_ints(w, id);
        else
            fill_floats(w, id);
    }
}

/* ---- Comparing ------------------------------------------------------------------- */

/* The values of tensor id in an image; the caller frees them. */
static float *floats_of(const Twin *w, int id, const unsigned char *image)
{
    const Tensor *t = tensor_of(&w->other, id);
    int64_t n = shape_elements(t->shape);
    float *x = malloc((size_t)(n + 1) * sizeof *x);

    if (x) tide_widen(t->type, image + w->other.offset[id], n, x);
    return x;
}

static double *doubles_of(const float *x, int64_t n)
{
    double *wide = x ? malloc((size_t)(n + 1) * sizeof *wide) : NULL;

    for (int64_t i = 0; wide && i < n; i++) wide[i] = (double)x[i];
    return wide;
}

/* The op that wrote tensor id last; -1: none. */
static int writer_of(const Side *s, int id)
{
    int op = -1;

    for (int i = 0; i < s->g->n_nodes; i++)
        for (int o = 0; o < s->g->nodes[i]->n_out; o++)
            if (s->g->nodes[i]->out[o].id == id) op = s->g->nodes[i]->op->id;
    return op;
}

/* Is the error small enough? Errors that are not are told. */
static bool judge(const Twin *w, int id, double error, const char *against)
{
    if (error <= w->tolerance) return true;
    snprintf(w->why, 512, "%s differs from %s by %.3g of its largest element, at most %.3g",
             tensor_of(&w->other, id)->name, against, error, w->tolerance);
    return false;
}

static bool compare(const Twin *w, int id)
{
    int64_t n = shape_elements(tensor_of(&w->other, id)->shape);
    float *got = floats_of(w, id, w->end);
    double *wanted = doubles_of(w->memory[cpu_id(w, id)], n), error = INFINITY;
    int op = writer_of(&w->other, id);

    if (got && wanted) error = numeric_error(got, wanted, n);
    free(got);
    free(wanted);
    if (w->errors && op >= 0) w->errors->cpu[op] = fmax(w->errors->cpu[op], error);
    return judge(w, id, error, "the CPU's");
}

static bool compare_all(const Twin *w)
{
    for (int id = 1; id < w->other.p->n_tensors; id++) {
        const Tensor *t = tensor_of(&w->other, id);
        if (t->flat || t->type == TIDE_I32 || !cpu_id(w, id)) continue;
        if (!compare(w, id)) return false;
    }
    return true;
}

/* The bytes between tensors still hold what was uploaded. */
static bool guards_stand(const Twin *w)
{
    size_t from = 0;

    for (int id = 1; id <= w->other.p->n_tensors; id++) {
        bool last = id == w->other.p->n_tensors;
        if (!last && tensor_of(&w->other, id)->flat) continue;
        size_t to = last ? w->other.bytes : w->other.offset[id];
        if (memcmp(w->start + from, w->end + from, to - from) != 0) {
            snprintf(w->why, 512, "something was written before %s",
                     last ? "the end" : tensor_of(&w->other, id)->name);
            return false;
        }
        if (!last) from = to + tensor_of(&w->other, id)->bytes;
    }
    return true;
}

static bool same_bits(const Twin *w, const char *what)
{
    for (int id = 1; id < w->other.p->n_tensors; id++) {
        const Tensor *t = tensor_of(&w->other, id);
        if (memcmp(w->end + w->other.offset[id], w->more + w->other.offset[id], t->bytes) == 0) continue;
        snprintf(w->why, 512, "%s has other bits %s", t->name, what);
        return false;
    }
    return true;
}

/* ---- One node in double ------------------------------------------------------------------ */

/* Operands of a node: its inputs, then its outputs. */
static int operand(const Node *n, int i)
{
    return i < n->n_in ? n->in[i].id : n->out[i - n->n_in].id;
}

/* Output o of the node in the image `after` against `wanted`. */
static bool compare_output(const Twin *w, const Node *n, int o, const double *wanted,
                           const unsigned char *after)
{
    int id = n->out[o].id;
    float *got = floats_of(w, id, after);
    double error =
        got ? reference_error(got, wanted, shape_elements(tensor_of(&w->other, id)->shape)) : INFINITY;

    free(got);
    if (w->errors) w->errors->reference[n->op->id] = fmax(w->errors->reference[n->op->id], error);
    return judge(w, id, error, "double");
}

/* What node n should have made of the image `before` is what stands in `after`. */
static bool node_is_right(const Twin *w, const Node *n, const unsigned char *before,
                          const unsigned char *after)
{
    int count = n->n_in + n->n_out;
    double *wide[count];
    const void *stored[count];
    const Tensor *infos[count];
    bool good = true;

    node_infos(w->other.p, n, infos, infos + n->n_in);
    for (int i = 0; i < count; i++) {
        int id = operand(n, i);
        float *x = id && infos[i]->type != TIDE_I32 ? floats_of(w, id, before) : NULL;
        wide[i] = x ? doubles_of(x, shape_elements(infos[i]->shape)) : NULL;
        stored[i] = id ? before + w->other.offset[id] : NULL;
        free(x);
    }
    ReferenceCall call = { n, infos, infos + n->n_in, stored, wide, wide + n->n_in };
    if (reference_run(&call)) {
        for (int o = 0; good && o < n->n_out; o++)
            if (n->out[o].id) good = compare_output(w, n, o, wide[n->n_in + o], after);
    } else {
        snprintf(w->why, 512, "no reference for op %s", n->op->name);
        good = false;
    }
    for (int i = 0; i < count; i++) free(wide[i]);
    return good;
}

/* ---- Running ------------------------------------------------------------------------ */

static bool failed(const Twin *w, const Side *s)
{
    snprintf(w->why, 512, "%s", tide_message(s->tide));
    return false;
}

static bool build_both(Twin *w, Tide *cpu, Tide *device)
{
    side_new(&w->cpu, cpu);
    side_new(&w->other, device);
    w->c->build(&w->cpu);
    w->c->build(&w->other);
    if (tide_program_check(w->cpu.p)) return failed(w, &w->cpu);
    if (!side_ready(&w->other)) return failed(w, &w->other);
    w->memory = numeric_memory_new(w->cpu.p);
    w->start = malloc(w->other.bytes);
    w->end = malloc(w->other.bytes);
    w->more = malloc(w->other.bytes);
    if (w->memory && w->start && w->end && w->more) return true;
    snprintf(w->why, 512, "no memory for the case");
    return false;
}

/* Node by node from `start` to `end`; `more` holds the image before each. */
static bool run_by_nodes(const Twin *w)
{
    const Side *s = &w->other;

    if (!side_upload(s, w->start)) return failed(w, s);
    memcpy(w->end, w->start, s->bytes);
    for (int i = 0; i < s->g->n_nodes; i++) {
        if (s->g->nodes[i]->again) continue;
        memcpy(w->more, w->end, s->bytes);
        if (!side_run_node(s, i) || !side_download(s, w->end)) return failed(w, s);
        if (!node_is_right(w, s->g->nodes[i], w->more, w->end)) return false;
    }
    return true;
}

static bool run_both(const Twin *w)
{
    const Side *s = &w->other;

    memset(w->start, 0xff, s->bytes);
    fill(w);
    if (numeric_run(w->cpu.g, w->memory)) return failed(w, &w->cpu);
    if (!run_by_nodes(w) || !compare_all(w) || !guards_stand(w)) return false;
    if (!side_run(s, true) || !side_download(s, w->more)) return failed(w, s);
    if (!same_bits(w, "when it is made again")) return false;
    if (!side_upload(s, w->start) || !side_run(s, false) || !side_download(s, w->more)) return failed(w, s);
    return same_bits(w, "in a second run");
}

bool agree(Tide *device, const AgreeCase *c, const AgreeTypes *types, const int64_t *size,
           AgreeErrors *errors, char why[512])
{
    Twin w = { .c = c,
               .cpu = { .type = TIDE_F32, .grad = TIDE_F32, .state = TIDE_F32, .size = size },
               .other = { .type = types->type, .grad = types->grad, .state = types->state, .size = size },
               .tolerance = types->tolerance,
               .errors = errors,
               .why = why };
    Tide *cpu = NULL;
    bool good = false;

    w.cpu.accumulate = w.other.accumulate = size[0] > 1;
    w.other.unprepared = errors && errors->quick;
    if (tide_open("cpu", (TideDeviceOptions){ 0 }, &cpu))
        snprintf(why, 512, "%s", tide_message(cpu));
    else
        good = build_both(&w, cpu, device) && run_both(&w);
    if (w.memory) numeric_memory_free(w.cpu.p, w.memory);
    free(w.start);
    free(w.end);
    free(w.more);
    side_free(&w.other);
    side_free(&w.cpu);
    tide_close(cpu);
    return good;
}
