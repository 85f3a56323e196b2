/* force.c - fates that the user demands. */
#include <fnmatch.h>
#include "runtime/base.h"
#include "runtime/graph.h"

static bool names(const TideTensor *list, int n, int id)
{
    for (int i = 0; i < n; i++)
        if (list[i].id == id) return true;
    return false;
}

/* Is there anything to decide? An activation has a fate if one node writes it, forward, and backward reads it
 * again; an output goes to the host in any case. Plans decide about just these (liveness.c). */
static bool has_choice(const TideGraph *g, int id)
{
    int writers = 0;
    bool forward = false, backward = false, turned = false;

    if (g->program->tensors[id]->output) return false;
    for (int i = 0; i < g->n_nodes; i++) {
        const Node *n = g->nodes[i];
        if (n->again) continue;
        turned = turned || n->phase == PHASE_BACKWARD;
        bool written = names(n->out, n->n_out, id), used = written || names(n->in, n->n_in, id);
        writers += written;
        forward = forward || (used && !turned);
        backward = backward || (used && turned);
    }
    return writers == 1 && forward && backward;
}

static bool matches(const TideGraph *g, int id, const char *pattern)
{
    const Tensor *t = g->program->tensors[id];
    bool named = t->graph == g->index && t->kind == TIDE_ACTIVATION && fnmatch(pattern, t->name, 0) == 0;

    return named && has_choice(g, id);
}

int tide_force(TideGraph *g, const char *pattern, TideFate fate)
{
    TideProgram *p = g->program;
    int n = 0;

    for (int id = 1; id < p->n_tensors; id++) {
        if (!matches(g, id, pattern)) continue;
        if (p->tensors[id]->forced != TIDE_AUTO && p->tensors[id]->forced != fate) return -1;
        n++;
    }
    for (int id = 1; id < p->n_tensors; id++)
        if (matches(g, id, pattern)) p->tensors[id]->forced = fate;
    return n;
}
