/* search_local.c - small changes, each judged by the exact score.
 *
 *     one tensor      another fate
 *     one layer       the fates of another layer like it
 *     two layers      exchange their fates
 *     two tensors     one is kept in the bytes of another */
#include "runtime/base.h"
#include "runtime/search_steps.h"

typedef struct Change {
    int tensor;
    TideFate fate;
} Change;

typedef struct Local {
    Search *s;
    const Facts *f;
    TideFate *fates;
    Score now;
    Change *changes; /* [2 * n_choices]: of the move that is tried; then what undoes it */
    int n_changes;
    Pool pool;
} Local;

/* ---- Moves --------------------------------------------------------------- */

static bool is_over(const Local *l)
{
    return l->s->e->evaluations >= l->s->until;
}

static void add_change(Local *l, int tensor, TideFate fate)
{
    if (l->fates[tensor] != fate) l->changes[l->n_changes++] = (Change){ tensor, fate };
}

/* Exchange the fates of the tensors and of the changes. */
static bool apply(Local *l)
{
    bool allowed = true;

    for (int i = 0; i < l->n_changes; i++) {
        Change *c = &l->changes[i];
        TideFate before = l->fates[c->tensor];
        allowed = allowed && search_allows(l->s, c->tensor, c->fate);
        l->fates[c->tensor] = c->fate;
        c->fate = before;
    }
    return allowed;
}

/* Try the changes that were added; keep them if the score is better. */
static bool try_changes(Local *l)
{
    bool better = false;

    if (l->n_changes && !is_over(l)) {
        Score score;
        if (apply(l) && search_score_if_better(l->s, &l->now, &score)) {
            better = score_is_better(&score, &l->now);
            if (better) l->now = score;
        }
        if (!better) apply(l);
    }
    l->n_changes = 0;
    return better;
}

static bool change_tensors(Local *l)
{
    bool better = false;

    for (int i = 0; i < l->f->n_choices; i++)
        for (TideFate fate = TIDE_KEEP; fate <= TIDE_OFFLOAD; fate++) {
            add_change(l, l->f->choices[i], fate);
            better |= try_changes(l);
        }
    return better;
}

/* Give layer a the fates of layer b. */
static void add_copy(Local *l, int a, int b)
{
    const int *first = l->s->first_choice;

    for (int i = 0; i < first[a + 1] - first[a]; i++)
        add_change(l, l->f->choices[first[a] + i], l->fates[l->f->choices[first[b] + i]]);
}

static bool same_fates(const Local *l, int a, int b)
{
    const int *first = l->s->first_choice;

    for (int i = 0; i < first[a + 1] - first[a]; i++)
        if (l->fates[l->f->choices[first[a] + i]] != l->fates[l->f->choices[first[b] + i]]) return false;
    return true;
}

/* Does no layer before b, like it, have the same fates? */
static bool is_new_pattern(const Local *l, int b)
{
    for (int a = 0; a < b; a++)
        if (l->s->like[a] == l->s->like[b] && same_fates(l, a, b)) return false;
    return true;
}

static bool copy_layers(Local *l)
{
    bool better = false;

    for (int b = 0; b < l->s->n_layers; b++) {
        if (!is_new_pattern(l, b)) continue;
        for (int a = 0; a < l->s->n_layers; a++) {
            if (a == b || l->s->like[a] != l->s->like[b]) continue;
            add_copy(l, a, b);
            better |= try_changes(l);
        }
    }
    return better;
}

static bool exchange_layers(Local *l)
{
    bool better = false;

    for (int a = 0; a < l->s->n_layers; a++)
        for (int b = a + 1; b < l->s->n_layers; b++) {
            if (l->s->like[a] != l->s->like[b]) continue;
            add_copy(l, a, b);
            add_copy(l, b, a);
            better |= try_changes(l);
        }
    return better;
}

/* Keep a in the bytes of b. */
static bool swap_tensors(Local *l)
{
    const size_t n = (size_t)l->f->n_choices;
    bool better = false;

    for (size_t i = 0; i < n * n && !is_over(l); i++) {
        int a = l->f->choices[i / n], b = l->f->choices[i % n];
        if (l->fates[a] == TIDE_KEEP || l->fates[b] != TIDE_KEEP ||
            l->s->p->tensors[b].bytes < l->s->p->tensors[a].bytes)
            continue;
        for (TideFate fate = TIDE_RECOMPUTE; fate <= TIDE_OFFLOAD && l->fates[a] != TIDE_KEEP; fate++) {
            add_change(l, a, TIDE_KEEP);
            add_change(l, b, fate);
            better |= try_changes(l);
        }
    }
    return better;
}

void search_locally(Search *s)
{
    Local l = {
        .s = s,
        .f = s->f,
        .fates = s->fates,
    };

    l.changes = pool_new(&l.pool, 2 * (size_t)s->f->n_choices, sizeof *l.changes);
    l.now = search_score(s);
    for (bool better = l.changes != NULL; better && !is_over(&l);) {
        better = copy_layers(&l);
        better |= change_tensors(&l);
        if (!better) better = exchange_layers(&l) || swap_tensors(&l);
    }
    search_note(s, &l.now);
    pool_free(&l.pool);
}
