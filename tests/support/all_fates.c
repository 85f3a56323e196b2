/* all_fates.c - every combination of fates of a small problem. */
#include "tests/support/all_fates.h"

int all_fates_count(const Facts *f)
{
    int n = 1;

    for (int i = 0; i < f->n_choices; i++) n *= 3;
    return n;
}

bool all_fates_take(const Facts *f, int number, TideFate *fates)
{
    for (int i = 0; i < f->n_choices; i++, number /= 3) {
        int t = f->choices[i];
        fates[t] = (TideFate)(TIDE_KEEP + number % 3);
        if (!fate_is_allowed(f, t, fates[t])) return false;
    }
    return true;
}
