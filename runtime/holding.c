/* holding.c - what persistent tensors hold before and after a graph. */
#include <limits.h>
#include "runtime/holding.h"

/* First nodes of a graph that read and that write a tensor, or bytes of it; INT_MAX: none. */
typedef struct Access {
    int read, write;
} Access;

static void earlier(int *first, int node)
{
    if (node < *first) *first = node;
}

static void join(Access *a, const Access *b)
{
    earlier(&a->read, b->read);
    earlier(&a->write, b->write);
}

/* A flat tensor and its views are names for the same bytes. */
static void join_views(const TideProgram *p, Access *a)
{
    for (int id = 1; id < p->n_tensors; id++)
        if (p->tensors[id]->flat) join(&a[id], &a[p->tensors[id]->flat]);
    for (int id = 1; id < p->n_tensors; id++)
        if (p->tensors[id]->flat) join(&a[p->tensors[id]->flat], &a[id]);
}

static void find_accesses(const TideGraph *g, Access *a)
{
    for (int id = 0; id < g->program->n_tensors; id++) a[id] = (Access){ INT_MAX, INT_MAX };
    for (int i = 0; i < g->n_nodes; i++) {
        const Node *n = g->nodes[i];
        for (int j = 0; j < n->n_in; j++) earlier(&a[n->in[j].id].read, i);
        for (int j = 0; j < n->n_out; j++) earlier(&a[n->out[j].id].write, i);
    }
    join_views(g->program, a);
}

/* Something is read that was there before: reading comes first, or in the node that also writes. */
static bool reads_first(const Access *a)
{
    return a->read != INT_MAX && a->read <= a->write;
}

Holding *graph_holding(const TideGraph *g, Pool *pool)
{
    const TideProgram *p = g->program;
    Holding *h = pool_new(pool, (size_t)p->n_tensors, sizeof *h);
    Access *a = pool_new(pool, (size_t)p->n_tensors, sizeof *a);
    bool *carried = pool_new(pool, (size_t)p->n_tensors, sizeof *carried);
    bool *written = pool_new(pool, (size_t)p->n_tensors, sizeof *written);

    if (!h || !a || !carried || !written) return NULL;
    /* A gradient is carried from one run to the next where some graph both reads it first and writes it:
     * adding micro-steps, and the update that sets it to zero. */
    for (int i = 0; i < p->n_graphs; i++) {
        find_accesses(p->graphs[i], a);
        for (int id = 1; id < p->n_tensors; id++) {
            if (a[id].write == INT_MAX) continue;
            written[id] = true;
            if (reads_first(&a[id])) carried[id] = true;
        }
    }
    find_accesses(g, a);
    for (int id = 1; id < p->n_tensors; id++) {
        if (p->tensors[id]->kind != TIDE_GRADIENT || !written[id]) carried[id] = true;
        h[id] = (Holding){ carried[id] || reads_first(&a[id]), carried[id] || a[id].write != INT_MAX };
    }
    return h;
}
