/* outline.h - what a plan file says for itself, without the program that it was made for.
 *
 * Enough to explain and to compare, not to run: nothing is proven. */
#ifndef TIDE_REPORT_OUTLINE_H
#define TIDE_REPORT_OUTLINE_H
#include "runtime/plan_json.h"

typedef struct OutlineRow {
    Decision     decision;
    DecisionText text; /* borrowed from the file */
} OutlineRow;

typedef struct Outline {
    JsonFile      file;    /* owned; keeps the names */
    const char   *program; /* hash, 16 digits        */
    TidePolicy    policy;
    size_t        fixed_bytes, arena_bytes; /* of the process outside the device arena; of that arena */
    TidePlanStats stats;
    OutlineRow   *rows; /* [n_rows], owned; in the plan's order */
    int           n_rows;
} Outline;

/* Read a plan file. TIDE_IO, TIDE_BAD_FILE, or TIDE_NO_MEMORY, with a message left with t. Close it, also
 * after a failure. */
TideStatus outline_open(Tide *t, const char *path, Outline *out);
void       outline_close(Outline *o);

/* The next row from *at on of a tensor of that name, *at moved behind it; NULL past the last. */
const OutlineRow *outline_find(const Outline *o, const char *name, int *at);

/* One paragraph: fate, bytes, the moment that binds, what a byte is worth there, what other fates would
 * cost, and the budget at which it would change. */
void why_print(const Outline *o, const OutlineRow *row, FILE *to);

/* A tensor with a fate in both plans, and not the same one. */
typedef struct Change { const OutlineRow *a, *b; } Change;

/* What two plans decide differently, in the order of a. */
typedef struct Difference {
    Change            *changes; int n_changes;
    const OutlineRow **only_a;  int n_only_a;
    const OutlineRow **only_b;  int n_only_b;
} Difference;

/* TIDE_NO_MEMORY is the only failure. Free with diff_free(), also after it; rows are borrowed. */
TideStatus diff_make(const Outline *a, const Outline *b, Difference *out);
void       diff_free(Difference *d);
/* Changes of tensors whose names differ in a number only, and whose bytes and fates are alike, share a
 * line. */
void       diff_print(const Outline *a, const Outline *b, const Difference *d, FILE *to);

#endif
