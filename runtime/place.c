/* place.c - spans to offsets: a few fixed orders, then the exact search, then a search over orders.
 *
 * Given an order, spans are put one after another where they fit. The order decides the height; the search
 * moves the spans that make the height to an earlier turn. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "runtime/base.h"
#include "runtime/place_lower.h"

typedef enum Fit { FIRST_FIT, BEST_FIT, FIT_COUNT } Fit;

/* A span that was placed, in one piece so that looking for a gap walks through memory in order. */
typedef struct Block {
    int lower, upper;
    size_t from, to;
} Block;

typedef struct Placer {
    Span *spans;
    int n;
    Placing how;
    int *order, *best_order; /* [n_free]: spans that are not fixed, in turn         */
    int n_free;
    Block *blocks;         /* [n_placed]: what lies somewhere, by offset          */
    int n_placed, n_fixed; /* fixed spans are the same for every order            */
    Block *fixed;          /* [n_fixed]: fixed spans, by offset                   */
    size_t *best;          /* [n]: offsets of the lowest placement found          */
    size_t height, bound, fixed_height;
    Fit fit; /* of the lowest placement found                       */
    uint64_t random;
    double until;
    Pool pool;
} Placer;

/* ---- Bound --------------------------------------------------------------- */

typedef struct Change {
    int at;
    bool begin;
    size_t bytes;
} Change;

static int compare_changes(const void *a, const void *b)
{
    const Change *x = a, *y = b;

    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->begin - y->begin; /* what ends frees its bytes before others begin */
}

size_t spans_bound(const Span *spans, int n, size_t alignment)
{
    Change *c = malloc((2 * (size_t)n + 1) * sizeof *c);
    size_t now = 0, most = 0;
    int n_changes = 0;

    if (!c) return 0;
    for (int i = 0; i < n; i++) {
        if (spans[i].lower >= spans[i].upper) continue;
        size_t bytes = align_up(spans[i].bytes, alignment);
        c[n_changes++] = (Change){ spans[i].lower, true, bytes };
        c[n_changes++] = (Change){ spans[i].upper, false, bytes };
    }
    qsort(c, (size_t)n_changes, sizeof *c, compare_changes);
    for (int i = 0; i < n_changes; i++) {
        now = c[i].begin ? now + c[i].bytes : now - c[i].bytes;
        if (now > most) most = now;
    }
    free(c);
    return most;
}

/* ---- Placing in a given order -------------------------------------------- */

static size_t end_of(const Placer *p, const Span *s)
{
    return align_up(s->offset + s->bytes, p->how.alignment);
}

static void add_block(Placer *p, const Span *s)
{
    int lo = 0, hi = p->n_placed;

    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (p->blocks[mid].from <= s->offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(&p->blocks[lo + 1], &p->blocks[lo], (size_t)(p->n_placed - lo) * sizeof *p->blocks);
    p->blocks[lo] = (Block){ s->lower, s->upper, s->offset, end_of(p, s) };
    p->n_placed++;
}

/* The lowest gap, or the smallest, among the spans alive at the same time that is large enough. */
static size_t find_gap(const Placer *p, const Span *s, Fit fit)
{
    size_t top = 0, bytes = align_up(s->bytes, p->how.alignment), best = SIZE_MAX, best_gap = SIZE_MAX;

    for (const Block *b = p->blocks, *end = b + p->n_placed; b < end; b++) {
        if (b->lower >= s->upper || s->lower >= b->upper) continue;
        if (b->from >= top && b->from - top >= bytes) {
            if (fit == FIRST_FIT) return top;
            if (b->from - top < best_gap) {
                best_gap = b->from - top;
                best = top;
            }
        }
        if (b->to > top) top = b->to;
    }
    return best == SIZE_MAX ? top : best;
}

static double wall_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool time_is_over(const Placer *p)
{
    return p->how.seconds > 0 && wall_clock() > p->until;
}

enum { TURNS_A_LOOK = 256 }; /* spans placed between looks at the clock */

/* Put the spans from turn i on above all others, one on the other: a placement for no time at all. */
static size_t stack_rest(Placer *p, int i, size_t height)
{
    for (; i < p->n_free; i++) {
        Span *s = &p->spans[p->order[i]];
        s->offset = height;
        height = end_of(p, s);
    }
    return height;
}

/* Place all in p->order; give up once the height exceeds worst. One order of very many spans may take longer
 * than there is time: then it is given up too, or ended somehow where no other placement is known. */
static size_t place_in_order(Placer *p, Fit fit, size_t worst)
{
    size_t height = p->fixed_height;

    memcpy(p->blocks, p->fixed, (size_t)p->n_fixed * sizeof *p->blocks);
    p->n_placed = p->n_fixed;
    for (int i = 0; i < p->n_free && height <= worst; i++) {
        if (i % TURNS_A_LOOK == 0 && time_is_over(p))
            return p->height == SIZE_MAX ? stack_rest(p, i, height) : SIZE_MAX;
        Span *s = &p->spans[p->order[i]];
        s->offset = find_gap(p, s, fit);
        add_block(p, s);
        if (end_of(p, s) > height) height = end_of(p, s);
    }
    return height;
}

/* Fixed spans are sorted once. */
static void place_fixed(Placer *p)
{
    for (int i = 0; i < p->n; i++) {
        if (!p->spans[i].fixed) continue;
        add_block(p, &p->spans[i]);
        if (end_of(p, &p->spans[i]) > p->fixed_height) p->fixed_height = end_of(p, &p->spans[i]);
    }
    p->n_fixed = p->n_placed;
    memcpy(p->fixed, p->blocks, (size_t)p->n_fixed * sizeof *p->fixed);
}

/* ---- Orders -------------------------------------------------------------- */

typedef struct Key {
    double value;
    int span;
} Key;

static int compare_keys(const void *a, const void *b)
{
    const Key *x = a, *y = b;

    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return x->span - y->span;
}

static double by_size(const Span *s)
{
    return (double)s->bytes;
}
static double by_area(const Span *s)
{
    return (double)s->bytes * (s->upper - s->lower);
}
static double by_lifetime(const Span *s)
{
    return s->upper - s->lower;
}
static double by_weight(const Span *s)
{
    return (double)s->bytes * (double)s->bytes * (s->upper - s->lower);
}
static double by_start(const Span *s)
{
    return -(double)s->lower;
}

/* The orders that are tried first, each with a fit. */
static const struct {
    double (*key)(const Span *);
    Fit fit;
} first_orders[] = {
    { by_lifetime, FIRST_FIT }, { by_size, FIRST_FIT }, { by_area, FIRST_FIT },    { by_weight, FIRST_FIT },
    { by_start, FIRST_FIT },    { by_size, BEST_FIT },  { by_lifetime, BEST_FIT },
};
enum { N_FIRST = sizeof first_orders / sizeof *first_orders };

static void sort_by(Placer *p, double (*key)(const Span *), Key *k)
{
    int n = 0;

    for (int i = 0; i < p->n; i++)
        if (!p->spans[i].fixed) k[n++] = (Key){ key(&p->spans[i]), i };
    qsort(k, (size_t)n, sizeof *k, compare_keys);
    for (int i = 0; i < n; i++) p->order[i] = k[i].span;
    p->n_free = n;
}

/* ---- Search -------------------------------------------------------------- */

static bool is_done(const Placer *p)
{
    if (p->height == SIZE_MAX) return false; /* nothing was placed yet */
    if (p->height <= p->bound || p->height <= p->how.enough) return true;
    return time_is_over(p);
}

/* Remember the placement that stands in the spans if it is lower than the best, or as low. */
static bool keep_if_lower(Placer *p, size_t height, Fit fit)
{
    if (height > p->height) return false;
    p->height = height;
    p->fit = fit;
    for (int i = 0; i < p->n; i++) p->best[i] = p->spans[i].offset;
    memcpy(p->best_order, p->order, (size_t)p->n_free * sizeof *p->order);
    return true;
}

static uint32_t next_random(Placer *p, uint32_t below)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((p->random >> 33) % below);
}

static void move_to_turn(int *order, int from, int to)
{
    int span = order[from];

    memmove(&order[to + 1], &order[to], (size_t)(from - to) * sizeof *order);
    order[to] = span;
}

/* Give an earlier turn to one span that reaches the height, wherever the search for it begins. */
static void promote_highest(Placer *p)
{
    int n = p->n_free, start = (int)next_random(p, (uint32_t)n);

    for (int k = 0; k < n; k++) {
        int turn = (start + k) % n;
        const Span *s = &p->spans[p->order[turn]];
        if (align_up(p->best[p->order[turn]] + s->bytes, p->how.alignment) < p->height || !turn) continue;
        move_to_turn(p->order, turn, (int)next_random(p, (uint32_t)turn));
        return;
    }
}

/* Give an earlier turn to about half of the spans that reach above the bound. */
static void promote_high(Placer *p)
{
    uint32_t reach = 1 + next_random(p, (uint32_t)p->n_free);

    for (int turn = 1; turn < p->n_free; turn++) {
        const Span *s = &p->spans[p->order[turn]];
        bool high = align_up(p->best[p->order[turn]] + s->bytes, p->how.alignment) > p->bound;
        if (!high || next_random(p, 2)) continue;
        int back = (int)next_random(p, reach);
        move_to_turn(p->order, turn, turn > back ? turn - back : 0);
    }
}

/* Another order, near that of the lowest placement. */
static void disturb(Placer *p)
{
    memcpy(p->order, p->best_order, (size_t)p->n_free * sizeof *p->order);
    if (next_random(p, 2))
        promote_highest(p);
    else
        promote_high(p);
    int turn = next_random(p, 2) ? (int)next_random(p, (uint32_t)p->n_free) : 0;
    if (turn) move_to_turn(p->order, turn, (int)next_random(p, (uint32_t)turn));
}

static void search(Placer *p)
{
    for (long i = 0; i < p->how.iterations && p->n_free > 1 && !is_done(p); i++) {
        disturb(p);
        Fit fit = next_random(p, 4) ? p->fit : (Fit)next_random(p, FIT_COUNT);
        keep_if_lower(p, place_in_order(p, fit, p->height), fit);
    }
}

/* Exact search from the lowest placement. It gets most of the time: where it does not reach the goal, orders
 * rarely do. */
static void search_exactly(Placer *p)
{
    size_t enough = p->how.enough > p->bound ? p->how.enough : p->bound;
    Goal goal = { enough, { p->how.nodes, p->until - p->how.seconds / 4 } };

    for (int i = 0; i < p->n; i++) p->spans[i].offset = p->best[i];
    size_t height = spans_lower(p->spans, p->n, p->how.alignment, &goal);
    if (height < p->height) keep_if_lower(p, height, p->fit);
    if (goal.height > enough) p->bound = goal.height;
}

static bool placer_open(Placer *p, Key **k)
{
    size_t n = (size_t)p->n;

    p->order = pool_new(&p->pool, n, sizeof *p->order);
    p->best_order = pool_new(&p->pool, n, sizeof *p->best_order);
    p->blocks = pool_new(&p->pool, n + 1, sizeof *p->blocks);
    p->fixed = pool_new(&p->pool, n, sizeof *p->fixed);
    p->best = pool_new(&p->pool, n, sizeof *p->best);
    *k = pool_new(&p->pool, n, sizeof **k);
    return !p->pool.failed;
}

size_t spans_place(Span *spans, int n, Placing how)
{
    Placer p = { .spans = spans, .n = n, .how = how, .height = SIZE_MAX, .random = 1 };
    Key *k;

    if (!placer_open(&p, &k)) {
        pool_free(&p.pool);
        return SIZE_MAX;
    }
    p.bound = spans_bound(spans, n, how.alignment);
    place_fixed(&p);
    if (p.bound < p.fixed_height) p.bound = p.fixed_height;
    p.until = how.seconds > 0 ? wall_clock() + how.seconds : 0;
    for (int i = 0; i < N_FIRST && !is_done(&p); i++) {
        sort_by(&p, first_orders[i].key, k);
        keep_if_lower(&p, place_in_order(&p, first_orders[i].fit, p.height), first_orders[i].fit);
    }
    if (how.nodes > 0 && !is_done(&p)) search_exactly(&p);
    search(&p);
    if (how.bound) *how.bound = p.bound;
    for (int i = 0; i < n; i++) spans[i].offset = p.best[i];
    pool_free(&p.pool);
    return p.height;
}
