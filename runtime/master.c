/* master.c - the mixture of ways through the binding cut, rounded to one way a block.
 *
 * The program of a cut is solved by a mixture of a few ways, each of which treats blocks of one kind
 * alike. A share of the blocks takes each: those that offload most come first, because their copies have
 * most time to leave and to return, and those that keep most come last, because they hold their bytes
 * shortest. What a single cut does not see (working sets, copies that need room while they are under way) is
 * found by exact evaluation: the room of the cut is lowered step by step while that can pay. */
#include <math.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/master.h"
#include "runtime/search.h"

enum { MOST_TRIALS = 12, STEPS = 250 };
static const double least_share = 1e-6;

typedef struct Rounding {
    Evaluator *e;
    const Facts *f;
    size_t limit, host_limit;
    double section;
    int *block_of; /* [n_nodes]: of forward nodes */
    int n_blocks;
    int *way_of; /* [n_blocks] */
    TideFate *fates;
    Master *best;
} Rounding;

/* ---- Blocks -------------------------------------------------------------- */

/* Is the outermost layer of node b another one than that of node a? */
static bool other_layer(const Problem *p, int a, int b)
{
    const char *x = p->layers[p->nodes[a].layer], *y = p->layers[p->nodes[b].layer];
    size_t n = strcspn(x, "/");

    return n != strcspn(y, "/") || strncmp(x, y, n) != 0;
}

static void number_blocks(Rounding *r)
{
    const Problem *p = r->f->problem;
    int before = -1;

    for (int i = 0; i < r->f->n_order && r->f->order[i] < p->turn; i++) {
        int node = r->f->order[i];
        if (before < 0 || other_layer(p, before, node)) r->n_blocks++;
        r->block_of[node] = r->n_blocks - 1;
        before = node;
    }
}

/* ---- Rounding ------------------------------------------------------------ */

static bool goes_before(const Way *a, const Way *b)
{
    if (a->host_bytes != b->host_bytes) return a->host_bytes > b->host_bytes;
    return a->bytes < b->bytes;
}

/* The ways with a share, in the order of the blocks that take them; returns how many. */
static int order_ways(const Pricing *p, int *order)
{
    int n = 0;

    for (int i = 0; i < p->n_ways; i++) {
        if (pricing_share(p, i) < least_share) continue;
        int j = n++;
        for (; j > 0 && goes_before(&p->ways[i], &p->ways[order[j - 1]]); j--) order[j] = order[j - 1];
        order[j] = i;
    }
    return n;
}

static void round_ways(Rounding *r, const Pricing *p)
{
    int order[MOST_WAYS + 1], n = order_ways(p, order), k = 0;
    double sum = 0;

    for (int b = 0; b < r->n_blocks; b++) {
        while (k < n - 1 && (b + 0.5) / r->n_blocks > sum + pricing_share(p, order[k]))
            sum += pricing_share(p, order[k++]);
        r->way_of[b] = order[k];
    }
    for (int i = 0; i < r->f->n_choices; i++) {
        int t = r->f->choices[i], block = r->block_of[r->f->problem->tensors[t].producer];
        r->fates[t] = p->fates[r->way_of[block]][t];
    }
}

static bool is_better(const Score *a, const Score *b)
{
    return a->excess != b->excess ? a->excess < b->excess : a->seconds < b->seconds;
}

/* Evaluate r->fates; remember the best. Returns the bytes above the limit. */
static double try_fates(Rounding *r)
{
    Score score = evaluate(r->e, r->fates, r->limit);

    if (score.host_bytes > r->host_limit) score.excess += (double)(score.host_bytes - r->host_limit);
    if (is_better(&score, &r->best->score)) {
        r->best->score = score;
        memcpy(r->best->fates, r->fates, (size_t)r->f->problem->n_tensors * sizeof *r->fates);
    }
    return score.peak > r->limit ? (double)(score.peak - r->limit) : 0;
}

/* Price the cut with less and less room, until even its bound is no better than what was found. */
static TideStatus lower_room(Rounding *r, Cut cut)
{
    const Score *best = &r->best->score;

    for (int trial = 0; trial < MOST_TRIALS && cut.room >= 0; trial++) {
        Pricing *p;
        TRY(pricing_new(r->f, &cut, r->host_limit, r->section, true, &p));
        bool may_win = best->excess > 0 || r->section + p->seconds < best->seconds;
        if (may_win) round_ways(r, p);
        pricing_free(p);
        if (!may_win) return TIDE_OK;
        double over = try_fates(r);
        cut.room -= over > 0 ? over : cut.items / STEPS;
    }
    return TIDE_OK;
}

TideStatus master_solve(Evaluator *e, size_t limit, size_t host_limit, Master *out)
{
    static const double speeds[] = { 1, 0.5, 0.25 }; /* of the lanes: copies may have to wait for room */
    const Facts *f = e->schedule->facts;
    size_t nodes = (size_t)f->problem->n_nodes, tensors = (size_t)f->problem->n_tensors;
    Pool pool = { 0 };
    Rounding r = { .e = e, .f = f, .limit = limit, .host_limit = host_limit, .best = out };

    r.section = least_seconds(f);
    r.block_of = pool_new(&pool, nodes, sizeof *r.block_of);
    r.way_of = pool_new(&pool, nodes, sizeof *r.way_of);
    r.fates = pool_new(&pool, tensors, sizeof *r.fates);
    TideStatus status = pool.failed ? TIDE_NO_MEMORY : bound_seconds(f, limit, host_limit, &out->bound);
    if (!status) {
        baseline_fates(f, TIDE_POLICY_KEEP, r.fates);
        out->score.excess = INFINITY;
        try_fates(&r);
        number_blocks(&r);
    }
    for (size_t i = 0; !status && out->bound.cut.node != NO_NODE && i < sizeof speeds / sizeof *speeds; i++) {
        Cut cut = out->bound.cut;
        cut.out_seconds *= speeds[i];
        cut.in_seconds *= speeds[i];
        status = lower_room(&r, cut);
    }
    pool_free(&pool);
    return status;
}
