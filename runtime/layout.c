/* layout.c - a schedule gets its offsets: stays that share a place become one span, and what is
 * fixed becomes obstacles. */
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/layout.h"
#include "runtime/place.h"

enum { WORK = 1000000, FEWEST_ORDERS = 8, MOST_ORDERS = 400, NODES_TIMES_SPANS = 1000000 };

TideStatus layout_new(const Facts *f, Layout **out)
{
    const Problem *p = f->problem;
    size_t stays = 2 * (size_t)p->n_tensors;
    Layout *l = calloc(1, sizeof *l);

    *out = NULL;
    if (!l) return TIDE_NO_MEMORY;
    for (int i = 0; i < p->n_nodes; i++)
        stays += (1 + (size_t)p->nodes[i].n_out) * ((size_t)p->nodes[i].n_out + 1);
    l->facts = f;
    l->offsets = pool_new(&l->pool, stays, sizeof *l->offsets);
    l->span_of = pool_new(&l->pool, stays, sizeof *l->span_of);
    l->spans = pool_new(&l->pool, stays + 2 * (size_t)f->n_fixed + 1, sizeof *l->spans);
    if (l->pool.failed) {
        layout_free(l);
        return TIDE_NO_MEMORY;
    }
    *out = l;
    return TIDE_OK;
}

void layout_free(Layout *l)
{
    if (!l) return;
    pool_free(&l->pool);
    free(l);
}

static void add_obstacle(Layout *l, int lower, int upper, size_t from, size_t to)
{
    if (from < to)
        l->spans[l->n_spans++] =
            (Span){ .lower = lower, .upper = upper, .bytes = to - from, .offset = from, .fixed = true };
}

/* The static region is taken for good but where a fixed tensor frees its bytes for a while. */
static void add_static(Layout *l, const Schedule *s, const int *stay_of)
{
    const Problem *p = l->facts->problem;
    int end = s->n_runs ? s->n_runs : 1;
    size_t taken = 0; /* what lies before is obstacle already, or free for a while */

    for (int i = 0; i < l->facts->n_fixed; i++) {
        int t = l->facts->fixed[i];
        const CostTensor *x = &p->tensors[t];
        const Stay *stay = stay_of[t] >= 0 ? &s->stays[stay_of[t]] : NULL;
        if (stay && stay->from == 0 && stay->to == end - 1) continue;
        add_obstacle(l, 0, end, taken, x->offset);
        if (stay) add_obstacle(l, stay->from, stay->to + 1, x->offset, x->offset + x->bytes);
        taken = x->offset + x->bytes;
    }
    add_obstacle(l, 0, end, taken, p->static_bytes);
}

static void add_stays(Layout *l, const Schedule *s)
{
    for (int i = 0; i < s->n_stays; i++) {
        const Stay *x = &s->stays[i];
        if (x->fixed) continue;
        if (x->group == i) {
            l->span_of[i] = l->n_spans;
            l->spans[l->n_spans++] = (Span){ .lower = x->from, .upper = x->to + 1, .bytes = x->bytes };
            continue;
        }
        Span *shared = &l->spans[l->span_of[i] = l->span_of[x->group]];
        if (shared->upper < x->to + 1) shared->upper = x->to + 1;
    }
}

/* One order costs about the square of the spans; few spans are worth more orders. A node of the exact search
 * costs about as many operations as there are spans, and a search takes more nodes than spans: it is for
 * graphs of up to some 600. */
static long orders_for(long n_spans)
{
    long orders = n_spans ? WORK / (n_spans * n_spans) : 0;

    return orders < FEWEST_ORDERS ? FEWEST_ORDERS : orders > MOST_ORDERS ? MOST_ORDERS : orders;
}

TideStatus layout_place(Layout *l, const Schedule *s, size_t enough)
{
    l->n_spans = 0;
    add_static(l, s, s->stay_of);
    add_stays(l, s);
    Placing how = { .alignment = l->facts->problem->alignment,
                    .enough = enough,
                    .nodes = l->n_spans ? NODES_TIMES_SPANS / l->n_spans : 0,
                    .iterations = orders_for(l->n_spans) };
    l->height = spans_place(l->spans, l->n_spans, how);
    if (l->height == SIZE_MAX) return TIDE_NO_MEMORY;
    if (l->height < l->facts->problem->static_bytes) l->height = l->facts->problem->static_bytes;
    for (int i = 0; i < s->n_stays; i++) {
        const Stay *x = &s->stays[i];
        l->offsets[i] =
            x->fixed ? l->facts->problem->tensors[x->tensor].offset : l->spans[l->span_of[i]].offset;
    }
    return TIDE_OK;
}
