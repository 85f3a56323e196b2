/* search_all.c - all combinations of fates, where they are few: then the best is found for sure.
 *
 * They are counted like numbers, the last choice fastest, so that one differs little from the next. */
#include <math.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/search_steps.h"

bool search_is_small(const Search *s, long most)
{
    double n = 1;

    for (int i = 0; i < s->f->n_choices && n <= (double)most; i++) {
        int allowed = 0;
        for (TideFate fate = TIDE_KEEP; fate <= TIDE_OFFLOAD; fate++)
            allowed += fate_is_allowed(s->f, s->f->choices[i], fate);
        n *= allowed;
    }
    return n > 0 && n <= (double)most;
}

/* The next fate that is allowed; false where it starts from the first again. */
static bool advance(const Search *s, int t)
{
    TideFate fate = s->fates[t];

    do fate = fate == TIDE_OFFLOAD ? TIDE_KEEP : (TideFate)(fate + 1);
    while (!fate_is_allowed(s->f, t, fate));
    bool on = fate > s->fates[t];
    s->fates[t] = fate;
    return on;
}

/* The next combination; false after the last. */
static bool next(Search *s)
{
    for (int i = s->f->n_choices - 1; i >= 0; i--)
        if (advance(s, s->f->choices[i])) return true;
    return false;
}

void search_all(Search *s)
{
    for (int i = 0; i < s->f->n_choices; i++) {
        int t = s->f->choices[i];
        s->fates[t] = TIDE_KEEP;
        if (!fate_is_allowed(s->f, t, TIDE_KEEP)) s->fates[t] = s->p->tensors[t].forced;
    }
    do {
        Score score;
        if (search_score_if_better(s, &s->best_score, &score)) search_note(s, &score);
    } while (next(s));
}
