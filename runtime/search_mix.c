/* search_mix.c - fates from the best mixture of ways through the cut that binds.
 *
 * The mixture (pricing.h) says for which share of the items each way is to be followed, but not for which
 * items. Equal layers follow each other in a network, so two arrangements are tried: one way for the first
 * layers, another for the next ones, those that move most first, as their copies have most time to leave and
 * to return; or ways that take turns. What one cut does not see - working sets, other moments, copies that
 * need room while they are under way - the exact score shows: room and time of the lanes are lowered by
 * what was missing.
 */
#include <math.h>
#include "runtime/base.h"
#include "runtime/search_steps.h"

enum { MOST_ROUNDS = 8 };
static const double least_share = 1e-6;
static const double little = 1e-4; /* stall, in sections, that is worth no other mixture */

/* How ways are given to layers. */
typedef enum Arrangement { MOVERS_FIRST, IN_TURNS, ARRANGEMENT_COUNT } Arrangement;

/* The ways that have a share, those that move most first. */
typedef struct Mixture {
    int n;
    double share[MOST_WAYS];
    const Way *way[MOST_WAYS];
    const TideFate *fates[MOST_WAYS];
} Mixture;

static Mixture read_mixture(const Pricing *p)
{
    Mixture m = { .n = 0 };

    for (int i = 0; i < p->n_ways; i++) {
        double share = pricing_share(p, i);
        if (share < least_share) continue;
        int j = m.n++;
        for (; j > 0 && m.way[j - 1]->out_seconds[0] < p->ways[i].out_seconds[0]; j--) {
            m.share[j] = m.share[j - 1];
            m.way[j] = m.way[j - 1];
            m.fates[j] = m.fates[j - 1];
        }
        m.share[j] = share;
        m.way[j] = &p->ways[i];
        m.fates[j] = p->fates[i];
    }
    return m;
}

/* ---- Arranging ----------------------------------------------------------- */

/* The way in whose share of the items, one behind the other, this part (0 to 1) of them lies. */
static int way_at(const Mixture *m, double part)
{
    double sum = m->share[0];
    int i = 0;

    while (i < m->n - 1 && part >= sum) sum += m->share[++i];
    return i;
}

/* The way that lags most behind its share, when a part `done` was given out, given[] to each. */
static int laggard(const Mixture *m, const double *given, double done)
{
    int best = 0;
    double most = -INFINITY;

    for (int i = 0; i < m->n; i++) {
        double lag = m->share[i] * done - given[i];
        if (lag <= most) continue;
        most = lag;
        best = i;
    }
    return best;
}

/* Follow the ways layer by layer. */
static void arrange(const Search *s, const Mixture *m, Arrangement how, TideFate *fates)
{
    double done = 0, given[MOST_WAYS] = { 0 };

    for (int l = 0; l < s->n_layers; l++) {
        double bytes = 0;
        for (int i = s->first_choice[l]; i < s->first_choice[l + 1]; i++)
            bytes += (double)s->p->tensors[s->f->choices[i]].bytes;
        double part = bytes / s->choice_bytes;
        int way = how == IN_TURNS ? laggard(m, given, done + part) : way_at(m, done + part / 2);
        done += part;
        given[way] += part;
        for (int i = s->first_choice[l]; i < s->first_choice[l + 1]; i++) {
            int t = s->f->choices[i];
            bool allowed = search_allows(s, t, m->fates[way][t]);
            fates[t] = allowed ? m->fates[way][t] : fate_by_default(s->f, t);
        }
    }
}

/* ---- Mixing -------------------------------------------------------------- */

/* What an arrangement lacks: bytes above the limit, seconds that runs wait for copies of either lane. */
typedef struct Lack {
    double bytes, out, in;
} Lack;

static Lack lack_of(const Search *s, const Score *score)
{
    const Timeline *t = &s->e->timeline;
    const Task *run = t->tasks[LANE_COMPUTE], *out = t->tasks[LANE_OUT];
    Lack lack = { .bytes = score->peak > s->q->limit ? (double)(score->peak - s->q->limit) : 0 };

    for (int i = 1; score->host_bytes && i < t->n_tasks[LANE_COMPUTE]; i++) {
        double stall = run[i].start - run[i - 1].end;
        int left = run[i].after[LANE_OUT];
        if (left > 0 && out[left - 1].end >= run[i].start)
            lack.out += stall;
        else
            lack.in += stall;
    }
    return lack;
}

/* One arrangement of the best mixture, with less and less room and time of the lanes at the cut, until it
 * fits and nothing waits, or until even the bound at that cut is no better than what was found. */
static void try_arrangement(Search *s, Pricing *p, CutSet set, Arrangement how)
{
    double section = least_seconds(s->f), *in = &set.deadlines[set.n_deadlines - 1];
    Cut *cut = &set.cuts[0];

    for (int round = 0; round < MOST_ROUNDS && cut->room >= 0; round++) {
        if (pricing_move(p, &set)) return;
        if (s->best_score.excess <= 0 && section + p->seconds >= s->best_score.seconds) return;
        Mixture m = read_mixture(p);
        arrange(s, &m, how, s->fates);
        Score score = search_score(s);
        search_note(s, &score);
        Lack lack = lack_of(s, &score);
        if (lack.bytes <= 0 && lack.out + lack.in <= little * score.seconds) return;
        cut->room -= lack.bytes * ldexp(1, round);
        cut->out_seconds = fmax(0, cut->out_seconds - lack.out);
        *in = fmax(0, *in - lack.in);
    }
}

/* All arrangements of the best mixtures through this cut that offload at most so many bytes. */
static void try_cut(Search *s, const CutSet *set, size_t host_limit)
{
    Pricing *p;

    if (pricing_new(s->f, set, host_limit, least_seconds(s->f), &p)) return;
    for (int how = 0; how < ARRANGEMENT_COUNT; how++) try_arrangement(s, p, *set, (Arrangement)how);
    pricing_free(p);
}

void search_mixtures(Search *s)
{
    static const double shares[] = { 0, 0.25, 0.5 }; /* of the bytes that would be offloaded */
    TimeBound bound;

    if (bound_seconds(s->f, ANY_SCHEDULE, s->q->limit, s->q->host_limit, &bound)) return;
    if (bound.set.n_cuts == 0 || isinf(bound.seconds)) return;
    s->bound_seconds = bound.seconds;
    CutSet set = bound.set;
    set.n_cuts = 1;
    try_cut(s, &set, s->q->host_limit);
    double bytes = (double)s->best_score.host_bytes;
    for (size_t i = 0; i < sizeof shares / sizeof *shares && !search_is_good(s); i++)
        try_cut(s, &set, (size_t)(shares[i] * bytes));
}
