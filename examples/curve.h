/* curve.h - step time against budget: one sweep of plans from the least budget to keeping everything. */
#ifndef TIDE_EXAMPLES_CURVE_H
#define TIDE_EXAMPLES_CURVE_H
#include <stdio.h>
#include "examples/output.h"
#include "examples/session.h"

typedef struct CurvePoint {
    size_t budget; /* of the process */
    double seconds; /* of a step; NaN: no plan */
    double bound;   /* no step takes less; NaN: not known */
    double saving;  /* seconds of a step that one more GiB saves, up to the next point */
    size_t host_bytes;
    TideTally fate[TIDE_FATE_COUNT];
} CurvePoint;

typedef struct Curve {
    CurvePoint *points; /* owned; budgets ascend */
    int n;
    int knee; /* the point farthest from the straight line between the ends; -1: there is none */
} Curve;

/* Sweep n budgets (2 at least) for a session that has a plan. Exit code; free after any. */
int     curve_make(Session *s, int n, Curve *out);
void    curve_free(Curve *c);

void    curve_print(const Curve *c, FILE *to);
json_t *curve_json(const Curve *c);
/* One line a point under a line of names. Exit code. */
int     curve_save(const Session *s, const Curve *c, const char *path);

#endif
