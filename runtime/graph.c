/* graph.c - nodes, layers and names; who writes and reads what.
 *
 * Declaring never fails loudly: the first mistake is remembered in the program, with the
 * op, the layer and the shapes, and every later builder returns tensor 0. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/program.h"

/* ---- Graphs and layers -------------------------------------------------- */

/* Enter the layer of that full name inside the current one, a new one unless it was open before. */
static bool graph_enter_layer(TideGraph *g, char *name)
{
    for (int i = 1; name && i < g->n_layers; i++)
        if (g->layers[i].parent == g->layer && strcmp(g->layers[i].name, name) == 0) {
            free(name);
            g->layer = i;
            return true;
        }
    if (!name || !program_grow(g->program, &g->layers, g->n_layers, sizeof *g->layers)) {
        free(name);
        return false;
    }
    g->layers[g->n_layers] = (Layer){ name, g->layer };
    g->layer = g->n_layers++;
    return true;
}

TideGraph *tide_graph_new(TideProgram *p, const char *name)
{
    if (!p || p->status) return NULL;
    TideGraph *g = calloc(1, sizeof *g);

    if (!g || !program_grow(p, &p->graphs, p->n_graphs, sizeof *p->graphs)) {
        program_refuse(p, TIDE_NO_MEMORY, "no memory for graph %s", name);
        free(g);
        return NULL;
    }
    g->program = p;
    g->index = p->n_graphs;
    p->graphs[p->n_graphs++] = g;
    g->name = program_format(p, "%s", name);
    graph_enter_layer(g, program_format(p, "%s", ""));
    return g;
}

static void node_free(Node *n)
{
    free(n->name);
    free(n->in);
    free(n);
}

void graph_free(TideGraph *g)
{
    for (int i = 0; i < g->n_nodes; i++) node_free(g->nodes[i]);
    for (int i = 0; i < g->n_layers; i++) free(g->layers[i].name);
    free(g->nodes);
    free(g->layers);
    free(g->name);
    free(g->grads);
    free(g->wanted);
    free(g->gathers);
    free(g);
}

TideProgram *tide_graph_program(const TideGraph *g)
{
    return g ? g->program : NULL;
}
int tide_graph_index(const TideGraph *g)
{
    return g->index;
}
TideGraph *tide_graph_at(const TideProgram *p, int index)
{
    return index >= 0 && index < p->n_graphs ? p->graphs[index] : NULL;
}
const char *tide_graph_name(const TideGraph *g)
{
    return g->name;
}
int64_t graph_block_elements(const TideGraph *g)
{
    return g->program->tide->backend->block_elements;
}
void graph_phase(TideGraph *g, Phase phase)
{
    if (g) g->phase = phase;
}

static bool broken(const TideGraph *g)
{
    return !g || g->program->status;
}

void tide_layer_begin(TideGraph *g, const char *name)
{
    if (broken(g)) return;
    const char *outer = g->layers[g->layer].name;

    graph_enter_layer(g, program_format(g->program, "%s%s%s", outer, *outer ? "/" : "", name));
}

void tide_layer_end(TideGraph *g)
{
    if (broken(g)) return;
    assert(g->layer > 0);
    g->layer = g->layers[g->layer].parent;
}

/* ---- Who writes and reads ----------------------------------------------- */

static bool writes(const Node *n, int id)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i].id == id) return true;
    return false;
}

static bool reads(const Node *n, int id)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].id == id) return true;
    return false;
}

int graph_producer(const TideGraph *g, int id)
{
    for (int i = 0; id && i < g->n_nodes; i++)
        if (!g->nodes[i]->again && writes(g->nodes[i], id)) return i;
    return -1;
}

int graph_again(const TideGraph *g, int id)
{
    for (int i = 0; id && i < g->n_nodes; i++)
        if (g->nodes[i]->again && writes(g->nodes[i], id)) return i;
    return -1;
}

const Node *graph_writer(const TideGraph *g, TideTensor x)
{
    for (int i = broken(g) || !x.id ? 0 : g->n_nodes; i > 0; i--)
        if (!g->nodes[i - 1]->again && writes(g->nodes[i - 1], x.id)) return g->nodes[i - 1];
    return NULL;
}

TideTensor graph_sibling(const TideGraph *g, TideTensor x, int i)
{
    int n = broken(g) ? -1 : graph_producer(g, x.id);

    assert(n < 0 || i < g->nodes[n]->n_out);
    return n < 0 ? (TideTensor){ 0 } : g->nodes[n]->out[i];
}

bool graph_extend(TideGraph *g, TideTensor x, const OpDesc *op, TideTensor in, TideTensor out)
{
    int maker = broken(g) ? -1 : graph_producer(g, x.id);

    if (maker < 0 || !out.id) return false;
    Node *n = g->nodes[maker];
    TideTensor *last_in = &n->in[n->n_in - 1], *last_out = &n->out[n->n_out - 1];
    if (n->op != op || last_in->id || last_out->id) return false;
    for (int i = maker + 1; i < g->n_nodes; i++)
        if (writes(g->nodes[i], x.id) || writes(g->nodes[i], out.id)) return false;
    *last_in = in;
    *last_out = out;
    return true;
}

bool node_is_once(const TideProgram *p, const Node *n)
{
    if (n->op->facts & OP_ONCE) return true;
    for (int i = 0; i < n->n_out; i++) {
        const Tensor *t = program_tensor(p, n->out[i].id);
        if (!t) continue;
        if (t->graph < 0 || reads(n, n->out[i].id)) return true;
        const TideGraph *g = p->graphs[t->graph];
        for (int j = 0; j < g->n_nodes; j++) /* part of a chain of writers */
            if (g->nodes[j] != n && !g->nodes[j]->again && !n->again && writes(g->nodes[j], n->out[i].id))
                return true;
    }
    return false;
}

const Tensor *graph_tensor(const TideGraph *g, TideTensor x)
{
    return broken(g) ? NULL : program_tensor(g->program, x.id);
}

/* ---- Names -------------------------------------------------------------- */

static bool name_is_taken(const TideGraph *g, const char *name)
{
    return tide_tensor_find(g->program, g, name).id != 0;
}

/* "layer/text", with #2, #3 ... behind it if a tensor of the graph is called so already. */
static char *unique_name(TideGraph *g, const char *layer, const char *text)
{
    const char *slash = *layer ? "/" : "";
    char *name = program_format(g->program, "%s%s%s", layer, slash, text);

    for (int i = 2; name && name_is_taken(g, name); i++) {
        free(name);
        name = program_format(g->program, "%s%s%s#%d", layer, slash, text, i);
    }
    return name;
}

static void rename_tensor(TideGraph *g, int id, char *name)
{
    if (!name) return;
    free(g->program->tensors[id]->name);
    g->program->tensors[id]->name = name;
}

/* Nodes whose first output is x are called like it; its siblings "x.1", "x.2". */
static void rename_node(TideGraph *g, Node *n, TideTensor x)
{
    const char *name = g->program->tensors[x.id]->name;
    char *own = program_format(g->program, "%s%s", name, n->again ? ".again" : "");

    if (!own) return;
    free(n->name);
    n->name = own;
    for (int i = 1; !n->again && i < n->n_out; i++)
        if (n->out[i].id && g->program->tensors[n->out[i].id]->graph >= 0)
            rename_tensor(g, n->out[i].id, program_format(g->program, "%s.%d", name, i));
}

TideTensor tide_name(TideGraph *g, TideTensor x, const char *name)
{
    if (broken(g) || !x.id) return x;
    assert(g->program->tensors[x.id]->graph == g->index);
    rename_tensor(g, x.id, program_format(g->program, "%s", "")); /* do not collide with itself */
    rename_tensor(g, x.id, unique_name(g, g->layers[g->layer].name, name));
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->n_out && g->nodes[i]->out[0].id == x.id) rename_node(g, g->nodes[i], x);
    return x;
}

/* ---- Tensors and nodes -------------------------------------------------- */

TideTensor tide_input(TideGraph *g, const char *name, TideType type, TideShape shape)
{
    TideTensor x = { 0 };

    if (broken(g)) return x;
    for (int i = 0; i < shape.n && i < TIDE_MAX_DIMS; i++)
        if (shape.dim[i] < 1) {
            graph_refuse(g, "input %s: dimension %d is %lld; it must be at least 1", name, i,
                         (long long)shape.dim[i]);
            return x;
        }
    if (!shape_is_sane(shape)) {
        graph_refuse(g, "input %s: %d dimensions whose product is too large to address", name, shape.n);
        return x;
    }
    x.id = program_add_tensor(g->program, (Tensor){ .type = type,
                                                    .kind = TIDE_INPUT,
                                                    .shape = shape,
                                                    .graph = g->index,
                                                    .bytes = (size_t)shape_elements(shape) * type_bytes(type),
                                                    .name = unique_name(g, "", name) });
    return x;
}

size_t tide_input_bytes(const TideGraph *g)
{
    const TideProgram *p = g->program;
    size_t bytes = 0;

    for (int id = 1; id < p->n_tensors; id++)
        if (p->tensors[id]->graph == g->index && p->tensors[id]->kind == TIDE_INPUT)
            bytes += align_up(p->tensors[id]->bytes, p->tide->backend->alignment);
    return bytes;
}

void tide_output(TideGraph *g, TideTensor x)
{
    if (!broken(g) && x.id) g->program->tensors[x.id]->output = true;
}

void graph_refuse(TideGraph *g, const char *format, ...)
{
    char text[400];
    va_list args;

    if (broken(g)) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    program_refuse(g->program, TIDE_BAD_GRAPH, "%s", text);
}

static void append_shape(char *text, size_t size, const Tensor *t)
{
    size_t n = strlen(text);

    if (!t) {
        snprintf(text + n, size - n, " none");
        return;
    }
    snprintf(text + n, size - n, " %s[", type_name(t->type));
    for (int i = 0; i < t->shape.n; i++) {
        n = strlen(text);
        snprintf(text + n, size - n, "%s%lld", i ? "," : "", (long long)t->shape.dim[i]);
    }
    n = strlen(text);
    snprintf(text + n, size - n, "]");
}

static void refuse_inputs(TideGraph *g, const Node *n, const Tensor *const *in)
{
    char text[300] = "";
    const char *layer = g->layers[n->layer].name;

    for (int i = 0; i < n->n_in && i < 8; i++) append_shape(text, sizeof text, in[i]);
    graph_refuse(g, "op %s in layer '%s' of graph %s cannot take inputs%s", n->op->name, layer, g->name,
                 text);
}

/* The node as specified, without outputs and name; NULL without memory. */
static Node *node_new(TideGraph *g, const NodeSpec *s)
{
    Node *n = calloc(1, sizeof *n);

    if (n) n->in = calloc((size_t)s->n_in + 1, sizeof *n->in);
    if (!n || !n->in) {
        program_refuse(g->program, TIDE_NO_MEMORY, "no memory for a node");
        free(n);
        return NULL;
    }
    assert(s->attr_bytes <= OP_ATTR_BYTES);
    n->op = s->op;
    n->layer = g->layer;
    n->phase = g->phase;
    n->again = s->again;
    n->n_in = s->n_in;
    n->n_out = s->op->n_out;
    if (s->n_in) memcpy(n->in, s->in, (size_t)s->n_in * sizeof *n->in);
    memcpy(n->out, s->out, sizeof n->out);
    if (s->attr_bytes) memcpy(n->attr.bytes, s->attr, s->attr_bytes);
    return n;
}

/* Ask the op for its new outputs and add them to the program. */
static bool node_make_outputs(TideGraph *g, Node *n, char *base)
{
    const Tensor *in[n->n_in + 1];
    Tensor out[OP_MAX_OUT] = { { 0 } };

    for (int i = 0; i < n->n_in; i++) in[i] = program_tensor(g->program, n->in[i].id);
    for (int i = 0; i < n->n_out; i++) out[i].kind = n->phase == PHASE_FORWARD ? TIDE_ACTIVATION : TIDE_OTHER;
    if (!n->op->infer(n, in, out)) {
        refuse_inputs(g, n, in);
        return false;
    }
    for (int i = 0; i < n->n_out; i++) {
        if (n->out[i].id || !out[i].shape.n) continue; /* given, or an output this node leaves out */
        if (!shape_is_sane(out[i].shape)) {
            graph_refuse(g, "op %s in layer '%s' of graph %s: an output is too large to address", n->op->name,
                         g->layers[n->layer].name, g->name);
            return false;
        }
        out[i].graph = g->index;
        out[i].bytes = (size_t)shape_elements(out[i].shape) * type_bytes(out[i].type);
        out[i].name =
            i ? program_format(g->program, "%s.%d", base, i) : program_format(g->program, "%s", base);
        n->out[i].id = program_add_tensor(g->program, out[i]);
        if (!n->out[i].id) return false;
    }
    return true;
}

TideTensor graph_append(TideGraph *g, NodeSpec spec)
{
    if (broken(g)) return (TideTensor){ 0 };
    Node *n = node_new(g, &spec);
    const char *layer = g->prefix ? "" : g->layers[g->layer].name;
    char *text = n ? program_format(g->program, "%s%s%s", g->prefix ? g->prefix : "", g->prefix ? "." : "",
                                    spec.op->name)
                   : NULL;
    char *name = text ? unique_name(g, layer, text) : NULL;
    bool ok = name && node_make_outputs(g, n, name) &&
              program_grow(g->program, &g->nodes, g->n_nodes, sizeof *g->nodes);

    free(text);
    if (!ok) {
        free(name);
        if (n) node_free(n);
        return (TideTensor){ 0 };
    }
    n->id = g->n_nodes;
    n->name = name;
    g->nodes[g->n_nodes++] = n;
    return n->out[0];
}
