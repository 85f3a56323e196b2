/* bound.c - device bytes that no plan of a graph can do without. */
#include <stdio.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/bound.h"
#include "runtime/cut.h"

enum { MOST_NAMES = 3 };

TideStatus least_bound(const Facts *f, LeastBytes *out)
{
    Pool pool = { 0 };
    Cut *cuts = pool_new(&pool, (size_t)f->n_order, sizeof *cuts);

    *out = (LeastBytes){ .bytes = f->n_order ? 0 : f->problem->static_bytes, .node = NO_NODE };
    TideStatus status = cuts ? cuts_find(f, ONE_FATE, 0, cuts) : TIDE_NO_MEMORY;
    for (int i = 0; !status && i < f->n_order; i++)
        if (cuts[i].room < -(double)out->bytes) *out = (LeastBytes){ (size_t)-cuts[i].room, cuts[i].node };
    pool_free(&pool);
    return status;
}

/* Is t there when the node runs, whatever its fate? */
static bool must_be_there(const Facts *f, int t, int node)
{
    const CostTensor *x = &f->problem->tensors[t];
    const Uses *u = &f->uses[t];
    bool alive = u->first != NO_NODE && (u->first <= node || x->input) && (u->last >= node || x->output);

    return alive && !x->fixed && !cut_has_item(f, ONE_FATE, t, node);
}

void least_names(const Facts *f, LeastBytes least, char *text, size_t size)
{
    const CostTensor *x = f->problem->tensors;
    int named[MOST_NAMES];

    snprintf(text, size, "%s", "persistent tensors alone");
    for (int k = 0; least.node != NO_NODE && k < MOST_NAMES; k++) {
        int best = -1;
        for (int t = 0; t < f->problem->n_tensors; t++) {
            bool taken = false;
            for (int i = 0; i < k; i++) taken = taken || named[i] == t;
            if (!taken && must_be_there(f, t, least.node) && (best < 0 || x[t].bytes > x[best].bytes))
                best = t;
        }
        if (best < 0) return;
        size_t n = k ? strlen(text) : 0;
        snprintf(text + n, size - n, "%s%s", k ? ", " : "", x[best].name);
        named[k] = best;
    }
}
