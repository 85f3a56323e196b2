/* graph_write.c - the first graph of a program, with its costs, as a graph file.
 *
 * What the graph never touches but a plan reserves (other graphs' optimizer states, padding between
 * tensors) is written as states without a reader, and persistent tensors stand as they lie, so that a budget
 * means the same for the file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/graph_file.h"
#include "runtime/io/json_read.h"
#include "runtime/planner.h"
#include "runtime/profile.h"

typedef struct Writer {
    FILE *to;
    const TideProgram *program;
    const Problem *problem;
    const CostTensor **order; /* [n_tensors] of the problem, as they stand in the file */
    int *at;                  /* [n_tensors]: place of each tensor in the file         */
    int n_tensors;            /* written so far                                        */
    Pool pool;
} Writer;

/* ---- Order --------------------------------------------------------------- */

static int by_offset(const void *x, const void *y)
{
    const CostTensor *a = *(const CostTensor *const *)x, *b = *(const CostTensor *const *)y;

    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return (a > b) - (a < b);
}

/* A file tells no offsets: whoever reads it lets the persistent tensors of a kind lie as they stand there.
 * So those of a kind exchange their places in the file until they stand as they lie. */
static void stand_as_they_lie(Writer *w, TideKind kind, const CostTensor **list)
{
    const Problem *p = w->problem;
    int n = 0, next = 0;

    for (int t = 0; t < p->n_tensors; t++)
        if (p->tensors[t].fixed && p->tensors[t].kind == kind) list[n++] = &p->tensors[t];
    qsort(list, (size_t)n, sizeof *list, by_offset);
    for (int t = 0; t < p->n_tensors; t++)
        if (p->tensors[t].fixed && p->tensors[t].kind == kind) w->order[t] = list[next++];
}

/* False without memory. */
static bool choose_order(Writer *w)
{
    const Problem *p = w->problem;
    const CostTensor **list = pool_new(&w->pool, (size_t)p->n_tensors, sizeof *list);

    w->order = pool_new(&w->pool, (size_t)p->n_tensors, sizeof *w->order);
    w->at = pool_new(&w->pool, (size_t)p->n_tensors, sizeof *w->at);
    if (!list || !w->order || !w->at) return false;
    for (int t = 0; t < p->n_tensors; t++) w->order[t] = &p->tensors[t];
    for (TideKind kind = 0; kind < TIDE_KIND_COUNT; kind++) stand_as_they_lie(w, kind, list);
    for (int i = 0; i < p->n_tensors; i++) w->at[w->order[i] - p->tensors] = i;
    return true;
}

/* ---- Text ---------------------------------------------------------------- */

/* 17 digits bring a double back to the same bits. */
static void put_real(const Writer *w, const char *key, double x)
{
    fprintf(w->to, "\"%s\": %.17g", key, x);
}

static void put_text(const Writer *w, const char *key, const char *text)
{
    fprintf(w->to, "\"%s\": ", key);
    write_text(w->to, text);
}

static void put_head(const Writer *w, const char *name, size_t fixed_bytes)
{
    const Link *link = &w->problem->link;

    fprintf(w->to, "{\"tide_graph\": %d, ", GRAPH_VERSION);
    put_text(w, "name", name);
    fprintf(w->to, ", \"fixed_bytes\": %zu, \"alignment\": %zu,\n \"link\": {", fixed_bytes,
            w->problem->alignment);
    put_real(w, "out_bytes_per_second", link->out);
    fputs(", ", w->to);
    put_real(w, "in_bytes_per_second", link->in);
    fputs(", ", w->to);
    put_real(w, "duplex_bytes_per_second", link->duplex);
    fputs(", ", w->to);
    put_real(w, "latency_seconds", link->latency);
    fputs("},\n \"tensors\": [", w->to);
}

static void put_tensor(Writer *w, const char *name, size_t bytes, TideKind kind, bool output)
{
    fputs(w->n_tensors++ ? ",\n  {" : "\n  {", w->to);
    put_text(w, "name", name);
    fprintf(w->to, ", \"bytes\": %zu, \"kind\": \"%s\"%s}", bytes, graph_kind_names[kind],
            output ? ", \"output\": true" : "");
}

/* Bytes of the static region that neither a fixed tensor of the problem nor what rounds it up takes. */
static void put_rest(Writer *w)
{
    size_t rest = w->problem->static_bytes;

    for (int t = 0; t < w->problem->n_tensors; t++)
        if (w->problem->tensors[t].fixed)
            rest -= align_up(w->problem->tensors[t].bytes, w->problem->alignment);
    if (rest) put_tensor(w, "(other persistent bytes)", rest, TIDE_STATE, false);
}

static void put_tensors(Writer *w)
{
    for (int t = 0; t < w->problem->n_tensors; t++) {
        const CostTensor *x = w->order[t];
        put_tensor(w, x->name, w->program->tensors[x->id]->bytes, x->kind, x->output);
    }
    put_rest(w);
}

static void put_list(const Writer *w, const char *key, const int *list, int n)
{
    fprintf(w->to, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) fprintf(w->to, "%s%d", i ? ", " : "", w->at[list[i]]);
    fputs("]", w->to);
}

/* The input whose bytes may be taken first, the others in their order. */
static void put_inputs(const Writer *w, const CostNode *n)
{
    int first = n->in_place < 0 ? 0 : n->in_place;

    fputs(", \"in\": [", w->to);
    if (n->n_in) fprintf(w->to, "%d", w->at[n->in[first]]);
    for (int i = 0; i < n->n_in; i++)
        if (i != first) fprintf(w->to, ", %d", w->at[n->in[i]]);
    fputs("]", w->to);
}

/* A file gives in_place bytes that end with the input; those of a persistent one never do. */
static bool gives_bytes(const Writer *w, const CostNode *n)
{
    return n->in_place >= 0 && !w->problem->tensors[n->in[n->in_place]].fixed;
}

static void put_node(const Writer *w, int i)
{
    const CostNode *n = &w->problem->nodes[i];

    fputs(i ? ",\n  {" : "\n  {", w->to);
    put_text(w, "name", n->name);
    fputs(", ", w->to);
    put_text(w, "layer", w->problem->layers[n->layer]);
    fprintf(w->to, ", \"phase\": \"%s\", ", graph_phase_names[n->phase]);
    put_real(w, "seconds", n->seconds);
    put_inputs(w, n);
    put_list(w, "out", n->out, n->n_out);
    fprintf(w->to, ", \"scratch_bytes\": %zu, \"recompute\": %s, \"in_place\": %s%s}", n->scratch_bytes,
            n->once ? "false" : "true", gives_bytes(w, n) ? "true" : "false",
            n->again ? ", \"again\": true" : "");
}

static void put_graph(Writer *w, const char *name, size_t fixed_bytes)
{
    put_head(w, name, fixed_bytes);
    put_tensors(w);
    fputs("],\n \"nodes\": [", w->to);
    for (int i = 0; i < w->problem->n_nodes; i++) put_node(w, i);
    fputs("]}\n", w->to);
}

static TideStatus write_file(Writer *w, const char *name, size_t fixed_bytes, const char *path)
{
    Tide *t = w->program->tide;

    w->to = fopen(path, "wb");
    if (!w->to) return tide_fail(t, TIDE_IO, "%s: cannot write the graph: %s", path, strerror(errno));
    put_graph(w, name, fixed_bytes);
    bool failed = ferror(w->to) != 0;
    if (fclose(w->to) || failed)
        return tide_fail(t, TIDE_IO, "%s: the graph was cut short: %s", path, strerror(errno));
    return TIDE_OK;
}

TideStatus tide_graph_save(const TideProgram *p, const TideProfile *f, const char *name, const char *path)
{
    Planner *pl;

    TRY(planner_open(p, f, (TideBudget){ 0 }, &pl));
    Writer w = { .program = p, .problem = pl->work[0].problem };
    TideStatus status = choose_order(&w) ? write_file(&w, name, tide_profile_fixed(f), path)
                                         : tide_fail(p->tide, TIDE_NO_MEMORY, "no memory to write the graph");
    pool_free(&w.pool);
    planner_close(pl);
    return status;
}
