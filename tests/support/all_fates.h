/* all_fates.h - every combination of fates of a small problem, by number. */
#ifndef TIDE_TEST_ALL_FATES_H
#define TIDE_TEST_ALL_FATES_H
#include "runtime/search.h"

/* How many combinations there are, allowed or not: 3 to the power of the choices. */
int  all_fates_count(const Facts *f);
/* Write the combination of that number, in base 3, into fates[n_tensors]; false if a fate of it is not
 * allowed, and then not all are written. */
bool all_fates_take(const Facts *f, int number, TideFate *fates);

#endif
