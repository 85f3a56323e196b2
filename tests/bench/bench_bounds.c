/* bench_bounds.c - plans for an H200 and how far they are from what is proven, budget by budget.
 *
 *     bench_bounds [model [batch [link slower by]]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "models/model.h"
#include "runtime/bound_time.h"
#include "runtime/planner.h"
#include "tests/support/h200.h"

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void show_budget(Planner *pl, int percent)
{
    const GraphWork *w = &pl->work[0];
    size_t limit = pl->static_bytes + (pl->keep.height - pl->static_bytes) / 100 * (size_t)percent;
    TimeBound bound, lp;
    Solution s;

    planner_set_budget(pl, (TideBudget){ .device_bytes = limit });
    double began = now();
    if (planner_solve(pl, NULL, &s)) return;
    double solved = now();
    if (bound_seconds(w->facts, ANY_SCHEDULE, pl->device_limit, pl->host_limit, &bound)) return;
    double bounded = now();
    if (bound_seconds(w->facts, ONE_FATE, pl->device_limit, pl->host_limit, &lp)) return;
    double priced = now();
    printf("%3d%% %9.2f %10.3f %10.3f %10.3f %7.2f %7.2f %7.3f %7.3f %7.3f  %s\n", percent,
           (double)limit / (1 << 30), 1e3 * bound.seconds, 1e3 * lp.seconds, s.found ? 1e3 * s.seconds : 0,
           s.found ? 100 * (s.seconds / bound.seconds - 1) : 0,
           s.found ? 100 * (s.seconds / lp.seconds - 1) : 0, solved - began, bounded - solved,
           priced - bounded, bound.set.n_cuts ? w->problem->nodes[bound.set.cuts[0].node].name : "-");
}

static int show(Tide *tide, const char *name, int batch, double slower)
{
    ModelConfig config;
    Model *model;
    TideProfile *profile;
    Planner *pl;

    if (!model_preset(name, &config)) return 2;
    config.batch = batch;
    config.dtype = TIDE_BF16;
    if (model_new(tide, &config, &model) || tide_profile_guess(model->program, &profile)) return 1;
    h200_times(profile, slower);
    if (planner_open(model->program, profile, (TideBudget){ 0 }, &pl) || planner_find_extremes(pl)) return 1;
    printf(
        "%s B=%d: %d nodes, %d tensors with a fate; static %.2f GiB, keep %.2f GiB %.3f ms, least %.2f GiB, "
        "proven %.2f GiB\n",
        name, batch, pl->work[0].problem->n_nodes, pl->work[0].facts->n_choices,
        (double)pl->static_bytes / (1 << 30), (double)pl->keep.height / (1 << 30), 1e3 * pl->keep.seconds,
        (double)pl->least.height / (1 << 30), (double)pl->bound.bytes / (1 << 30));
    puts("          GiB   bound ms      lp ms    plan ms   gap %  gap_lp  plan s bound s    lp s  binding "
         "node");
    static const int percents[] = { 90, 70, 50, 35, 25, 15, 10 };
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) show_budget(pl, percents[i]);
    planner_close(pl);
    tide_profile_free(profile);
    model_free(model);
    return 0;
}

int main(int argc, char **argv)
{
    Tide *tide = h200_open();
    int status = tide ? 0 : 1;

    if (!status && argc > 1)
        status = show(tide, argv[1], argc > 2 ? atoi(argv[2]) : 8, argc > 3 ? strtod(argv[3], NULL) : 1);
    for (int slower = 1; !status && argc < 2 && slower <= 4; slower += 3) {
        printf("link of %.1f GB/s\n", 55.0 / slower);
        fflush(stdout);
        status = show(tide, "gpt2-124m", 32, slower);
        if (!status) status = show(tide, "gpt2-1558m", 16, slower);
    }
    if (status) fprintf(stderr, "%s\n", tide_message(tide));
    tide_close(tide);
    return status;
}
