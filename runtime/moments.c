/* moments.c - when offloaded tensors leave the device and when they return.
 *
 * Forward: a tensor may lie on the device until its copy is over, and nothing waits; where
 * memory runs out first, the run that needs the bytes waits for the oldest copy. Backward: a tensor
 * returns just in time, walking from the last need to the first; where memory is full, later. */
#include "runtime/evaluate.h"

typedef struct Clock {
    Evaluator *e;
    Schedule *s;
    size_t limit;
    double now;       /* on the compute lane                                            */
    double out_free;  /* when the lane out is free                                      */
    int oldest, made; /* transfers [oldest, made) are produced and lie on the device yet */
    size_t extra;     /* their bytes, of those that need no longer lie there             */
} Clock;

static double copy_seconds(const Schedule *s, const Transfer *x, double bytes_per_second)
{
    return s->facts->problem->link.latency + (double)s->stays[x->out_stay].bytes / bytes_per_second;
}

/* ---- Leaving ------------------------------------------------------------- */

/* Let the oldest transfer be gone when the run at this position starts, waiting if need be. */
static void let_leave(Clock *c, int at)
{
    Transfer *x = &c->s->transfers[c->oldest];
    const Stay *stay = &c->s->stays[x->out_stay];

    if (c->now < c->e->done[c->oldest]) c->now = c->e->done[c->oldest];
    x->leave = stay->to > at - 1 ? stay->to : at - 1;
    if (stay->to < at) c->extra -= stay->bytes;
    c->oldest++;
}

/* Transfers whose last forward use was just before this position need no longer lie here. */
static void loosen(Clock *c, int at)
{
    for (int i = at > 0 ? c->e->stays_until[at - 1] : -1; i >= 0; i = c->e->next[i])
        if (i >= c->oldest) c->extra += c->s->stays[c->s->transfers[i].out_stay].bytes;
}

static void start_copies_out(Clock *c, int at)
{
    const Problem *p = c->s->facts->problem;

    for (; c->made < c->s->n_transfers && c->s->transfers[c->made].made == at; c->made++) {
        if (c->out_free < c->now) c->out_free = c->now;
        c->out_free += copy_seconds(c->s, &c->s->transfers[c->made], p->link.out);
        c->e->done[c->made] = c->out_free;
    }
}

static void sort_by_last_use(Evaluator *e)
{
    Schedule *s = e->schedule;

    for (int at = 0; at < s->n_runs; at++) e->stays_until[at] = -1;
    for (int i = s->n_transfers - 1; i >= 0; i--) {
        int last = s->stays[s->transfers[i].out_stay].to;
        e->next[i] = e->stays_until[last];
        e->stays_until[last] = i;
    }
}

static void choose_leaves(Evaluator *e, size_t limit)
{
    Schedule *s = e->schedule;
    Clock c = { .e = e, .s = s, .limit = limit, .now = e->prologue };
    int needed = 0; /* fetches before this one are over */

    sort_by_last_use(e);
    for (int at = 0; at < s->n_runs; at++) {
        loosen(&c, at);
        while (c.oldest < c.made && e->done[c.oldest] <= c.now) let_leave(&c, at);
        while (c.oldest < c.made && (s->live[at] > limit || c.extra > limit - s->live[at])) let_leave(&c, at);
        for (; needed < s->n_transfers && s->transfers[s->fetches[needed]].need == at; needed++)
            while (c.oldest <= s->fetches[needed]) let_leave(&c, at);
        s->live[at] += c.extra;
        e->starts[at] = c.now;
        c.now += s->facts->problem->nodes[s->runs[at].node].seconds;
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
static void wish_backs(Evaluator *e)
{
    Schedule *s = e->schedule;
    int at = s->n_runs - 1;
    double lane_free = e->starts[at];

    for (int k = s->n_transfers - 1; k >= 0; k--) {
        Transfer *x = &s->transfers[s->fetches[k]];
        double seconds = copy_seconds(s, x, e->timeline.link.in), by = deadline(e, x, seconds);
        if (by < lane_free) lane_free = by;
        lane_free -= seconds;
        if (at > x->need) at = x->need;
        while (at > 0 && e->starts[at] > lane_free) at--;
        x->back = at > x->leave ? at : x->leave + 1;
    }
}

static void choose_backs(Evaluator *e, size_t limit)
{
    Schedule *s = e->schedule;
    int before = 0; /* the lane in runs its copies in order: none takes bytes before the one ahead of it */

    wish_backs(e);
    for (int k = 0; k < s->n_transfers; k++) {
        Transfer *x = &s->transfers[s->fetches[k]];
        size_t bytes = s->stays[x->in_stay].bytes;
        int wish = x->back > before ? x->back : before, at = x->need;
        while (at > wish && s->live[at - 1] <= limit && bytes <= limit - s->live[at - 1])
            s->live[--at] += bytes;
        x->back = before = at;
    }
}

void moments_choose(Evaluator *e, size_t limit)
{
    Schedule *s = e->schedule;

    if (!s->n_transfers) return;
    choose_leaves(e, limit);
    choose_backs(e, limit);
    for (int i = 0; i < s->n_transfers; i++) {
        s->stays[s->transfers[i].out_stay].to = s->transfers[i].leave;
        s->stays[s->transfers[i].in_stay].from = s->transfers[i].back;
    }
}
