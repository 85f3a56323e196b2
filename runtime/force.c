/* force.c - fates that the user demands. */
#include <fnmatch.h>
#include "runtime/base.h"
#include "runtime/graph.h"

static bool matches(const TideGraph *g, const Tensor *t, const char *pattern)
{
    return t->graph == g->index && t->kind == TIDE_ACTIVATION && fnmatch(pattern, t->name, 0) == 0;
}

int tide_force(TideGraph *g, const char *pattern, TideFate fate)
{
    TideProgram *p = g->program;
    int n = 0;

    for (int id = 1; id < p->n_tensors; id++) {
        if (!matches(g, p->tensors[id], pattern)) continue;
        if (p->tensors[id]->forced != TIDE_AUTO && p->tensors[id]->forced != fate) return -1;
        n++;
    }
    for (int id = 1; id < p->n_tensors; id++)
        if (matches(g, p->tensors[id], pattern)) p->tensors[id]->forced = fate;
    return n;
}
