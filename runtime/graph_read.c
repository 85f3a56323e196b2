/* graph_read.c - a graph file becomes a program that can be planned.
 *
 * Tensors of a file are tensors of the program in the same order; persistent ones are views of one flat a
 * kind. Nodes become nodes whose op says no more than a file can: see cost.h. The file is believed in
 * nothing: each index, kind and size is judged before it is used. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/cost.h"
#include "runtime/graph_file.h"
#include "runtime/io/json_read.h"
#include "runtime/profile.h"
#include "runtime/program.h"

enum { MOST_TENSORS = 1 << 22, MOST_NODES = 1 << 22, MOST_INPUTS = 1 << 16 };
static const size_t most_file_bytes = (size_t)1 << 30;
static const int64_t most_bytes = (int64_t)1 << 46;  /* of a tensor or a scratch                     */
static const size_t most_together = (size_t)1 << 60; /* of all tensors                               */

const char *const graph_kind_names[TIDE_KIND_COUNT] = { "input", "parameter",  "gradient",
                                                        "state", "activation", "other" };
const char *const graph_phase_names[GRAPH_PHASES] = { "forward", "backward", "update" };

typedef struct Reader {
    JsonFile file;
    Tide *tide; /* the device of costs */
    TideProgram *program;
    TideGraph *graph;
    TideProfile *profile;
    int flat[TIDE_KIND_COUNT]; /* tensor of the program in which the views of a kind lie; 0: none yet */
    int first, n_tensors;      /* tensor i of the file is tensor first + i of the program            */
    int *writers, *agains;     /* [n_tensors] nodes so far that wrote it                             */
    size_t alignment, together;
} Reader;

static TideStatus no_memory(const Reader *r)
{
    return tide_fail(r->file.tide, TIDE_NO_MEMORY, "%s: no memory for the graph", r->file.path);
}

static Tensor *tensor_at(const Reader *r, int i)
{
    return r->program->tensors[r->first + i];
}

/* ---- Tensors -------------------------------------------------------------- */

/* Add bytes to what all tensors take, which no later sum of some of them exceeds. */
static TideStatus count_bytes(Reader *r, const JsonAt *at, size_t bytes)
{
    r->together += align_up(bytes, r->alignment);
    if (r->together <= most_together) return TIDE_OK;
    return read_refuse(at, "brings the bytes of all to more than %zu, which no machine has", most_together);
}

static TideStatus add_tensor(Reader *r, const char *name, TideKind kind, size_t bytes, bool output)
{
    bool persistent = kind == TIDE_PARAMETER || kind == TIDE_GRADIENT || kind == TIDE_STATE;
    Tensor *flat = persistent ? r->program->tensors[r->flat[kind]] : NULL;
    Tensor t = { .type = TIDE_F32,
                 .kind = kind,
                 .shape = { 1, { (int64_t)bytes } },
                 .bytes = bytes,
                 .output = output,
                 .graph = persistent ? -1 : r->graph->index,
                 .flat = persistent ? r->flat[kind] : 0,
                 .flat_offset = persistent ? flat->bytes : 0,
                 .name = program_format(r->program, "%s", name) };

    if (persistent) flat->bytes += align_up(bytes, r->alignment);
    if (persistent) flat->shape.dim[0] = (int64_t)flat->bytes;
    return program_add_tensor(r->program, t) ? TIDE_OK : no_memory(r);
}

static TideStatus read_tensor(Reader *r, const JsonAt *at)
{
    static const char *const keys[] = { "name", "bytes", "kind", "output", NULL };
    const char *name = NULL;
    JsonAt bytes_at, kind_at;
    int64_t bytes = 0;
    int kind = 0;
    bool output = false;

    TRY(read_keys(at, keys));
    TRY(read_name(at, "name", false, &name));
    TRY(read_member(at, "bytes", &bytes_at));
    TRY(read_int(&bytes_at, 0, most_bytes, &bytes));
    TRY(read_member(at, "kind", &kind_at));
    TRY(read_word(&kind_at, graph_kind_names, TIDE_KIND_COUNT, &kind));
    TRY(read_optional_flag(at, "output", &output));
    TRY(count_bytes(r, &bytes_at, (size_t)bytes));
    return add_tensor(r, name, (TideKind)kind, (size_t)bytes, output);
}

/* Flats come first, so that a view of one follows it as in any program. */
static TideStatus make_flats(Reader *r)
{
    static const TideKind kinds[] = { TIDE_PARAMETER, TIDE_STATE, TIDE_GRADIENT };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        r->flat[kinds[i]] = tide_flat(r->program, graph_kind_names[kinds[i]], kinds[i], TIDE_F32).id;
        if (!r->flat[kinds[i]]) return no_memory(r);
    }
    r->first = r->program->n_tensors;
    return TIDE_OK;
}

static TideStatus read_tensors(Reader *r, const JsonAt *root)
{
    JsonAt list;
    size_t n = 0;

    TRY(read_member(root, "tensors", &list));
    TRY(read_array(&list, 1, MOST_TENSORS, &n));
    r->writers = calloc(n, sizeof *r->writers);
    r->agains = calloc(n, sizeof *r->agains);
    if (!r->writers || !r->agains) return no_memory(r);
    TRY(make_flats(r));
    for (size_t i = 0; i < n; i++) {
        JsonAt at = read_item(&list, i);
        TRY(read_tensor(r, &at));
    }
    r->n_tensors = (int)n;
    return TIDE_OK;
}

/* ---- Nodes ---------------------------------------------------------------- */

/* A node as the file says it, before anything is known about its tensors. */
typedef struct NodeRow {
    const char *name, *layer;
    Phase phase;
    double seconds;
    int64_t scratch;
    bool once, in_place, again;
    int *in; /* [n_in], owned */
    int out[OP_MAX_OUT];
    int n_in, n_out;
} NodeRow;

static TideStatus read_indices(const Reader *r, const JsonAt *list, int *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        JsonAt at = read_item(list, i);
        int64_t index = 0;
        TRY(read_int(&at, 0, r->n_tensors - 1, &index));
        out[i] = (int)index;
    }
    return TIDE_OK;
}

static TideStatus read_lists(const Reader *r, const JsonAt *at, NodeRow *row)
{
    JsonAt in, out;
    size_t n_in = 0, n_out = 0;

    TRY(read_member(at, "in", &in));
    TRY(read_array(&in, 0, MOST_INPUTS, &n_in));
    row->in = calloc(n_in + 1, sizeof *row->in);
    if (!row->in) return no_memory(r);
    row->n_in = (int)n_in;
    TRY(read_indices(r, &in, row->in, n_in));
    TRY(read_member(at, "out", &out));
    TRY(read_array(&out, 1, OP_MAX_OUT, &n_out));
    row->n_out = (int)n_out;
    return read_indices(r, &out, row->out, n_out);
}

static TideStatus read_row(const Reader *r, const JsonAt *at, NodeRow *row)
{
    static const char *const keys[] = { "name",          "layer",     "phase",    "seconds", "in", "out",
                                        "scratch_bytes", "recompute", "in_place", "again",   NULL };
    JsonAt phase, seconds;
    bool recompute = true;
    int word = 0;

    TRY(read_keys(at, keys));
    TRY(read_name(at, "name", false, &row->name));
    row->layer = "";
    if (read_has(at, "layer")) TRY(read_name(at, "layer", true, &row->layer));
    TRY(read_member(at, "phase", &phase));
    TRY(read_word(&phase, graph_phase_names, GRAPH_PHASES, &word));
    row->phase = (Phase)word;
    TRY(read_member(at, "seconds", &seconds));
    TRY(read_real(&seconds, 0, 1e6, &row->seconds));
    TRY(read_optional_int(at, "scratch_bytes", most_bytes, &row->scratch));
    TRY(read_optional_flag(at, "recompute", &recompute));
    TRY(read_optional_flag(at, "in_place", &row->in_place));
    TRY(read_optional_flag(at, "again", &row->again));
    row->once = !recompute;
    if (row->again && row->once)
        return read_refuse(at,
                           "(%.80s) is marked again, so it runs only as recompute, and yet recompute is "
                           "false",
                           row->name);
    return read_lists(r, at, row);
}

static bool reads(const NodeRow *row, int t)
{
    for (int i = 0; i < row->n_in; i++)
        if (row->in[i] == t) return true;
    return false;
}

static bool from_the_start(const Tensor *t)
{
    return t->kind == TIDE_INPUT || t->kind == TIDE_PARAMETER || t->kind == TIDE_STATE ||
           t->kind == TIDE_GRADIENT; /* one that is read first carries what earlier steps added */
}

static TideStatus check_reads(const Reader *r, const JsonAt *at, const NodeRow *row)
{
    for (int i = 0; i < row->n_in; i++) {
        const Tensor *t = tensor_at(r, row->in[i]);
        if (r->writers[row->in[i]] || from_the_start(t)) continue;
        return read_refuse(at, "(%.80s) reads tensor %d (%.80s), which no earlier node wrote", row->name,
                           row->in[i], t->name);
    }
    return TIDE_OK;
}

/* May a node write tensor t? Persistent ones and sums of kind other may be written several times. */
static TideStatus check_write(const Reader *r, const JsonAt *at, const NodeRow *row, int t)
{
    const Tensor *x = tensor_at(r, t);

    if (x->kind == TIDE_INPUT)
        return read_refuse(at, "(%.80s) writes tensor %d (%.80s), which is an input", row->name, t, x->name);
    if (row->again && (x->graph < 0 || r->writers[t] != 1 || reads(row, t)))
        return read_refuse(at,
                           "(%.80s) is marked again, but tensor %d (%.80s) is not one that exactly one "
                           "earlier node wrote anew",
                           row->name, t, x->name);
    if (row->again && r->agains[t])
        return read_refuse(at, "(%.80s) is the second node marked again that writes tensor %d (%.80s)",
                           row->name, t, x->name);
    if (row->again || x->graph < 0 || !r->writers[t]) return TIDE_OK;
    if (r->agains[t] || x->kind != TIDE_OTHER || !reads(row, t))
        return read_refuse(at,
                           "(%.80s) writes tensor %d (%.80s), which an earlier node wrote; only sums that "
                           "the node also reads, of kind other, and gradients are written twice",
                           row->name, t, x->name);
    return TIDE_OK;
}

static TideStatus check_writes(Reader *r, const JsonAt *at, const NodeRow *row)
{
    for (int i = 0; i < row->n_out; i++) {
        for (int j = 0; j < i; j++)
            if (row->out[i] == row->out[j])
                return read_refuse(at, "(%.80s) writes tensor %d (%.80s) twice", row->name, row->out[i],
                                   tensor_at(r, row->out[i])->name);
        TRY(check_write(r, at, row, row->out[i]));
    }
    int *count = row->again ? r->agains : r->writers;
    for (int i = 0; i < row->n_out; i++) count[row->out[i]]++;
    return TIDE_OK;
}

/* The input whose bytes the first output takes comes first: the order of inputs means nothing else. */
static TideStatus order_inputs(const Reader *r, const JsonAt *at, NodeRow *row)
{
    const Tensor *out = tensor_at(r, row->out[0]);
    int taken = 0;

    if (!row->in_place) return TIDE_OK;
    while (taken < row->n_in &&
           (tensor_at(r, row->in[taken])->bytes != out->bytes || tensor_at(r, row->in[taken])->graph < 0))
        taken++;
    if (taken == row->n_in)
        return read_refuse(at,
                           "(%.80s) is marked in_place, but none of its inputs has the %zu bytes of its "
                           "first output (%.80s) and may give them up",
                           row->name, out->bytes, out->name);
    int first = row->in[taken];
    row->in[taken] = row->in[0];
    row->in[0] = first;
    return TIDE_OK;
}

/* The layer of that full name; -1 without memory. Nodes of a layer tend to stand together. */
static int find_layer(Reader *r, const char *name)
{
    TideGraph *g = r->graph;

    if (!*name) return 0;
    for (int i = g->n_layers - 1; i > 0; i--)
        if (strcmp(g->layers[i].name, name) == 0) return i;
    char *own = program_format(r->program, "%s", name);
    if (!own || !program_grow(r->program, &g->layers, g->n_layers, sizeof *g->layers)) {
        free(own);
        return -1;
    }
    g->layers[g->n_layers] = (Layer){ own, 0 };
    return g->n_layers++;
}

static TideStatus add_node(Reader *r, const NodeRow *row)
{
    TideGraph *g = r->graph;
    CostAttr attr = { (size_t)row->scratch };
    Node *n = calloc(1, sizeof *n);
    int layer = find_layer(r, row->layer);

    if (n) n->name = program_format(r->program, "%s", row->name);
    if (n) n->in = calloc((size_t)row->n_in + 1, sizeof *n->in);
    if (!n || layer < 0 || !n->name || !n->in ||
        !program_grow(r->program, &g->nodes, g->n_nodes, sizeof *g->nodes)) {
        if (n) free(n->name), free(n->in);
        free(n);
        return no_memory(r);
    }
    n->op = cost_op(row->once, row->in_place);
    n->id = g->n_nodes;
    n->layer = layer;
    n->phase = row->phase;
    n->again = row->again;
    n->n_in = row->n_in;
    n->n_out = row->n_out;
    for (int i = 0; i < n->n_in; i++) n->in[i].id = r->first + row->in[i];
    for (int i = 0; i < n->n_out; i++) n->out[i].id = r->first + row->out[i];
    memcpy(n->attr.bytes, &attr, sizeof attr);
    g->nodes[g->n_nodes++] = n;
    return TIDE_OK;
}

static TideStatus read_node(Reader *r, const JsonAt *at, NodeRow *row)
{
    TRY(read_row(r, at, row));
    TRY(check_reads(r, at, row));
    TRY(check_writes(r, at, row));
    TRY(order_inputs(r, at, row));
    return add_node(r, row);
}

/* Each node's time is an entry of its own. */
static TideStatus add_entry(Reader *r, const NodeRow *row)
{
    TideProfile *f = r->profile;
    char *key = program_format(r->program, "%s", row->name);

    if (!key) return no_memory(r);
    f->entry_of[0][f->n_entries] = f->n_entries;
    f->entries[f->n_entries++] = (Entry){
        .key = key, .seconds = row->seconds, .scratch_bytes = (size_t)row->scratch, .source = SOURCE_MEASURED
    };
    return TIDE_OK;
}

static TideStatus make_entries(Reader *r, size_t n)
{
    TideProfile *f = r->profile;

    f->entries = calloc(n + 1, sizeof *f->entries);
    f->entry_of = calloc(1, sizeof *f->entry_of);
    if (!f->entries || !f->entry_of) return no_memory(r);
    f->entry_of[0] = calloc(n + 1, sizeof **f->entry_of);
    f->n_graphs = 1;
    return f->entry_of[0] ? TIDE_OK : no_memory(r);
}

static TideStatus read_nodes(Reader *r, const JsonAt *root)
{
    JsonAt list;
    size_t n = 0;

    TRY(read_member(root, "nodes", &list));
    TRY(read_array(&list, 1, MOST_NODES, &n));
    TRY(make_entries(r, n));
    for (size_t i = 0; i < n; i++) {
        JsonAt at = read_item(&list, i);
        NodeRow row = { 0 };
        TideStatus status = read_node(r, &at, &row);
        if (!status) status = add_entry(r, &row);
        free(row.in);
        TRY(status);
    }
    return TIDE_OK;
}

/* What exists only from its first write on must be written. */
static TideStatus check_written(const Reader *r, const JsonAt *root)
{
    JsonAt list;

    TRY(read_member(root, "tensors", &list));
    for (int i = 0; i < r->n_tensors; i++) {
        JsonAt at = read_item(&list, (size_t)i);
        if (!r->writers[i] && !from_the_start(tensor_at(r, i)))
            return read_refuse(&at, "(%.80s) is written by no node", tensor_at(r, i)->name);
    }
    return TIDE_OK;
}

/* ---- The whole ------------------------------------------------------------ */

static TideStatus read_link(const JsonAt *root, Link *link)
{
    static const char *const keys[] = { "out_bytes_per_second", "in_bytes_per_second",
                                        "duplex_bytes_per_second", "latency_seconds", NULL };
    JsonAt at;

    if (!read_has(root, "link")) return TIDE_OK;
    TRY(read_member(root, "link", &at));
    TRY(read_keys(&at, keys));
    TRY(read_optional_real(&at, keys[0], 1e18, &link->out));
    TRY(read_optional_real(&at, keys[1], 1e18, &link->in));
    link->duplex = link->out < link->in ? link->out : link->in;
    TRY(read_optional_real(&at, keys[2], 1e18, &link->duplex));
    TRY(read_optional_real(&at, keys[3], 1e3, &link->latency));
    if (link->out > 0 && link->in > 0 && link->duplex <= 0)
        return read_refuse(&at, "moves bytes each way, but none while both are busy");
    return TIDE_OK;
}

/* Version first, so that a file of another kind is refused for that. */
static TideStatus read_head(Reader *r, const JsonAt *root, Link *link, size_t *fixed, const char **name)
{
    static const char *const keys[] = { "tide_graph", "name",    "fixed_bytes", "alignment",
                                        "link",       "tensors", "nodes",       NULL };
    JsonAt at;
    int64_t alignment = 256, fixed_bytes = 0;

    TRY(read_version(root, "tide_graph", GRAPH_VERSION));
    TRY(read_keys(root, keys));
    *name = "graph";
    if (read_has(root, "name")) TRY(read_name(root, "name", false, name));
    TRY(read_optional_int(root, "fixed_bytes", most_bytes, &fixed_bytes));
    TRY(read_optional_int(root, "alignment", 1 << 20, &alignment));
    if (alignment < 1 || (alignment & (alignment - 1))) {
        TRY(read_member(root, "alignment", &at));
        return read_refuse(&at, "is %d, it must be a power of two", (int)alignment);
    }
    r->alignment = (size_t)alignment;
    *fixed = (size_t)fixed_bytes;
    return read_link(root, link);
}

static TideStatus read_graph(Reader *r)
{
    JsonAt root = read_root(&r->file);
    Link link = { 0 };
    size_t fixed = 0;
    const char *name = NULL;

    TRY(read_head(r, &root, &link, &fixed, &name));
    TRY(cost_open("graph file", r->alignment, &r->tide) ? no_memory(r) : TIDE_OK);
    r->program = tide_program_new(r->tide);
    r->graph = tide_graph_new(r->program, name);
    r->profile = calloc(1, sizeof *r->profile);
    if (!r->graph || !r->profile || r->program->status) return no_memory(r);
    r->profile->link = link;
    r->profile->fixed_bytes = fixed;
    r->profile->alignment = r->alignment;
    snprintf(r->profile->device, sizeof r->profile->device, "%s", r->tide->name);
    snprintf(r->profile->versions, sizeof r->profile->versions, "%s", tide_versions(r->tide));
    TRY(read_tensors(r, &root));
    TRY(read_nodes(r, &root));
    return check_written(r, &root);
}

TideStatus tide_graph_load(const char *path, Tide **t, TideProgram **p, TideProfile **f)
{
    Reader r = { 0 };

    *p = NULL;
    *f = NULL;
    if (cost_open("graph file", 1, t)) return TIDE_NO_MEMORY; /* holds the message while there is no graph */
    TideStatus status = read_open(*t, path, most_file_bytes, &r.file);
    if (!status) status = read_graph(&r);
    read_close(&r.file);
    free(r.writers);
    free(r.agains);
    if (status) {
        tide_profile_free(r.profile);
        tide_program_free(r.program);
        tide_close(r.tide);
        return status;
    }
    tide_close(*t);
    *t = r.tide;
    *p = r.program;
    *f = r.profile;
    return TIDE_OK;
}
