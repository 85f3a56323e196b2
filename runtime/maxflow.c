/* maxflow.c - Dinic's method: flow along shortest paths only, in phases of equal length. */
#include <stdlib.h>
#include <string.h>
#include "runtime/maxflow.h"

/* Arcs stand in pairs: a and a ^ 1 are the two directions of one. */
typedef struct Arc {
    int to, next; /* next arc out of the same node, -1 */
    int64_t left; /* capacity that is not used         */
} Arc;

struct Flow {
    int n_nodes, n_arcs, room;
    Arc *arcs;
    int64_t *capacity; /* [n_arcs]                           */
    int *first;        /* [n_nodes]: first arc out, -1       */
    int *level;        /* [n_nodes]: arcs from the source, -1 */
    int *current;      /* [n_nodes]: arc to try next         */
    int *queue;        /* [n_nodes]; also the path of arcs   */
};

Flow *flow_new(int nodes)
{
    Flow *f = calloc(1, sizeof *f);
    size_t n = (size_t)nodes;

    if (!f) return NULL;
    f->n_nodes = nodes;
    f->first = malloc(4 * n * sizeof *f->first);
    if (!f->first) {
        free(f);
        return NULL;
    }
    f->level = f->first + n;
    f->current = f->level + n;
    f->queue = f->current + n;
    for (int i = 0; i < nodes; i++) f->first[i] = -1;
    return f;
}

void flow_free(Flow *f)
{
    if (!f) return;
    free(f->first);
    free(f->arcs);
    free(f->capacity);
    free(f);
}

static bool make_room(Flow *f)
{
    if (f->n_arcs + 2 <= f->room) return true;
    int room = f->room ? 2 * f->room : 256;
    Arc *arcs = realloc(f->arcs, (size_t)room * sizeof *arcs);
    if (arcs) f->arcs = arcs;
    int64_t *capacity = realloc(f->capacity, (size_t)room * sizeof *capacity);
    if (capacity) f->capacity = capacity;
    if (!arcs || !capacity) return false;
    f->room = room;
    return true;
}

static void add_half(Flow *f, int from, int to)
{
    f->arcs[f->n_arcs] = (Arc){ .to = to, .next = f->first[from] };
    f->capacity[f->n_arcs] = 0;
    f->first[from] = f->n_arcs++;
}

int flow_add(Flow *f, int from, int to)
{
    if (!make_room(f)) return -1;
    add_half(f, from, to);
    add_half(f, to, from);
    return f->n_arcs - 2;
}

void flow_set(Flow *f, int arc, int64_t capacity)
{
    f->capacity[arc] = capacity;
}

/* Number the nodes by their distance from the source; is the sink among them? */
static bool number_nodes(Flow *f, int source, int sink)
{
    int head = 0, tail = 0;

    for (int i = 0; i < f->n_nodes; i++) f->level[i] = -1;
    f->level[source] = 0;
    f->queue[tail++] = source;
    while (head < tail) {
        int node = f->queue[head++];
        for (int a = f->first[node]; a >= 0; a = f->arcs[a].next) {
            const Arc *arc = &f->arcs[a];
            if (arc->left <= 0 || f->level[arc->to] >= 0) continue;
            f->level[arc->to] = f->level[node] + 1;
            f->queue[tail++] = arc->to;
        }
    }
    return f->level[sink] >= 0;
}

/* The next arc out of a node that leads one level on; -1: none is left. */
static int arc_onward(Flow *f, int node)
{
    for (int *a = &f->current[node]; *a >= 0; *a = f->arcs[*a].next) {
        const Arc *arc = &f->arcs[*a];
        if (arc->left > 0 && f->level[arc->to] == f->level[node] + 1) return *a;
    }
    return -1;
}

/* Send what the path allows; returns the first of its places where an arc is now full. */
static int send(Flow *f, const int *path, int n, int64_t *sent)
{
    int64_t least = INT64_MAX;
    int full = 0;

    for (int i = 0; i < n; i++)
        if (f->arcs[path[i]].left < least) least = f->arcs[path[full = i]].left;
    for (int i = 0; i < n; i++) {
        f->arcs[path[i]].left -= least;
        f->arcs[path[i] ^ 1].left += least;
    }
    *sent += least;
    return full;
}

/* Flow until no path of this phase's length is left. */
static int64_t run_phase(Flow *f, int source, int sink)
{
    int *path = f->queue, n = 0, node = source;
    int64_t sent = 0;

    memcpy(f->current, f->first, (size_t)f->n_nodes * sizeof *f->current);
    for (;;) {
        if (node == sink) {
            n = send(f, path, n, &sent);
            node = f->arcs[path[n] ^ 1].to;
            continue;
        }
        int a = arc_onward(f, node);
        if (a >= 0) {
            path[n++] = a;
            node = f->arcs[a].to;
        } else if (n) {
            node = f->arcs[path[--n] ^ 1].to;
            f->current[node] = f->arcs[f->current[node]].next;
        } else {
            return sent;
        }
    }
}

int64_t flow_solve(Flow *f, int source, int sink)
{
    int64_t sum = 0;

    for (int a = 0; a < f->n_arcs; a++) f->arcs[a].left = f->capacity[a];
    while (number_nodes(f, source, sink)) sum += run_phase(f, source, sink);
    return sum;
}

bool flow_with_source(const Flow *f, int node)
{
    return f->level[node] >= 0;
}

bool flow_is_cut(const Flow *f, int arc)
{
    return f->level[f->arcs[arc ^ 1].to] >= 0 && f->level[f->arcs[arc].to] < 0;
}
