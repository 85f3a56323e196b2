/* bench_plan.c - how good plans are and what planning costs, on models as an H200 would see them.
 *
 *     bench_plan [model [batch [layers]]]     default: a table of models
 *
 * Nothing is measured or run: the CPU device builds the graphs, and times come from flops and bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "models/model.h"
#include "runtime/bound_time.h"
#include "runtime/graph.h"
#include "runtime/planner.h"
#include "runtime/profile.h"

/* What the table plans: presets, some with other layers. */
typedef struct Row {
    const char *model;
    int batch, layers; /* 0: the preset's */
} Row;

static const Row rows[] = {
    { "gpt2-1558m", 16, 0 }, { "gpt2-124m", 32, 0 }, { "gpt2-1558m", 8, 32 }, { "gpt2-1558m", 8, 96 }
};
static const int percents[] = { 70, 50, 35, 25, 15, 10 };
enum { N_ROWS = sizeof rows / sizeof *rows, N_PERCENTS = sizeof percents / sizeof *percents };

static Backend h200; /* the CPU's kernels, an H200's speeds */

static double cpu_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static Tide *open_h200(void)
{
    Tide *t;

    if (tide_open("cpu", (TideDeviceOptions){ 0 }, &t)) return NULL;
    h200 = *t->backend;
    h200.rough = (Rough){ 600e12, 4.2e12, 55e9, 3e-6, 0 };
    h200.types |= 1u << TIDE_BF16;
    h200.alignment = 256;
    t->backend = &h200;
    return t;
}

static Model *build(Tide *t, Row r)
{
    ModelConfig config;
    Model *m = NULL;

    if (!model_preset(r.model, &config)) return NULL;
    config.batch = r.batch;
    config.dtype = TIDE_BF16;
    if (r.layers) config.layers = r.layers;
    if (model_new(t, &config, &m)) fprintf(stderr, "%s\n", tide_message(t));
    return m;
}

/* Evaluations a second, from nothing or again, of fates of a plan of which one changes, then is as before. */
static double evaluation_speed(GraphWork *w, const TideFate *plan, size_t limit,
                               Score (*score)(Evaluator *, const TideFate *, size_t))
{
    size_t tensors = (size_t)w->problem->n_tensors;
    TideFate *fates = calloc(tensors, sizeof *fates);
    uint64_t state = 1;
    long n = 0;
    double began = cpu_clock(), now = began;

    if (!fates) return 0;
    memcpy(fates, plan, tensors * sizeof *fates);
    for (; now - began < 0.3; now = cpu_clock())
        for (int i = 0; i < 100; i++, n++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            int t = w->facts->choices[(state >> 33) % (uint64_t)w->facts->n_choices];
            TideFate fate = (TideFate)(TIDE_KEEP + (state >> 40) % 3);
            if (fate_is_allowed(w->facts, t, fate)) fates[t] = fate;
            score(w->evaluator, fates, limit);
            fates[t] = plan[t];
        }
    free(fates);
    return (double)n / (now - began);
}

/* The fates of a plan by tensors of the problem. */
static const TideFate *fates_of(const GraphWork *w, const TidePlan *plan)
{
    static TideFate fates[1 << 16];

    for (int t = 0; t < w->problem->n_tensors && t < 1 << 16; t++)
        fates[t] = tide_plan_fate(plan, (TideTensor){ w->problem->tensors[t].id });
    return fates;
}

static void plan_budgets(Model *m, Row r, double slower)
{
    TideProfile *f;
    Planner *pl;

    if (tide_profile_guess(m->program, &f)) return;
    f->link = (Link){ 55e9 / slower, 55e9 / slower, 51e9 / slower, 3e-6 };
    if (planner_open(m->program, f, (TideBudget){ 0 }, &pl) || planner_find_extremes(pl)) return;
    GraphWork *w = &pl->work[0];
    const Facts *facts = w->facts;
    size_t keep = pl->keep.height, fixed = pl->static_bytes;
    printf("%s batch %d, %d layers, link %.1f GB/s: %d nodes, %d tensors, %d choices; keep %.2f GiB in "
           "%.2f ms, least %.2f GiB\n",
           r.model, r.batch, m->config.layers, f->link.out * 1e-9, facts->n_order, facts->problem->n_tensors,
           facts->n_choices, (double)keep / (1 << 30), pl->keep.seconds * 1e3,
           (double)pl->least.height / (1 << 30));
    for (int i = 0; i < N_PERCENTS; i++) {
        TidePlan *plan = NULL;
        size_t budget = fixed + (keep - fixed) / 100 * (size_t)percents[i];
        double began = cpu_clock();
        TideStatus status =
            tide_plan_make(m->program, f, (TideBudget){ .device_bytes = budget }, &plan, NULL);
        double seconds = cpu_clock() - began;
        if (status) {
            printf("  %3d %%  no plan\n", percents[i]);
            continue;
        }
        TidePlanStats s = tide_plan_stats(plan);
        TimeBound bound;
        bound_seconds(facts, ANY_SCHEDULE, budget, SIZE_MAX, &bound);
        printf("  %3d %%  step %9.3f ms  +%6.2f %%  gap %6.2f %%  recompute %8.3f  stall %8.3f  R %3d O %3d  "
               "out %6.2f GiB  "
               "planned in %.3f s  %5.0f and %6.0f "
               "evaluations/s\n",
               percents[i], s.seconds * 1e3, 100 * (s.seconds / s.keep_seconds - 1),
               100 * (s.seconds / bound.seconds - 1), s.recompute_seconds * 1e3, s.stall_seconds * 1e3,
               s.fate[TIDE_RECOMPUTE].tensors, s.fate[TIDE_OFFLOAD].tensors, (double)s.bytes_out / (1 << 30),
               seconds, evaluation_speed(w, fates_of(w, plan), budget, evaluate),
               evaluation_speed(w, fates_of(w, plan), budget, evaluate_again));
        fflush(stdout);
        tide_plan_free(plan);
    }
    planner_close(pl);
    tide_profile_free(f);
}

int main(int argc, char **argv)
{
    Tide *t = open_h200();

    if (!t) return 1;
    for (int i = 0; i < (argc > 1 ? 1 : N_ROWS); i++) {
        Row r =
            argc > 1 ? (Row){ argv[1], argc > 2 ? atoi(argv[2]) : 8, argc > 3 ? atoi(argv[3]) : 0 } : rows[i];
        Model *m = build(t, r);
        if (!m) return 1;
        plan_budgets(m, r, 1);
        plan_budgets(m, r, 4);
        model_free(m);
    }
    tide_close(t);
    return 0;
}
