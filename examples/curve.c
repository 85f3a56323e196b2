/* curve.c - step time against budget. */
#include "examples/curve.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "examples/report.h"
#include "runtime/base.h"
#include "runtime/report/account.h"

/* ---- Sweeping --------------------------------------------------------------- */

/* Arena bytes of n budgets, evenly spaced from the least of the session's policy to keeping everything. */
static void choose_budgets(const Session *s, TideBudget *budgets, int n)
{
    size_t least = s->stats.least_bytes, most = s->stats.keep_bytes > least ? s->stats.keep_bytes : least;

    for (int i = 0; i < n; i++) {
        budgets[i] = s->budget;
        budgets[i].device_bytes = least + (size_t)((double)(most - least) * i / (n - 1));
    }
    budgets[n - 1].device_bytes = most;
}

static CurvePoint point_of(const Session *s, size_t arena, const TidePlan *plan)
{
    CurvePoint p = { .budget = s->fixed_bytes + arena, .seconds = NAN, .bound = NAN };
    TidePlanStats stats;

    if (!plan) return p;
    stats = tide_plan_stats(plan);
    p.seconds = plan_step_seconds(s, plan);
    if (stats.bound_seconds > 0) p.bound = plan_step_bound(s, plan, stats.bound_seconds);
    p.host_bytes = stats.host_bytes;
    memcpy(p.fate, stats.fate, sizeof p.fate);
    return p;
}

static TideStatus sweep(const Session *s, TideBudget *budgets, TidePlan **plans, Curve *c)
{
    TRY(tide_plan_sweep(s->program, s->profile, budgets, c->n, plans));
    TideStatus status = TIDE_OK;

    for (int i = 0; i < c->n; i++) {
        if (plans[i] && !status) status = tide_plan_check(s->program, plans[i]);
        c->points[i] = point_of(s, budgets[i].device_bytes, plans[i]);
        tide_plan_free(plans[i]);
    }
    return status;
}

static void find_savings(Curve *c)
{
    for (int i = 0; i + 1 < c->n; i++) {
        double gib = (double)(c->points[i + 1].budget - c->points[i].budget) / 0x1p30;
        double seconds = c->points[i].seconds - c->points[i + 1].seconds;
        c->points[i].saving = gib > 0 && isfinite(seconds) ? seconds / gib : 0;
    }
}

/* Where the curve bends most: farthest below the straight line between its ends, both axes from 0 to 1
 * (Satopaa et al. 2011, "Finding a kneedle in a haystack"). */
static void find_knee(Curve *c)
{
    int first = 0, last = c->n - 1;
    double best = 1e-9;

    c->knee = -1;
    while (first < last && !isfinite(c->points[first].seconds)) first++;
    const CurvePoint *a = &c->points[first], *b = &c->points[last];
    double width = (double)(b->budget - a->budget), height = a->seconds - b->seconds;
    if (!(width > 0 && height > 0)) return;
    for (int i = first; i <= last; i++) {
        const CurvePoint *p = &c->points[i];
        double gain = (a->seconds - p->seconds) / height - (double)(p->budget - a->budget) / width;
        if (gain > best) best = gain, c->knee = i;
    }
}

int curve_make(Session *s, int n, Curve *out)
{
    TideBudget *budgets = calloc((size_t)n, sizeof *budgets);
    TidePlan **plans = calloc((size_t)n, sizeof(TidePlan *));
    TideStatus status = session_profile(s);

    *out = (Curve){ .points = calloc((size_t)n, sizeof *out->points), .n = n, .knee = -1 };
    if (!budgets || !plans || !out->points) status = tide_fail(s->tide, TIDE_NO_MEMORY, "no memory");
    if (!status) {
        choose_budgets(s, budgets, n);
        status = sweep(s, budgets, plans, out);
    }
    free(budgets);
    free(plans);
    if (status) return session_fail(s, status);
    find_savings(out);
    find_knee(out);
    return EXIT_DONE;
}

void curve_free(Curve *c)
{
    free(c->points);
}

/* ---- Telling ------------------------------------------------------------------ */

void curve_print(const Curve *c, FILE *to)
{
    char budget[BYTES_TEXT], host[BYTES_TEXT];

    fprintf(to, "%14s %14s %14s %9s %14s %6s %6s %6s %12s\n", "budget", "step", "bound", "over best",
            "s/GiB more", "kept", "again", "away", "host");
    for (int i = 0; i < c->n; i++) {
        const CurvePoint *p = &c->points[i];
        double best = c->points[c->n - 1].seconds;
        fprintf(to, "%14s ", bytes_text(p->budget, budget));
        if (!isfinite(p->seconds)) {
            fprintf(to, "%14s\n", "no plan");
            continue;
        }
        fprintf(to, "%11.3f ms %11.3f ms %8.2f%% %14.5f %6d %6d %6d %12s%s\n", p->seconds * 1e3,
                p->bound * 1e3, (p->seconds / best - 1) * 100, p->saving, p->fate[TIDE_KEEP].tensors,
                p->fate[TIDE_RECOMPUTE].tensors, p->fate[TIDE_OFFLOAD].tensors,
                bytes_text(p->host_bytes, host), i == c->knee ? "  <- knee" : "");
    }
}

static json_t *point_json(const CurvePoint *p)
{
    return json_pack("{s:I, s:o, s:o, s:o, s:I, s:i, s:i, s:i}", "budget_bytes", (json_int_t)p->budget,
                     "step_seconds", json_number(p->seconds), "bound_seconds", json_number(p->bound),
                     "seconds_per_gib", json_number(p->saving), "host_bytes", (json_int_t)p->host_bytes,
                     "kept", p->fate[TIDE_KEEP].tensors, "recomputed", p->fate[TIDE_RECOMPUTE].tensors,
                     "offloaded", p->fate[TIDE_OFFLOAD].tensors);
}

json_t *curve_json(const Curve *c)
{
    json_t *points = json_array();

    for (int i = 0; i < c->n; i++) json_array_append_new(points, point_json(&c->points[i]));
    return points;
}

int curve_save(const Session *s, const Curve *c, const char *path)
{
    FILE *to = fopen(path, "w");

    if (to)
        fputs("budget_bytes,step_seconds,bound_seconds,seconds_per_gib,host_bytes,kept,recomputed,offloaded,"
              "knee\n",
              to);
    for (int i = 0; to && i < c->n; i++) {
        const CurvePoint *p = &c->points[i];
        fprintf(to, "%zu,", p->budget);
        if (isfinite(p->seconds)) fprintf(to, "%.9g", p->seconds);
        fputs(",", to);
        if (isfinite(p->bound)) fprintf(to, "%.9g", p->bound);
        fprintf(to, ",%.9g,%zu,%d,%d,%d,%d\n", p->saving, p->host_bytes, p->fate[TIDE_KEEP].tensors,
                p->fate[TIDE_RECOMPUTE].tensors, p->fate[TIDE_OFFLOAD].tensors, i == c->knee);
    }
    bool failed = !to || ferror(to);
    if ((to && fclose(to)) || failed) {
        refuse(s->options, "--csv %s cannot be written: %s", path, strerror(errno));
        return EXIT_WORLD;
    }
    return EXIT_DONE;
}
