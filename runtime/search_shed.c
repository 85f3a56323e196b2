/* search_shed.c - shed by cost per byte where memory binds.
 *
 * Costs are estimated to rank the candidates; what is taken is always judged by the exact score. Ties go
 * to the smallest tensor. */
#include <math.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/search_steps.h"

typedef struct Shed {
    Search *s;
    const Facts *f;
    const Problem *p;
    TideFate *fates; /* those of the search */
    Score now;
    bool *reruns;               /* [n_nodes]: runs again in the current schedule                  */
    int *position;              /* [n_nodes]: of the first run of each node in it                 */
    double *elapsed;            /* [n_runs + 1]: seconds of the runs before each position         */
    int *seen, stamp;           /* [n_nodes]: visited by the closure with this stamp           */
    unsigned char *banned;      /* [n_tensors]: bit 1 << fate: tried in vain                      */
    double out_slack, in_slack; /* seconds that the copy lanes can hide yet            */
    double lane_price;          /* seconds that a second of a copy lane is worth, even if hidden */
    Pool pool;
} Shed;

/* ---- Knowing the current schedule ---------------------------------------- */

/* Remember what the schedule of the current fates is like. */
static void study(Shed *s)
{
    const Schedule *sc = s->s->e->schedule;
    schedule_build(s->s->e->schedule, s->fates);
    double forward = 0, backward = 0, out = 0, in = 0;

    memset(s->reruns, 0, (size_t)s->p->n_nodes * sizeof *s->reruns);
    for (int at = 0; at < sc->n_runs; at++) {
        const Run *r = &sc->runs[at];
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

/* ---- Estimating ----------------------------------------------------------- */

/* Does a re-run in the backward phase find tensor t neither on the device nor among what is made again? */
static bool is_missing(const Shed *s, int t)
{
    const CostTensor *x = &s->p->tensors[t];
    const Uses *u = &s->f->uses[t];

    if (x->fixed || x->input || x->output || u->choice) return false;
    return u->last < s->p->turn && facts_remaker(s->f, t) != NO_NODE;
}

/* Seconds of the re-runs that making t again adds to those of the current schedule. */
static double rerun_seconds(Shed *s, int t)
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
static double offload_seconds(const Shed *s, int t)
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

static double cost_of(Shed *s, int t, TideFate fate)
{
    if (fate == TIDE_KEEP) return 0;
    if (fate == TIDE_OFFLOAD) return offload_seconds(s, t);
    s->stamp++;
    return rerun_seconds(s, t);
}

/* ---- Shedding -------------------------------------------------------------- */

/* Could another fate of t free bytes at this position? */
static bool matters_at(const Shed *s, int t, int at)
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
static Move cheapest_move(Shed *s)
{
    Move best = { .tensor = -1 };
    double least = INFINITY;

    for (int i = 0; i < s->f->n_choices; i++) {
        int t = s->f->choices[i];
        if (!matters_at(s, t, s->now.peak_at)) continue;
        for (TideFate fate = TIDE_RECOMPUTE; fate <= TIDE_OFFLOAD; fate++) {
            if (fate == s->fates[t] || !search_allows(s->s, t, fate) || s->banned[t] & 1 << fate) continue;
            double cost = cost_of(s, t, fate) / (double)s->p->tensors[t].bytes;
            if (cost >= least) continue;
            least = cost;
            best = (Move){ t, fate };
        }
    }
    return best;
}

static void shed(Shed *s)
{
    while (s->now.excess > 0) {
        Move m = cheapest_move(s);
        if (m.tensor < 0) return;
        TideFate before = s->fates[m.tensor];
        s->fates[m.tensor] = m.fate;
        Score score = search_score(s->s);
        if (score.excess < s->now.excess) {
            s->now = score;
            study(s);
            continue;
        }
        s->fates[m.tensor] = before;
        s->banned[m.tensor] |= (unsigned char)(1 << m.fate);
    }
}

static bool make_room(Shed *s)
{
    size_t nodes = (size_t)s->p->n_nodes, runs = 1;

    for (int i = 0; i < s->p->n_nodes; i++) runs += 1 + (size_t)s->p->nodes[i].n_out;
    s->reruns = pool_new(&s->pool, nodes, sizeof *s->reruns);
    s->position = pool_new(&s->pool, nodes, sizeof *s->position);
    s->seen = pool_new(&s->pool, nodes, sizeof *s->seen);
    s->elapsed = pool_new(&s->pool, runs + 1, sizeof *s->elapsed);
    s->banned = pool_new(&s->pool, (size_t)s->p->n_tensors, sizeof *s->banned);
    return !s->pool.failed;
}

void search_shed(Search *search, double lane_price)
{
    Shed s = {
        .s = search, .f = search->f, .p = search->p, .fates = search->fates, .lane_price = lane_price
    };

    if (make_room(&s)) {
        s.now = search_score(search);
        study(&s);
        shed(&s);
        search_note(search, &s.now);
    }
    pool_free(&s.pool);
}
