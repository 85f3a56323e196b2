/* search_greedy.c - shed by cost per byte where memory binds, then polish by exact evaluation.
 *
 * Costs are estimated to rank the candidates; what is taken is always judged by the exact score. Ties go
 * to the smallest tensor. */
#include <math.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/search.h"

typedef struct Search {
    const Question *q;
    const Facts *f;
    const Problem *p;
    Evaluator *e;
    TideFate *fates, *start, *best; /* [n_tensors] */
    Score now;
    long until;                 /* evaluations of e after which polishing stops                  */
    bool *reruns;               /* [n_nodes]: runs again in the current schedule                  */
    int *position;              /* [n_nodes]: of the first run of each node in it                 */
    size_t *live;               /* [n_runs]: bytes taken in it at each position                   */
    double *elapsed;            /* [n_runs + 1]: seconds of the runs before each position         */
    int *turns;                 /* [n_choices]: tensors in the order in which polishing tries them */
    int *seen, stamp;           /* [n_nodes]: visited by the closure with this stamp           */
    unsigned char *banned;      /* [n_tensors]: bit 1 << fate: tried in vain                      */
    double out_slack, in_slack; /* seconds that the copy lanes can hide yet            */
    double lane_price;          /* seconds that a second of a copy lane is worth, even if hidden */
    Pool pool;
} Search;

/* ---- Knowing the current schedule ---------------------------------------- */

static Score score_of(Search *s)
{
    Score score = evaluate(s->e, s->fates, s->q->limit);

    if (score.host_bytes > s->q->host_limit) score.excess += (double)(score.host_bytes - s->q->host_limit);
    return score;
}

/* Remember the current schedule: the evaluator's changes with every trial. */
static void study(Search *s)
{
    const Schedule *sc = s->e->schedule;
    double forward = 0, backward = 0, out = 0, in = 0;

    memset(s->reruns, 0, (size_t)s->p->n_nodes * sizeof *s->reruns);
    for (int at = 0; at < sc->n_runs; at++) {
        const Run *r = &sc->runs[at];
        s->live[at] = sc->live[at];
        s->elapsed[at + 1] = s->elapsed[at] + s->p->nodes[r->node].seconds;
        if (r->rerun)
            s->reruns[r->node] = true;
        else
            s->position[r->node] = at;
        *(r->node < s->p->turn && !r->rerun ? &forward : &backward) += s->p->nodes[r->node].seconds;
    }
    for (int i = 0; i < sc->n_transfers; i++) {
        double bytes = (double)sc->stays[sc->transfers[i].out_stay].bytes;
        out += s->p->link.latency + bytes / s->p->link.out;
        in += s->p->link.latency + bytes / s->p->link.in;
    }
    s->out_slack = forward - out;
    s->in_slack = backward - in;
}

static bool is_better(const Score *a, const Score *b)
{
    if (a->excess != b->excess) return a->excess < b->excess;
    return a->seconds < b->seconds * (1 - 1e-9);
}

/* ---- Estimating ----------------------------------------------------------- */

/* Does a re-run in the backward phase find tensor t neither on the device nor among what is made again? */
static bool is_missing(const Search *s, int t)
{
    const CostTensor *x = &s->p->tensors[t];
    const Uses *u = &s->f->uses[t];

    if (x->fixed || x->input || x->output || u->choice) return false;
    return u->last < s->p->turn && facts_remaker(s->f, t) != NO_NODE;
}

/* Seconds of the re-runs that making t again adds to those of the current schedule. */
static double rerun_seconds(Search *s, int t)
{
    int node = facts_remaker(s->f, t);
    const CostNode *n = &s->p->nodes[node];
    double seconds = n->seconds;

    if (s->seen[node] == s->stamp || s->reruns[node]) return 0;
    s->seen[node] = s->stamp;
    for (int j = 0; j < n->n_in; j++)
        if (is_missing(s, n->in[j])) seconds += rerun_seconds(s, n->in[j]);
    return seconds;
}

/* Seconds by which offloading t makes the copy lanes too late. */
static double offload_seconds(const Search *s, int t)
{
    const Link *l = &s->p->link;
    const Uses *u = &s->f->uses[t];
    double bytes = (double)s->p->tensors[t].bytes, out = l->latency + bytes / l->out,
           in = l->latency + bytes / l->in;
    double between = s->elapsed[s->position[u->first_backward]] - s->elapsed[s->position[u->first] + 1];
    double late = s->lane_price * (out + in);

    if (out > s->out_slack) late += fmin(out, out - s->out_slack);
    if (in > s->in_slack) late += fmin(in, in - s->in_slack);
    return late + fmax(0, out + in - between);
}

static double cost_of(Search *s, int t, TideFate fate)
{
    if (fate == TIDE_KEEP) return 0;
    if (fate == TIDE_OFFLOAD) return offload_seconds(s, t);
    s->stamp++;
    return rerun_seconds(s, t);
}

/* ---- Shedding -------------------------------------------------------------- */

/* Could another fate of t free bytes at this position? */
static bool matters_at(const Search *s, int t, int at)
{
    const Uses *u = &s->f->uses[t];

    if (s->fates[t] == TIDE_KEEP)
        return s->position[u->last_forward] < at && at < s->position[u->first_backward];
    return s->fates[t] == TIDE_RECOMPUTE && at >= s->position[u->last_forward] && at < s->position[u->last];
}

typedef struct Move {
    int tensor;
    TideFate fate;
} Move;

/* The cheapest change by the byte that might help where memory binds; tensor -1 if none is left. */
static Move cheapest_move(Search *s)
{
    Move best = { .tensor = -1 };
    double least = INFINITY;

    for (int i = 0; i < s->f->n_choices; i++) {
        int t = s->f->choices[i];
        if (!matters_at(s, t, s->now.peak_at)) continue;
        for (TideFate fate = TIDE_RECOMPUTE; fate <= TIDE_OFFLOAD; fate++) {
            if (fate == s->fates[t] || !fate_is_allowed(s->f, t, fate) || s->banned[t] & 1 << fate) continue;
            double cost = cost_of(s, t, fate) / (double)s->p->tensors[t].bytes;
            if (cost >= least) continue;
            least = cost;
            best = (Move){ t, fate };
        }
    }
    return best;
}

/* Change fates until nothing exceeds the limit, or no change helps. */
static void shed(Search *s)
{
    while (s->now.excess > 0) {
        Move m = cheapest_move(s);
        if (m.tensor < 0) return;
        TideFate before = s->fates[m.tensor];
        s->fates[m.tensor] = m.fate;
        Score score = score_of(s);
        if (score.excess < s->now.excess) {
            s->now = score;
            study(s);
            continue;
        }
        s->fates[m.tensor] = before;
        s->banned[m.tensor] |= (unsigned char)(1 << m.fate);
    }
}

/* ---- Polishing ------------------------------------------------------------- */

/* Try one change; keep it if the score is better. */
static bool try_move(Search *s, Move m)
{
    TideFate before = s->fates[m.tensor];

    if (m.fate == before || s->e->evaluations >= s->until || !fate_is_allowed(s->f, m.tensor, m.fate))
        return false;
    s->fates[m.tensor] = m.fate;
    Score score = score_of(s);
    if (is_better(&score, &s->now)) {
        s->now = score;
        study(s);
        return true;
    }
    s->fates[m.tensor] = before;
    return false;
}

/* Would keeping t surely break the limit? */
static bool is_hopeless(const Search *s, int t)
{
    const Uses *u = &s->f->uses[t];
    size_t bytes = s->p->tensors[t].bytes;
    bool offloaded = s->fates[t] == TIDE_OFFLOAD; /* then part of the gap is its own */

    for (int at = s->position[u->last_forward] + 1; !offloaded && at < s->position[u->first_backward]; at++)
        if (s->live[at] > s->q->limit || bytes > s->q->limit - s->live[at]) return true;
    return false;
}

static bool polish_tensor(Search *s, int t)
{
    bool better = false;

    if (s->fates[t] != TIDE_KEEP && !is_hopeless(s, t)) better = try_move(s, (Move){ t, TIDE_KEEP });
    for (TideFate fate = TIDE_RECOMPUTE; fate <= TIDE_OFFLOAD && !better; fate++)
        if (s->fates[t] != TIDE_KEEP) better = try_move(s, (Move){ t, fate });
    return better;
}

/* Give the bytes of one tensor to another: keep a, shed b. */
static bool try_swap(Search *s, int a, int b)
{
    TideFate before_a = s->fates[a], before_b = s->fates[b];

    s->fates[a] = TIDE_KEEP;
    bool better = fate_is_allowed(s->f, a, TIDE_KEEP) &&
                  (try_move(s, (Move){ b, TIDE_RECOMPUTE }) || try_move(s, (Move){ b, TIDE_OFFLOAD }));
    if (!better) s->fates[a] = before_a;
    if (!better) s->fates[b] = before_b;
    return better;
}

/* Seconds a byte that keeping t may save. */
static double worth(const Search *s, int t)
{
    if (s->fates[t] != TIDE_RECOMPUTE) return 0;
    return s->p->nodes[facts_remaker(s->f, t)].seconds / (double)s->p->tensors[t].bytes;
}

/* The dearest first. Insertion keeps ties in order. */
static void sort_by_worth(Search *s)
{
    for (int i = 0; i < s->f->n_choices; i++) {
        int t = s->f->choices[i], j = i;
        for (; j > 0 && worth(s, s->turns[j - 1]) < worth(s, t); j--) s->turns[j] = s->turns[j - 1];
        s->turns[j] = t;
    }
}

static void polish(Search *s)
{
    bool better = true;

    while (better && s->e->evaluations < s->until) {
        better = false;
        sort_by_worth(s);
        for (int i = 0; i < s->f->n_choices && s->e->evaluations < s->until; i++)
            better = polish_tensor(s, s->turns[i]) || better;
    }
}

static void swap_pairs(Search *s)
{
    for (int i = 0; i < s->f->n_choices; i++)
        for (int j = 0; j < s->f->n_choices && s->e->evaluations < s->until; j++) {
            int a = s->f->choices[i], b = s->f->choices[j];
            if (s->fates[a] != TIDE_KEEP && s->fates[b] == TIDE_KEEP &&
                s->p->tensors[b].bytes >= s->p->tensors[a].bytes)
                try_swap(s, a, b);
        }
}

/* ---- All ------------------------------------------------------------------- */

static bool make_room(Search *s)
{
    size_t nodes = (size_t)s->p->n_nodes;

    s->reruns = pool_new(&s->pool, nodes, sizeof *s->reruns);
    s->position = pool_new(&s->pool, nodes, sizeof *s->position);
    s->seen = pool_new(&s->pool, nodes, sizeof *s->seen);
    size_t runs = 1;

    for (int i = 0; i < s->p->n_nodes; i++) runs += 1 + (size_t)s->p->nodes[i].n_out;
    s->live = pool_new(&s->pool, runs, sizeof *s->live);
    s->elapsed = pool_new(&s->pool, runs + 1, sizeof *s->elapsed);
    s->start = pool_new(&s->pool, (size_t)s->p->n_tensors, sizeof *s->start);
    s->best = pool_new(&s->pool, (size_t)s->p->n_tensors, sizeof *s->best);
    s->turns = pool_new(&s->pool, (size_t)s->p->n_tensors, sizeof *s->turns);
    s->banned = pool_new(&s->pool, (size_t)s->p->n_tensors, sizeof *s->banned);
    return !s->pool.failed;
}

/* Shed from the given fates at several prices of the copy lanes: what is hidden is not free, as others
 * may need the lane more. Leaves the best outcome. */
static void shed_at_prices(Search *s)
{
    static const double prices[] = { 0.01, 0.1, 0.3, 1 };
    size_t n = (size_t)s->p->n_tensors;
    Score best = { .excess = INFINITY };

    memcpy(s->start, s->fates, n * sizeof *s->fates);
    for (size_t i = 0; i < sizeof prices / sizeof *prices; i++) {
        s->lane_price = prices[i];
        memcpy(s->fates, s->start, n * sizeof *s->fates);
        memset(s->banned, 0, n);
        s->now = score_of(s);
        study(s);
        if (s->now.excess <= 0) return; /* nothing to shed, at any price */
        shed(s);
        if (!is_better(&s->now, &best)) continue;
        best = s->now;
        memcpy(s->best, s->fates, n * sizeof *s->fates);
    }
    memcpy(s->fates, s->best, n * sizeof *s->fates);
    s->now = score_of(s);
    study(s);
}

void search_fates(const Question *q, TideFate *fates)
{
    const Facts *f = q->evaluator->schedule->facts;
    Search s = { .q = q, .f = f, .p = f->problem, .e = q->evaluator, .fates = fates };

    if (make_room(&s)) {
        shed_at_prices(&s);
        s.until = s.e->evaluations + q->effort;
        if (s.now.excess <= 0) polish(&s);
        if (s.now.excess <= 0) swap_pairs(&s);
    }
    pool_free(&s.pool);
}
