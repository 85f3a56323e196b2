/* profile.h - seconds of every node, and the speed of the links.
 *
 * A profile has one entry for each distinct (op, shapes, types); the nodes of a program
 * refer to entries. Entries come from measuring, from a file, from scaling another entry
 * of the same op, or from a guess. */
#ifndef TIDE_PROFILE_H
#define TIDE_PROFILE_H
#include "runtime/problem.h"

typedef enum Source { SOURCE_NONE, SOURCE_MEASURED, SOURCE_SCALED, SOURCE_GUESSED } Source;

typedef struct Entry {
    char  *key;     /* "linear f32[12,64,128] f32[384,128] f32[384] > f32[12,64,384]" */
    double seconds; /* median of several runs                                         */
    double flops, bytes;
    Source source;
} Entry;

struct TideProfile {
    Entry  *entries; int n_entries;
    int   **entry_of; int n_graphs; /* [graph][node] index into entries */
    Link    link;
    size_t  fixed_bytes; /* of the process outside the arena; 0: none or not known */
    int     filled;      /* entries that were scaled or guessed                     */
    char    device[32], versions[256];
};

/* Seconds of one run of node n of graph g. Cannot fail: a profile covers its program. */
double profile_seconds(const TideProfile *f, const TideGraph *g, int node);
Link   profile_link(const TideProfile *f);
size_t profile_fixed_bytes(const TideProfile *f);

/* An entry for each distinct node of the program, times not known yet. */
TideStatus profile_new(const TideProgram *p, TideProfile **out);
/* Fill what is not known: scale an entry of the same op by flops and bytes, else guess. */
void       profile_fill(const TideProgram *p, TideProfile *f);
/* The entry of that key; -1: none. */
int        profile_find(const TideProfile *f, const char *key);

#endif
