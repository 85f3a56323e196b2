/* search_mix.c - fates from the best mixture of ways through the tightest cut.
 *
 * The mixture (ways.h) says for which part of the items each way is to be followed, but not for which items. Equal
 * layers follow each other in a network, so a few arrangements are tried: a way for the first layers, another
 * for the next ones, or ways that take turns. Where an arrangement exceeds the limit elsewhere than at the cut, the
 * room at the cut is lowered by that. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/search_steps.h"

enum { MOST_ROUNDS = 8 };
static const double little = 1e-4; /* stall, in sections, that is worth no other mixture */

/* How ways are given to layers. */
typedef enum Arrangement { MOVERS_FIRST, MOVERS_LAST, IN_TURNS, ARRANGEMENT_COUNT } Arrangement;

/* ---- Arranging ----------------------------------------------------------- */

/* The ways of a mixture by the seconds of their copies out, most first. */
static void sort_by_moves(const Mixture *m, int *order)
{
    for (int i = 0; i < m->n; i++) {
        int j = i;
        for (; j > 0 && m->way[order[j - 1]]->out_seconds < m->way[i]->out_seconds; j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
}

/* Which place of the order is followed for the part of the items that lies between these two (0 to 1). */
static int place_of(const Mixture *m, const int *order, double from, double to)
{
    double sum = 0, at = (from + to) / 2;
    int place = 0;

    for (; place < m->n - 1; place++) {
        sum += m->level[order[place]];
        if (at < sum) break;
    }
    return place;
}

/* The way that lags most behind its level, when a part `done` was given out, given[] to each. */
static int laggard(const Mixture *m, const double *given, double done)
{
    int best = 0;
    double most = -INFINITY;

    for (int i = 0; i < m->n; i++) {
        double lag = m->level[i] * done - given[i];
        if (lag <= most) continue;
        most = lag;
        best = i;
    }
    return best;
}

/* Follow the ways layer by layer. */
static void arrange(const Search *s, const Mixture *m, Arrangement how, TideFate *fates)
{
    int order[MOST_MIXED], reversed[MOST_MIXED];
    double done = 0, given[MOST_MIXED] = { 0 };

    sort_by_moves(m, order);
    for (int i = 0; i < m->n; i++) reversed[i] = order[m->n - 1 - i];
    for (int first = 0, next; first < s->f->n_choices; first = next) {
        double bytes = 0;
        for (next = first; next < s->f->n_choices && s->layer[next] == s->layer[first]; next++)
            bytes += (double)s->p->tensors[s->f->choices[next]].bytes;
        double part = bytes / s->choice_bytes;
        int way = how == IN_TURNS      ? laggard(m, given, done + part)
                  : how == MOVERS_LAST ? reversed[place_of(m, reversed, done, done + part)]
                                       : order[place_of(m, order, done, done + part)];
        done += part;
        given[way] += part;
        for (int i = first; i < next; i++) fates[s->f->choices[i]] = m->fates[way][i];
    }
    for (int i = 0; i < s->f->n_choices; i++) {
        int t = s->f->choices[i];
        if (!fate_is_allowed(s->f, t, fates[t])) fates[t] = fate_by_default(s->f, t);
    }
}

/* ---- Mixing -------------------------------------------------------------- */

/* The cut that lacks most bytes; -1: none does. */
static int tightest(const Facts *f, const Cut *cuts)
{
    int best = -1;
    double most = 0;

    for (int i = 0; i < f->n_order; i++) {
        double lack = cuts[i].items - cuts[i].room;
        if (lack <= most) continue;
        most = lack;
        best = i;
    }
    return best;
}

/* What an arrangement lacks: bytes above the limit, seconds that runs wait for copies of either lane. */
typedef struct Lack {
    double bytes, out, in;
} Lack;

static Lack lack_of(const Search *s, const Score *score)
{
    const Timeline *t = &s->e->timeline;
    const Task *run = t->tasks[LANE_COMPUTE], *out = t->tasks[LANE_OUT];
    Lack lack = { .bytes = score->peak > s->q->limit ? (double)(score->peak - s->q->limit) : 0 };

    for (int at = 1; score->host_bytes && at < t->n_tasks[LANE_COMPUTE]; at++) {
        double stall = run[at].start - run[at - 1].end;
        int left = run[at].after[LANE_OUT];
        if (left > 0 && out[left - 1].end >= run[at].start)
            lack.out += stall;
        else
            lack.in += stall;
    }
    return lack;
}

/* One arrangement of the best mixture, with less and less room and time of the lanes at the cut, until it
 * fits and nothing waits. */
static void try_arrangement(Search *s, Ways *ways, Cut cut, Arrangement how)
{
    for (int round = 0; round < MOST_ROUNDS && cut.room >= 0; round++) {
        Mixture m;
        if (ways_mix(ways, &cut, &m)) return;
        arrange(s, &m, how, s->fates);
        Score score = search_score(s);
        search_note(s, &score);
        Lack lack = lack_of(s, &score);
        if (getenv("DBG2")) fprintf(stderr, "     mix %d room %.3f out %.1f in %.1f: lp %.3f  %.3f ms above %.4f GiB at %d/%d, stall %.3f %.3f recompute %.3f out %.1f\n", how, cut.room/1073741824., cut.out_seconds*1e3, cut.in_seconds*1e3, m.seconds*1e3, score.seconds*1e3, lack.bytes/1073741824., score.peak_at, s->e->schedule->n_runs, lack.out*1e3, lack.in*1e3, s->e->schedule->rerun_seconds*1e3, score.host_bytes/55e6);
        if (lack.bytes <= 0 && lack.out + lack.in <= little * score.seconds) return;
        cut.room -= lack.bytes;
        cut.out_seconds = fmax(0, cut.out_seconds - lack.out);
        cut.in_seconds = fmax(0, cut.in_seconds - lack.in);
    }
}

void search_mixtures(Search *s)
{
    Pool pool = { 0 };
    Ways *ways = NULL;
    Cut *cuts = pool_new(&pool, (size_t)s->f->n_order, sizeof *cuts);
    int at = cuts && cuts_find(s->f, s->q->limit, cuts) == TIDE_OK ? tightest(s->f, cuts) : -1;

    if (at >= 0 && ways_new(s->f, &cuts[at], s->q->host_limit, &ways) == TIDE_OK)
        for (int how = 0; how < ARRANGEMENT_COUNT; how++)
            try_arrangement(s, ways, cuts[at], (Arrangement)how);
    ways_free(ways);
    pool_free(&pool);
}
