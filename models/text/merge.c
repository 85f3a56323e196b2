/* merge.c - a chain of symbols and a heap of the pairs that may be merged.
 *
 * A merge takes two links of the chain and offers at most two new pairs. Offers whose links have changed
 * meanwhile are passed over when they come up. */
#include <stdlib.h>
#include "models/text/merge.h"
#include "runtime/base.h"
#include "runtime/op.h"

typedef struct Link {
    int32_t symbol, before,
        after; /* positions; -1: none. A symbol of -1 was merged into its left neighbour. */
} Link;

typedef struct Offer {
    double urgency;
    int32_t at, left, right, result; /* position, and the symbols that stood there and behind */
} Offer;

/* ---- The heap ------------------------------------------------------------- */

static bool goes_first(const Offer *a, const Offer *b)
{
    return a->urgency < b->urgency || (a->urgency == b->urgency && a->at < b->at);
}

static void push(Offer *heap, size_t *n, Offer x)
{
    size_t i = (*n)++;

    for (; i > 0 && goes_first(&x, &heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = x;
}

static Offer pop(Offer *heap, size_t *n)
{
    Offer top = heap[0], last = heap[--*n];
    size_t i = 0;

    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && goes_first(&heap[child + 1], &heap[child])) child++;
        if (!goes_first(&heap[child], &last)) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

/* ---- The chain ------------------------------------------------------------ */

static TideStatus reserve(Tide *t, Merger *m, size_t n)
{
    size_t room = m->room ? m->room : 64;

    if (n <= m->room) return TIDE_OK;
    if (n > INT32_MAX)
        return tide_fail(t, TIDE_BAD_FILE, "a text of %zu symbols without a pause; at most %d can be merged",
                         n, INT32_MAX);
    while (room < n) room *= 2;
    merger_free(m);
    m->links = malloc(room * sizeof *m->links);
    m->heap = malloc(3 * room * sizeof *m->heap); /* n - 1 pairs at first, two more for each merge */
    if (!m->links || !m->heap) {
        merger_free(m);
        return tide_fail(t, TIDE_NO_MEMORY, "no memory to merge %zu symbols", n);
    }
    m->room = room;
    return TIDE_OK;
}

void merger_free(Merger *m)
{
    free(m->links);
    free(m->heap);
    *m = (Merger){ 0 };
}

typedef struct Chain {
    Link *links;
    Offer *heap;
    size_t offers;
    MergeRule *rule;
    const void *rules;
} Chain;

static void offer(Chain *c, int32_t at)
{
    if (at < 0 || c->links[at].after < 0) return;
    Offer x = { .at = at, .left = c->links[at].symbol, .right = c->links[c->links[at].after].symbol };
    if (c->rule(c->rules, x.left, x.right, &x.urgency, &x.result)) push(c->heap, &c->offers, x);
}

static bool stands(const Chain *c, const Offer *x)
{
    const Link *left = &c->links[x->at];

    return left->symbol == x->left && left->after >= 0 && c->links[left->after].symbol == x->right;
}

static void take(Chain *c, const Offer *x)
{
    Link *left = &c->links[x->at], *right = &c->links[left->after];

    left->symbol = x->result;
    left->after = right->after;
    right->symbol = -1;
    if (left->after >= 0) c->links[left->after].before = x->at;
    offer(c, left->before);
    offer(c, x->at);
}

TideStatus merge_symbols(Tide *t, Merger *m, MergeRule *rule, const void *rules, int32_t *symbols, size_t *n)
{
    size_t left = 0;

    if (*n < 2) return TIDE_OK;
    TRY(reserve(t, m, *n));
    Chain c = { .links = m->links, .heap = m->heap, .rule = rule, .rules = rules };
    int32_t last = (int32_t)*n - 1;
    for (int32_t i = 0; i <= last; i++) c.links[i] = (Link){ symbols[i], i - 1, i < last ? i + 1 : -1 };
    for (int32_t i = 0; i < last; i++) offer(&c, i);
    while (c.offers) {
        Offer x = pop(c.heap, &c.offers);
        if (stands(&c, &x)) take(&c, &x);
    }
    for (int32_t i = 0; i >= 0; i = c.links[i].after) symbols[left++] = c.links[i].symbol;
    *n = left;
    return TIDE_OK;
}
