/* sketch.c - see sketch.h. */
#include "tests/support/sketch.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const SketchDevice sketch_h200 = { .flops_per_second = 600e12,
                                   .attention_flops_per_second = 450e12,
                                   .bytes_per_second = 4.2e12,
                                   .link_bytes_per_second = 55e9,
                                   .duplex_bytes_per_second = 51e9,
                                   .latency_seconds = 3e-6 };

enum { NAME = 64, NODE_INPUTS = SKETCH_INPUTS + 8, NODE_OUTPUTS = SKETCH_INPUTS };

typedef struct SketchTensor {
    char name[NAME];
    const char *kind;
    double bytes;
    int gradient; /* -1: none so far */
} SketchTensor;

typedef struct SketchNode {
    char name[NAME];
    int layer;
    const char *phase;
    double seconds, scratch;
    int in[NODE_INPUTS], n_in, out[NODE_OUTPUTS], n_out;
    bool in_place, again;
} SketchNode;

/* A forward op with what became of it. */
typedef struct Done {
    SketchOp op;
    char name[NAME];
    int layer, weight, y, stat;
} Done;

struct Sketch {
    char name[NAME];
    SketchDevice device;
    SketchTensor *tensors;
    SketchNode *nodes;
    Done *done;
    char (*layers)[NAME];
    int n_tensors, n_nodes, n_done, n_layers;
};

/* Room for item n of an array that grows by powers of two. */
static void *grow(void *array, int n, size_t item)
{
    if (n & (n - 1)) return array;
    void *grown = realloc(array, (size_t)(n ? 2 * n : 1) * item);
    if (grown) return grown;
    fputs("no memory for a cost graph\n", stderr);
    exit(1);
}

Sketch *sketch_new(const char *name, SketchDevice device)
{
    Sketch *s = grow(NULL, 0, sizeof *s);

    memset(s, 0, sizeof *s);
    snprintf(s->name, NAME, "%s", name);
    s->device = device;
    sketch_layer(s, "%s", "");
    return s;
}

void sketch_free(Sketch *s)
{
    free(s->tensors);
    free(s->nodes);
    free(s->done);
    free(s->layers);
    free(s);
}

void sketch_layer(Sketch *s, const char *format, ...)
{
    va_list args;

    s->layers = grow(s->layers, s->n_layers, sizeof *s->layers);
    va_start(args, format);
    vsnprintf(s->layers[s->n_layers++], NAME, format, args);
    va_end(args);
}

static int add_tensor(Sketch *s, const char *name, const char *suffix, const char *kind, double bytes)
{
    SketchTensor t = { .kind = kind, .bytes = bytes, .gradient = -1 };

    snprintf(t.name, NAME, "%.48s%s", name, suffix); /* name may lie in the array that grows */
    s->tensors = grow(s->tensors, s->n_tensors, sizeof *s->tensors);
    s->tensors[s->n_tensors] = t;
    return s->n_tensors++;
}

static SketchNode *add_node(Sketch *s, const Done *d, const char *suffix, const char *phase)
{
    s->nodes = grow(s->nodes, s->n_nodes, sizeof *s->nodes);
    SketchNode *n = &s->nodes[s->n_nodes++];
    *n = (SketchNode){ .layer = d->layer, .phase = phase, .scratch = d->op.scratch_bytes };
    snprintf(n->name, NAME, "%.48s%s", d->name, suffix);
    return n;
}

static void reads(SketchNode *n, int tensor)
{
    if (tensor >= 0) n->in[n->n_in++] = tensor;
}

static void writes(SketchNode *n, int tensor)
{
    if (tensor >= 0) n->out[n->n_out++] = tensor;
}

/* Computing or moving bytes, whichever takes longer. */
static void set_seconds(const Sketch *s, SketchNode *n, double flops, bool attention)
{
    double bytes = 0;
    double speed = attention ? s->device.attention_flops_per_second : s->device.flops_per_second;

    for (int i = 0; i < n->n_in; i++) bytes += s->tensors[n->in[i]].bytes;
    for (int i = 0; i < n->n_out; i++) bytes += s->tensors[n->out[i]].bytes;
    n->seconds = fmax(flops / speed, bytes / s->device.bytes_per_second);
}

int sketch_input(Sketch *s, const char *name, double bytes)
{
    return add_tensor(s, name, "", "input", bytes);
}

/* Stat and x[0] are enough to make y again without the sums over x[0] that stat holds. */
static void add_again(Sketch *s, const Done *d)
{
    SketchNode *n = add_node(s, d, ".again", "forward");

    reads(n, d->op.x[0]);
    reads(n, d->stat);
    reads(n, d->weight);
    writes(n, d->y);
    n->again = true;
    n->scratch = 0;
    set_seconds(s, n, 0, false);
}

int sketch_op(Sketch *s, SketchOp op)
{
    const char *layer = s->layers[s->n_layers - 1];
    Done d = { .op = op, .layer = s->n_layers - 1, .weight = -1, .stat = -1 };

    snprintf(d.name, NAME, "%.30s%s%.30s", layer, *layer ? "/" : "", op.name);
    if (op.weight_bytes > 0) d.weight = add_tensor(s, d.name, ".weight", "parameter", op.weight_bytes);
    d.y = add_tensor(s, d.name, "", "activation", op.y_bytes);
    if (op.stat_bytes > 0) d.stat = add_tensor(s, d.name, ".stat", "activation", op.stat_bytes);
    SketchNode *n = add_node(s, &d, "", "forward");
    for (int i = 0; i < op.n_x; i++) reads(n, op.x[i]);
    reads(n, d.weight);
    writes(n, d.y);
    writes(n, d.stat);
    n->in_place = op.in_place;
    set_seconds(s, n, op.flops, op.attention);
    if (op.again) add_again(s, &d);
    s->done = grow(s->done, s->n_done, sizeof *s->done);
    s->done[s->n_done++] = d;
    return d.y;
}

/* ---- Backward --------------------------------------------------------------- */

/* What a gradient node reads besides the gradient of y. */
static void read_saved(SketchNode *n, const Done *d)
{
    if (d->op.saves_y) reads(n, d->y);
    for (int i = 0; d->op.saves_x && i < d->op.n_x; i++) reads(n, d->op.x[i]);
    reads(n, d->stat);
}

static void weight_gradient(Sketch *s, const Done *d, int dy)
{
    int dw = add_tensor(s, d->name, ".weight.grad", "gradient", d->op.weight_bytes);
    SketchNode *n = add_node(s, d, ".dw", "backward");

    reads(n, dy);
    read_saved(n, d);
    writes(n, dw);
    set_seconds(s, n, d->op.flops, false);
}

/* The gradients of the inputs; what other readers of an input gave to its gradient is added. */
static void input_gradients(Sketch *s, const Done *d, int dy)
{
    int n_wanted = 0, wanted[SKETCH_INPUTS];

    for (int i = 0; i < d->op.n_x; i++)
        if (strcmp(s->tensors[d->op.x[i]].kind, "input")) wanted[n_wanted++] = d->op.x[i];
    if (!n_wanted) return;
    int before[SKETCH_INPUTS], after[SKETCH_INPUTS];
    for (int i = 0; i < n_wanted; i++) {
        before[i] = s->tensors[wanted[i]].gradient;
        after[i] = add_tensor(s, s->tensors[wanted[i]].name, before[i] < 0 ? ".grad" : ".grad+", "other",
                              s->tensors[wanted[i]].bytes);
        s->tensors[wanted[i]].gradient = after[i];
    }
    SketchNode *n = add_node(s, d, ".dx", "backward");
    reads(n, dy);
    read_saved(n, d);
    if (d->op.weight_bytes > 0) reads(n, d->weight);
    for (int i = 0; i < n_wanted; i++) reads(n, before[i]);
    for (int i = 0; i < n_wanted; i++) writes(n, after[i]);
    n->in_place = d->op.in_place && wanted[0] == d->op.x[0]; /* the gradient of y ends here */
    set_seconds(s, n, d->op.gradient_flops > 0 ? d->op.gradient_flops : d->op.flops, d->op.attention);
}

void sketch_backward(Sketch *s)
{
    for (int i = s->n_done - 1; i >= 0; i--) {
        const Done *d = &s->done[i];
        int dy = s->tensors[d->y].gradient;
        if (i == s->n_done - 1) dy = d->y; /* the loss starts it */
        if (dy < 0) continue;
        if (d->weight >= 0) weight_gradient(s, d, dy);
        input_gradients(s, d, dy);
    }
}

/* ---- Writing ---------------------------------------------------------------- */

static void put_list(const char *key, const int *list, int n, FILE *to)
{
    fprintf(to, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) fprintf(to, "%s%d", i ? ", " : "", list[i]);
    fputs("]", to);
}

bool sketch_write(const Sketch *s, FILE *to)
{
    fprintf(to,
            "{\"tide_graph\": 1, \"name\": \"%s\", \"fixed_bytes\": 0, \"alignment\": 256,\n \"link\": "
            "{\"out_bytes_per_second\": %.17g, \"in_bytes_per_second\": %.17g, \"duplex_bytes_per_second\": "
            "%.17g, \"latency_seconds\": %.17g},\n \"tensors\": [",
            s->name, s->device.link_bytes_per_second, s->device.link_bytes_per_second,
            s->device.duplex_bytes_per_second, s->device.latency_seconds);
    for (int i = 0; i < s->n_tensors; i++)
        fprintf(to, "%s\n  {\"name\": \"%s\", \"bytes\": %.0f, \"kind\": \"%s\"}", i ? "," : "",
                s->tensors[i].name, ceil(s->tensors[i].bytes), s->tensors[i].kind);
    fputs("],\n \"nodes\": [", to);
    for (int i = 0; i < s->n_nodes; i++) {
        const SketchNode *n = &s->nodes[i];
        fprintf(to, "%s\n  {\"name\": \"%s\", \"layer\": \"%s\", \"phase\": \"%s\", \"seconds\": %.17g",
                i ? "," : "", n->name, s->layers[n->layer], n->phase, n->seconds);
        put_list("in", n->in, n->n_in, to);
        put_list("out", n->out, n->n_out, to);
        fprintf(to, ", \"scratch_bytes\": %.0f, \"recompute\": true, \"in_place\": %s%s}", ceil(n->scratch),
                n->in_place ? "true" : "false", n->again ? ", \"again\": true" : "");
    }
    fputs("]}\n", to);
    return !ferror(to);
}
