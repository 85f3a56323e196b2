/* place_exact.c - exact search for a placement within a capacity.
 *
 * The floors of all sections form a skyline. Look at a valley, sections of one floor with higher ones on both
 * sides, and at one edge of it. Either a buffer that ends at this edge lies on the floor of the valley,
 * or nothing does at the edge, and its floor is higher than it seems. That is all there is to try, and
 * mostly little: the edge with the fewest possibilities is taken first, and one that is left alone
 * is no choice. Parts of time that no remaining buffer connects are searched one after the other: if
 * one has no solution, no other solution of those before it helps.
 *
 * A search that begins badly takes very long, another order of trying may end it at once: it begins again and
 * again, in another order, with effort that grows on the average, so that it becomes complete. The order
 * of efforts is that of Luby, Sinclair and Zuckerman (1993). */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "runtime/base.h"
#include "runtime/place_exact.h"

enum {
    NEAR = 4,           /* sections that count as one distance                 */
    FIRST_EFFORT = 200, /* nodes of the shortest attempt, and as many more ... */
    NODES_A_BUFFER = 2, /* ... for each buffer                                 */
    DEEPEST = 20000,    /* of recursion                                        */
};

typedef struct Search {
    PlaceState *state;
    Effort *effort;
    long until_nodes; /* of effort->nodes, where this attempt ends  */
    int depth;
    bool stopped;
    bool near_conflict; /* where to decide next                       */
    struct Edge *edges; /* [2 * runs]: left and right edge of each    */
    int *run_of;        /* [n_sections]                               */
    int *cross;         /* [n_sections + 1]                           */
    uint64_t random;
    Pool pool;
} Search;

/* One side of a run of sections with equal floors. */
typedef struct Edge {
    int first, last; /* sections of the run: first to last - 1                              */
    bool right;
    bool valley;   /* higher floors, or nothing that goes on, at both sides               */
    int64_t level; /* floor of the run                                                    */
    int64_t wall;  /* lower one of the floors at its sides; INT64_MAX: none               */
    int64_t next;  /* lowest end of a buffer in the run that does not reach the edge, or lowest offset of
                    * one that does but passes above something pinned; INT64_MAX: none     */
    bool pinned;   /* a pinned buffer lies on the floor at the edge                      */
    int n_buffers; /* that may lie on the floor at the edge                               */
    bool may_rise; /* there may be nothing at the edge                                    */
} Edge;

static int edge_section(const Edge *e)
{
    return e->right ? e->last - 1 : e->first;
}

/* Where the floor of the edge rises to when nothing lies on it: the next buffer there lies on one
 * that does not reach the edge, or as high as a neighbour, or above something pinned. */
static int64_t edge_rise(const Edge *e)
{
    return e->next < e->wall ? e->next : e->wall;
}

/* ---- Edges and what may lie there ---------------------------------------- */

static bool may_lie_here(const PlaceState *s, int buffer)
{
    int twin = s->twin[buffer];

    return !(twin >= 0 && !s->placed[twin]) && state_is_settled(s, buffer);
}

/* Fill edges and run_of of a part, and return the number of runs. */
static int find_runs(Search *x, Part p)
{
    const int64_t *floor = x->state->floor;
    int n = 0;

    for (int first = p.first, last; first < p.last; first = last, n++) {
        for (last = first; last < p.last && floor[last] == floor[first]; last++) x->run_of[last] = n;
        int64_t left = first > p.first ? floor[first - 1] : INT64_MAX;
        int64_t right = last < p.last ? floor[last] : INT64_MAX;
        Edge e = { .first = first, .last = last, .level = floor[first], .next = INT64_MAX };
        e.wall = left < right ? left : right;
        e.valley = e.wall > e.level;
        x->edges[2 * n] = x->edges[2 * n + 1] = e;
        x->edges[2 * n + 1].right = true;
    }
    return n;
}

/* A buffer that lives within the run. */
static void count_at(const PlaceState *s, Edge *e, int buffer, bool may_lie)
{
    bool reaches = e->right ? s->hi[buffer] == e->last : s->lo[buffer] == e->first;
    int64_t lowest = s->lowest[buffer], next = reaches ? lowest : lowest + s->size[buffer];

    if (reaches && lowest == e->level) {
        e->n_buffers += may_lie;
        e->pinned |= s->pinned[buffer];
    } else if (next < e->next) {
        e->next = next;
    }
}

static void count_buffers(Search *x, Part p)
{
    const PlaceState *s = x->state;

    for (int k = p.from; k < p.to; k++) {
        int b = s->list[k];
        Edge *left = &x->edges[2 * x->run_of[s->lo[b]]], *right = left + 1;
        if (!left->valley || s->hi[b] > left->last) continue;
        bool at_edge = s->lo[b] == left->first || s->hi[b] == left->last;
        bool may_lie = at_edge && s->lowest[b] == left->level && may_lie_here(s, b);
        count_at(s, left, b, may_lie);
        count_at(s, right, b, may_lie);
    }
}

static int n_choices(const Edge *e)
{
    return e->n_buffers + e->may_rise;
}

/* No choice, or a single one, comes first. Then, if asked for, near the newest conflict: what is decided
 * there may resolve it, while decisions far away would all be tried in vain. Then few choices, little
 * room, low. */
static bool is_better(const Search *x, const Edge *a, const Edge *b)
{
    const PlaceState *s = x->state;
    int i = edge_section(a), j = edge_section(b), m = n_choices(a), n = n_choices(b);
    int near = abs(i - s->conflict) / NEAR, other_near = abs(j - s->conflict) / NEAR;
    int64_t full = s->floor[i] + s->rest[i], other_full = s->floor[j] + s->rest[j];

    if (m != n && (m < 2 || n < 2)) return m < n;
    if (x->near_conflict && m > 1 && near != other_near) return near < other_near;
    if (m != n) return m < n;
    return full != other_full ? full > other_full : a->level < b->level;
}

/* The edge to decide next. */
static Edge choose_edge(Search *x, Part p)
{
    const PlaceState *s = x->state;
    int n = 2 * find_runs(x, p), best = -1;

    count_buffers(x, p);
    for (int i = 0; i < n; i++) {
        Edge *e = &x->edges[i];
        if (!e->valley) continue;
        int64_t rise = edge_rise(e);
        e->may_rise = !e->pinned && rise < INT64_MAX && rise + s->rest[edge_section(e)] <= s->capacity;
        if (best < 0 || is_better(x, e, &x->edges[best])) best = i;
    }
    assert(best >= 0); /* the lowest run is a valley */
    return x->edges[best];
}

/* Where in the list is the buffer with the next rank after the given one that may lie at the edge? -1:
 * nowhere. */
static int next_buffer(const PlaceState *s, Part p, const Edge *e, int rank)
{
    int best = -1;

    for (int k = p.from; k < p.to; k++) {
        int b = s->list[k];
        bool reaches = e->right ? s->hi[b] == e->last : s->lo[b] == e->first;
        if (!reaches || s->lowest[b] != e->level || s->rank[b] <= rank) continue;
        if (best >= 0 && s->rank[s->list[best]] < s->rank[b]) continue;
        if (may_lie_here(s, b)) best = k;
    }
    return best;
}

/* ---- Search -------------------------------------------------------------- */

static bool search(Search *x, Part p, Window risen);

static double wall_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_spent(Search *x)
{
    if (x->effort->until > 0 && wall_clock() > x->effort->until) x->effort->nodes = 0;
    if (x->state->failed) x->effort->nodes = 0;
    if (x->effort->nodes <= x->until_nodes || x->depth > DEEPEST)
        x->stopped = true;
    else
        x->effort->nodes--;
    return x->stopped;
}

/* Put list[at] at its lowest offset and take it out of the part. */
static Window put_from_list(PlaceState *s, Part *p, int at)
{
    int b = s->list[at];

    s->list[at] = s->list[--p->to];
    s->list[p->to] = b;
    return state_put(s, b, s->lowest[b]);
}

static bool try_buffers(Search *x, Part p, const Edge *e)
{
    PlaceState *s = x->state;
    long mark = s->n_undo;

    for (int at, rank = -1; (at = next_buffer(s, p, e, rank)) >= 0 && !x->stopped;) {
        Part rest = p;
        rank = s->rank[s->list[at]];
        Window risen = put_from_list(s, &rest, at);
        if (search(x, rest, risen)) return true;
        state_undo(s, mark);
    }
    return false;
}

/* The first section of a part to which no buffer goes on from those before it. */
static int first_cut(Search *x, Part p)
{
    const PlaceState *s = x->state;
    int crossing = 0, at = p.first + 1;

    memset(&x->cross[p.first], 0, (size_t)(p.last - p.first + 1) * sizeof *x->cross);
    for (int k = p.from; k < p.to; k++) {
        x->cross[s->lo[s->list[k]] + 1]++;
        x->cross[s->hi[s->list[k]]]--;
    }
    for (; at < p.last; at++)
        if (!(crossing += x->cross[at])) break;
    return at;
}

/* Cut a part in two. */
static void split(PlaceState *s, Part p, int cut, Part halves[2])
{
    int middle = p.from;

    for (int k = p.from; k < p.to; k++) {
        int b = s->list[k];
        if (s->lo[b] >= cut) continue;
        s->list[k] = s->list[middle];
        s->list[middle++] = b;
    }
    halves[0] = (Part){ p.from, middle, p.first, cut };
    halves[1] = (Part){ middle, p.to, cut, p.last };
}

static bool search_halves(Search *x, Part halves[2])
{
    bool second = halves[1].to - halves[1].from < halves[0].to - halves[0].from;

    return search(x, halves[second], (Window){ 0 }) && search(x, halves[!second], (Window){ 0 });
}

/* Place all buffers of a part; what has just risen is still to be propagated. If there is no way, or the
 * effort is spent, nothing has changed. */
static bool search(Search *x, Part p, Window risen)
{
    PlaceState *s = x->state;
    long mark = s->n_undo;
    bool done = p.from == p.to;

    x->depth++;
    while (!done && !is_spent(x) && state_propagate(s, p, risen)) {
        Part halves[2];
        int cut = first_cut(x, p);
        if (cut < p.last) {
            split(s, p, cut, halves);
            done = search_halves(x, halves);
            break;
        }
        Edge e = choose_edge(x, p);
        if (e.n_buffers == 1 && !e.may_rise) {
            risen = put_from_list(s, &p, next_buffer(s, p, &e, -1));
            done = p.from == p.to;
            continue;
        }
        done = e.n_buffers && try_buffers(x, p, &e);
        if (done || !e.may_rise) break;
        risen = state_raise(s, edge_section(&e), edge_rise(&e));
    }
    x->depth--;
    if (!done) state_undo(s, mark);
    return done;
}

/* ---- Restarts ------------------------------------------------------------ */

static double by_lifetime(const PlaceState *s, int b)
{
    return s->hi[b] - s->lo[b];
}
static double by_area(const PlaceState *s, int b)
{
    return (double)s->size[b] * (s->hi[b] - s->lo[b]);
}
static double by_size(const PlaceState *s, int b)
{
    return (double)s->size[b];
}

static double (*const keys[])(const PlaceState *, int) = { by_lifetime, by_area, by_size };
enum { N_KEYS = sizeof keys / sizeof *keys };

typedef struct Turn {
    double key;
    int buffer;
} Turn;

static int compare_turns(const void *a, const void *b)
{
    const Turn *x = a, *y = b;

    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return x->buffer - y->buffer;
}

static double next_random(Search *x) /* -1 to 1 */
{
    x->random = x->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(x->random >> 11) / (double)(1ull << 52) - 1;
}

/* Every attempt has an order of its own: after one by each key they are disturbed by up to three tenths.
 * From then on decisions are taken near conflicts. */
static void rank_buffers(Search *x, long attempt, Turn *turns)
{
    PlaceState *s = x->state;
    double disturbance = attempt < 2 * N_KEYS ? 0 : 0.3;

    for (int b = 0; b < s->n; b++)
        turns[b] = (Turn){ keys[attempt / 2 % N_KEYS](s, b) * (1 + disturbance * next_random(x)), b };
    qsort(turns, (size_t)s->n, sizeof *turns, compare_turns);
    for (int k = 0; k < s->n; k++) s->rank[turns[k].buffer] = k;
}

typedef struct Shape {
    int lo, hi;
    int64_t size;
    int rank, buffer;
} Shape;

static int compare_shapes(const void *a, const void *b)
{
    const Shape *x = a, *y = b;

    if (x->lo != y->lo) return x->lo - y->lo;
    if (x->hi != y->hi) return x->hi - y->hi;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    return x->rank - y->rank;
}

static void find_twins(PlaceState *s, Shape *shapes)
{
    for (int b = 0; b < s->n; b++) shapes[b] = (Shape){ s->lo[b], s->hi[b], s->size[b], s->rank[b], b };
    qsort(shapes, (size_t)s->n, sizeof *shapes, compare_shapes);
    for (int k = 0; k < s->n; k++) {
        const Shape *a = k ? &shapes[k - 1] : NULL, *b = &shapes[k];
        bool alike = a && !s->pinned[a->buffer] && !s->pinned[b->buffer] && a->lo == b->lo &&
                     a->hi == b->hi && a->size == b->size;
        s->twin[b->buffer] = alike ? a->buffer : -1;
    }
}

/* 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ..., i from 1 */
static long luby(long i)
{
    long ones = 1; /* the least 2^k - 1 >= i */

    while (ones < i) ones = 2 * ones + 1;
    return ones == i ? (ones + 1) / 2 : luby(i - ones / 2);
}

long exact_least_nodes(const PlaceState *s)
{
    return FIRST_EFFORT + NODES_A_BUFFER * (long)s->n;
}

static Verdict attempts(Search *x, int64_t capacity, Turn *turns, Shape *shapes)
{
    PlaceState *s = x->state;
    long least = exact_least_nodes(s);

    s->conflict = 0;
    for (long i = 0; x->effort->nodes > 0; i++) {
        long effort = least * luby(i + 1);
        rank_buffers(x, i, turns);
        find_twins(s, shapes);
        state_reset(s, capacity);
        x->until_nodes = effort < x->effort->nodes ? x->effort->nodes - effort : 0;
        x->stopped = false;
        x->depth = 0;
        x->near_conflict = i % 2 || i >= 2 * N_KEYS;
        if (search(x, (Part){ 0, s->n, 0, s->n_sections }, (Window){ 0, s->n_sections })) return VERDICT_FITS;
        if (!x->stopped) return VERDICT_NEVER;
    }
    return VERDICT_UNKNOWN;
}

Verdict exact_search(PlaceState *s, int64_t capacity, Effort *effort)
{
    size_t sections = (size_t)s->n_sections + 2, n = (size_t)s->n;
    Search x = { .state = s, .effort = effort, .random = 1 };
    Verdict verdict = VERDICT_UNKNOWN;

    if (s->bound > capacity) return VERDICT_NEVER;
    if (s->overlap) return VERDICT_UNKNOWN;
    x.edges = pool_new(&x.pool, 2 * sections, sizeof *x.edges);
    x.run_of = pool_new(&x.pool, sections, sizeof *x.run_of);
    x.cross = pool_new(&x.pool, sections, sizeof *x.cross);
    Turn *turns = pool_new(&x.pool, n, sizeof *turns);
    Shape *shapes = pool_new(&x.pool, n, sizeof *shapes);
    if (!x.pool.failed) verdict = attempts(&x, capacity, turns, shapes);
    pool_free(&x.pool);
    return verdict;
}
