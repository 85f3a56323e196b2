/* moments.c - when offloaded tensors leave the device and when they return.
 *
 * Forward: a tensor may lie on the device until its copy is over, and nothing waits; where
 * memory runs out first, the run that needs the bytes waits for the oldest copy. Backward: a tensor
 * returns just in time, walking from the last need to the first; where memory is full, later. */
#include <string.h>
#include "runtime/evaluate.h"

typedef struct Clock {
    Evaluator *e;
    const Outline *o;
    size_t limit;
    double waited;    /* seconds by which the compute lane is late at this position     */
    double out_free;  /* when the lane out is free                                      */
    int oldest, made; /* transfers [oldest, made) are produced and lie on the device yet */
    size_t extra;     /* their bytes, of those that need no longer lie there             */
} Clock;

static double copy_seconds(const Evaluator *e, const Transfer *x, double bytes_per_second)
{
    return e->timeline.link.latency + x->moved / bytes_per_second;
}

/* ---- Leaving ------------------------------------------------------------- */

/* When the run at this position starts. */
static double starts(const Clock *c, int at)
{
    return c->o->before[at] + c->waited;
}

/* Let the oldest transfer be gone when the run at this position starts, waiting if need be. */
static void let_leave(Clock *c, int at)
{
    Transfer *x = &c->o->transfers[c->oldest];

    if (starts(c, at) < c->e->done[c->oldest]) c->waited = c->e->done[c->oldest] - c->o->before[at];
    x->leave = x->until > at - 1 ? x->until : at - 1;
    if (x->until < at) c->extra -= x->bytes;
    c->oldest++;
}

/* Transfers whose last forward use was just before this position need no longer lie here. */
static void loosen(Clock *c, int at)
{
    for (int i = at > 0 ? c->e->stays_until[at - 1] : -1; i >= 0; i = c->e->next[i])
        if (i >= c->oldest) c->extra += c->o->transfers[i].bytes;
}

/* The run at this position is over: what it made is copied out. */
static void start_copies_out(Clock *c, int at)
{
    for (; c->made < c->o->n_transfers && c->o->transfers[c->made].made == at; c->made++) {
        double now = starts(c, at + 1);
        if (c->out_free < now) c->out_free = now;
        c->out_free += copy_seconds(c->e, &c->o->transfers[c->made], c->e->timeline.link.out);
        c->e->done[c->made] = c->out_free;
    }
}

static void sort_by_last_use(Evaluator *e, const Outline *o)
{
    memset(e->stays_until, -1, (size_t)o->n_runs * sizeof *e->stays_until);
    for (int i = o->n_transfers - 1; i >= 0; i--) {
        int last = o->transfers[i].until;
        e->next[i] = e->stays_until[last];
        e->stays_until[last] = i;
    }
}

/* Positions at which something happens to a transfer. */
static void mark_events(Evaluator *e, const Outline *o)
{
    clear_marks(e->marks, o->n_runs);
    for (int i = 0; i < o->n_transfers; i++) {
        mark(e->marks, o->transfers[i].made);
        mark(e->marks, o->transfers[i].until + 1);
        mark(e->marks, o->transfers[i].need);
    }
}

/* The first event from this position on. */
static int next_event(const Evaluator *e, int at, int n)
{
    uint64_t bits = e->marks[at / 64] & ~(uint64_t)0 << at % 64;
    int word = at / 64;

    while (!bits && word < n / 64) bits = e->marks[++word];
    return bits ? word * 64 + count_bits((bits & -bits) - 1) : n;
}

/* Go on while nothing happens: no event, no copy that ends, no bytes that lack. Returns where that ends. */
static int pass(const Clock *c, int at, int stop)
{
    const double *before = c->o->before;
    size_t *live = c->o->live;
    double *starting = c->e->starts;

    if (c->oldest == c->made) {
        for (; at < stop; at++) starting[at] = before[at] + c->waited;
        return at;
    }
    double done = c->e->done[c->oldest];
    for (; at < stop && c->extra <= c->limit; at++) {
        double start = before[at] + c->waited;
        if (done <= start || live[at] > c->limit - c->extra) break;
        live[at] += c->extra;
        starting[at] = start;
    }
    return at;
}

static void choose_leaves(Evaluator *e, const Outline *o, size_t limit)
{
    Clock c = { .e = e, .o = o, .limit = limit, .waited = e->prologue };
    int needed = 0; /* fetches before this one are over */

    sort_by_last_use(e, o);
    mark_events(e, o);
    for (int at = 0; at < o->n_runs; at++) {
        at = pass(&c, at, next_event(e, at, o->n_runs));
        if (at == o->n_runs) break;
        loosen(&c, at);
        while (c.oldest < c.made && e->done[c.oldest] <= starts(&c, at)) let_leave(&c, at);
        while (c.oldest < c.made && (o->live[at] > limit || c.extra > limit - o->live[at])) let_leave(&c, at);
        for (; needed < o->n_transfers && o->transfers[o->fetches[needed]].need == at; needed++)
            while (c.oldest <= o->fetches[needed]) let_leave(&c, at);
        o->live[at] += c.extra;
        e->starts[at] = starts(&c, at);
        start_copies_out(&c, at);
    }
}

/* ---- Returning ----------------------------------------------------------- */

/* When the copy in of x should be over: before its need by the time that it takes, or by one run. */
static double deadline(const Evaluator *e, const Transfer *x, double seconds)
{
    double need = e->starts[x->need], before = e->starts[x->need > 0 ? x->need - 1 : 0];

    return need - seconds > before ? need - seconds : before;
}

/* The position at which each copy in has to start such that it and all copies behind it are in time. */
static void wish_backs(const Evaluator *e, const Outline *o)
{
    int at = o->n_runs - 1;
    double lane_free = e->starts[at];

    for (int k = o->n_transfers - 1; k >= 0; k--) {
        Transfer *x = &o->transfers[o->fetches[k]];
        double seconds = copy_seconds(e, x, e->timeline.link.in), by = deadline(e, x, seconds);
        if (by < lane_free) lane_free = by;
        lane_free -= seconds;
        if (at > x->need) at = x->need;
        while (at > 0 && e->starts[at] > lane_free) at--;
        x->back = at > x->leave ? at : x->leave + 1;
    }
}

static void choose_backs(const Evaluator *e, const Outline *o, size_t limit)
{
    int before = 0; /* the lane in runs its copies in order: none takes bytes before the one ahead of it */

    wish_backs(e, o);
    for (int k = 0; k < o->n_transfers; k++) {
        Transfer *x = &o->transfers[o->fetches[k]];
        int wish = x->back > before ? x->back : before, at = x->need;
        while (at > wish && o->live[at - 1] <= limit && x->bytes <= limit - o->live[at - 1])
            o->live[--at] += x->bytes;
        x->back = before = at;
    }
}

void moments_choose(Evaluator *e, const Outline *o, size_t limit)
{
    if (!o->n_transfers) return;
    choose_leaves(e, o, limit);
    choose_backs(e, o, limit);
}
