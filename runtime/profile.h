/* profile.h - seconds of every node, and the speed of the links. */
#ifndef TIDE_PROFILE_H
#define TIDE_PROFILE_H
#include "runtime/problem.h"

/* Seconds of one run of node n of graph g. Cannot fail: a profile covers its program. */
double profile_seconds(const TideProfile *f, const TideGraph *g, int node);
Link   profile_link(const TideProfile *f);
/* Bytes of the process outside the arena; 0 where not known or none. */
size_t profile_fixed_bytes(const TideProfile *f);

#endif
