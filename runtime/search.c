/* search.c - where to start, and which steps to take. */
#include <math.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/search_steps.h"

static const double near_bound = 0.01; /* of what needs no other start */

/* ---- What is best -------------------------------------------------------- */

/* Bytes above the host limit count at every node, as do bytes of the device that are always above theirs. */
static void count_host_bytes(const Search *s, Score *score)
{
    if (score->host_bytes > s->q->host_limit)
        score->excess += (double)(score->host_bytes - s->q->host_limit) * s->f->n_order;
}

bool search_allows(const Search *s, int t, TideFate fate)
{
    bool too_large = fate == TIDE_OFFLOAD && s->p->tensors[t].bytes > s->q->host_limit;

    return fate_is_allowed(s->f, t, fate) && (!too_large || s->p->tensors[t].forced == fate);
}

Score search_score(Search *s)
{
    Score score = evaluate_again(s->e, s->fates, s->q->limit);

    count_host_bytes(s, &score);
    return score;
}

bool search_score_if_better(Search *s, const Score *than, Score *score)
{
    if (than->excess > 0) {
        *score = search_score(s);
        return true;
    }
    if (!evaluate_if_better(s->e, s->fates, s->q->limit, than->seconds, score)) return false;
    count_host_bytes(s, score);
    return true;
}

bool score_is_better(const Score *a, const Score *b)
{
    if (a->excess != b->excess) return a->excess < b->excess;
    return a->seconds < b->seconds * (1 - 1e-9);
}

void search_note(Search *s, const Score *score)
{
    if (!score_is_better(score, &s->best_score)) return;
    s->best_score = *score;
    memcpy(s->best, s->fates, (size_t)s->p->n_tensors * sizeof *s->best);
}

/* ---- Equal layers -------------------------------------------------------- */

static bool like_choices(const Search *s, int i, int j)
{
    int t = s->f->choices[i], u = s->f->choices[j], a = facts_remaker(s->f, t), b = facts_remaker(s->f, u);

    if (s->p->tensors[t].bytes != s->p->tensors[u].bytes || (a < 0) != (b < 0)) return false;
    return a < 0 ||
           (s->p->nodes[a].seconds == s->p->nodes[b].seconds && s->p->nodes[a].n_out == s->p->nodes[b].n_out);
}

static bool like_layers(const Search *s, int a, int b)
{
    int n = s->first_choice[a + 1] - s->first_choice[a];

    if (s->first_choice[b + 1] - s->first_choice[b] != n) return false;
    for (int i = 0; i < n; i++)
        if (!like_choices(s, s->first_choice[a] + i, s->first_choice[b] + i)) return false;
    return true;
}

static void find_layers(Search *s)
{
    s->n_layers = layers_of_choices(s->f, s->layer);
    s->first_choice[s->n_layers] = s->f->n_choices;
    for (int i = s->f->n_choices - 1; i >= 0; i--) {
        s->first_choice[s->layer[i]] = i;
        s->choice_bytes += (double)s->p->tensors[s->f->choices[i]].bytes;
    }
    for (int l = 0; l < s->n_layers; l++) {
        s->like[l] = 0;
        while (!like_layers(s, s->like[l], l)) s->like[l]++;
    }
}

static bool make_room(Search *s)
{
    size_t tensors = (size_t)s->p->n_tensors, choices = (size_t)s->f->n_choices;

    s->best = pool_new(&s->pool, tensors, sizeof *s->best);
    s->layer = pool_new(&s->pool, choices, sizeof *s->layer);
    s->first_choice = pool_new(&s->pool, choices + 1, sizeof *s->first_choice);
    s->like = pool_new(&s->pool, choices, sizeof *s->like);
    return !s->pool.failed;
}

/* ---- All ----------------------------------------------------------------- */

static void start_from(Search *s, const TideFate *fates)
{
    memcpy(s->fates, fates, (size_t)s->p->n_tensors * sizeof *s->fates);
}

bool search_is_good(const Search *s)
{
    return s->best_score.excess <= 0 && s->best_score.seconds <= s->bound_seconds * (1 + near_bound);
}

/* Small changes from the start in s->fates, which has its share of the evaluations. */
static void improve(Search *s, int share)
{
    if (!s->q->effort) return;
    s->until = s->e->evaluations + s->q->effort / share;
    search_locally(s);
}

/* From the best mixture of ways; where that comes not near the bound, also from the given fates, shed at
 * several prices of the copy lanes: what is hidden is not free, as others may need the lane more. */
static void search_starts(Search *s, const TideFate *given)
{
    static const double prices[] = { 0.1, 1, 1e3 };
    int n_prices = s->q->effort ? sizeof prices / sizeof *prices : 1;

    if (s->q->effort) {
        search_mixtures(s);
        start_from(s, s->best);
        if (s->best_score.excess > 0) search_shed(s, prices[0]);
        improve(s, 1);
    }
    for (int i = 0; i < n_prices && !search_is_good(s); i++) {
        start_from(s, given);
        search_shed(s, prices[i]);
        improve(s, n_prices);
    }
}

void search_fates(const Question *q, TideFate *fates)
{
    const Facts *f = q->evaluator->schedule->facts;
    size_t n = (size_t)f->problem->n_tensors;
    Search s = { .q = q, .f = f, .p = f->problem, .e = q->evaluator, .fates = fates };
    TideFate *given = pool_new(&s.pool, n, sizeof *given);

    if (given && make_room(&s)) {
        memcpy(given, fates, n * sizeof *given);
        s.best_score = (Score){ .excess = INFINITY };
        find_layers(&s);
        Score score = search_score(&s);
        search_note(&s, &score);
        if (search_is_small(&s, q->effort)) {
            search_all(&s);
        } else {
            search_starts(&s, given);
        }
        memcpy(fates, s.best, n * sizeof *fates);
    }
    pool_free(&s.pool);
}
