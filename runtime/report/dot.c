/* dot.c - a graph for Graphviz. */
#include "runtime/report/dot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/graph.h"
#include "runtime/io/json_read.h"
#include "runtime/report/account.h"

static const char *const colours[TIDE_FATE_COUNT] = { "gray60", "black", "red3", "blue3" };

typedef struct Drawing {
    FILE *to;
    const TideProgram *p;
    const TideGraph *g;
    const TidePlan *plan;
    int *writer; /* [n_tensors]: the newest node so far that wrote it; -1 */
} Drawing;

/* A box for each node, in a cluster for each run of nodes of one layer. */
static void put_nodes(const Drawing *d)
{
    static const char *const fills[] = { "white", "gray95", "lightyellow" };
    int layer = 0, clusters = 0;

    for (int i = 0; i < d->g->n_nodes; i++) {
        const Node *n = d->g->nodes[i];
        if (n->layer != layer) {
            if (layer) fputs(" }\n", d->to);
            layer = n->layer;
            if (layer) {
                fprintf(d->to, " subgraph cluster%d { color=gray80; label=", clusters++);
                write_text(d->to, d->g->layers[layer].name);
                fputs("\n", d->to);
            }
        }
        fprintf(d->to, "  n%d [fillcolor=%s%s label=", i, fills[n->phase], n->again ? " style=dashed" : "");
        write_text(d->to, n->name);
        fputs("]\n", d->to);
    }
    if (layer) fputs(" }\n", d->to);
}

static void put_arrow(const Drawing *d, int tensor, int reader)
{
    const Tensor *t = d->p->tensors[tensor];
    TideFate fate = tide_plan_fate(d->plan, (TideTensor){ tensor });
    char bytes[BYTES_TEXT];

    if (d->writer[tensor] < 0) return;
    fprintf(d->to, " n%d -> n%d [color=%s tooltip=", d->writer[tensor], reader, colours[fate]);
    write_text(d->to, t->name);
    if (fate) fprintf(d->to, " label=\"%s %s\"", fate_names[fate], bytes_text(t->bytes, bytes));
    fputs("]\n", d->to);
}

static void put_arrows(const Drawing *d)
{
    for (int id = 0; id < d->p->n_tensors; id++) d->writer[id] = -1;
    for (int i = 0; i < d->g->n_nodes; i++) {
        const Node *n = d->g->nodes[i];
        for (int j = 0; j < n->n_in; j++)
            if (n->in[j].id) put_arrow(d, n->in[j].id, i);
        for (int j = 0; j < n->n_out; j++)
            if (n->out[j].id && !n->again) d->writer[n->out[j].id] = i;
    }
}

TideStatus dot_save(const TideProgram *p, const TidePlan *plan, const char *path)
{
    Drawing d = { .p = p, .g = p->graphs[0], .plan = plan };

    d.writer = malloc((size_t)p->n_tensors * sizeof *d.writer);
    if (!d.writer) return tide_fail(p->tide, TIDE_NO_MEMORY, "no memory to draw the graph");
    d.to = fopen(path, "w");
    if (d.to) {
        fputs("digraph ", d.to);
        write_text(d.to, d.g->name);
        fputs(" {\n node [shape=box style=filled fontsize=10]\n edge [fontsize=8]\n", d.to);
        put_nodes(&d);
        put_arrows(&d);
        fputs("}\n", d.to);
    }
    free(d.writer);
    bool failed = !d.to || ferror(d.to);
    if ((d.to && fclose(d.to)) || failed)
        return tide_fail(p->tide, TIDE_IO, "%s: cannot write the drawing: %s", path, strerror(errno));
    return TIDE_OK;
}
