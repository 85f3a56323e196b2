/* bench_evaluate.c - how many sets of fates the planner judges in a second of the processor.
 *
 *     bench_evaluate [model [batch]]     default: gpt2-124m at 32 and gpt2-1558m at 16
 *
 * For plans of several budgets as an H200 would have them: each evaluation changes one fate of the plan,
 * from nothing (evaluate) and following what changed (evaluate_again). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "models/model.h"
#include "runtime/planner.h"
#include "tests/support/h200.h"

typedef Score (*Judge)(Evaluator *, const TideFate *, size_t);

static double processor_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Evaluations a second of a solution of which one fate changes, then is as before. */
static double speed_of(const GraphWork *w, const Solution *s, Judge judge)
{
    const Facts *f = w->facts;
    uint64_t state = 1;
    long n = 0;
    double began = processor_seconds(), now = began;

    for (; now - began < 0.3; now = processor_seconds())
        for (int i = 0; i < 100; i++, n++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            int t = f->choices[(state >> 33) % (uint64_t)f->n_choices];
            TideFate before = s->fates[t], fate = (TideFate)(TIDE_KEEP + (state >> 40) % 3);
            if (fate_is_allowed(f, t, fate)) s->fates[t] = fate;
            judge(w->evaluator, s->fates, s->live_limit);
            s->fates[t] = before;
        }
    return (double)n / (now - began);
}

static void show_budget(Planner *pl, int percent)
{
    Solution s;

    planner_set_budget(pl,
                       (TideBudget){ .device_bytes = pl->static_bytes + (pl->keep.height - pl->static_bytes) /
                                                                            100 * (size_t)percent });
    if (planner_solve(pl, NULL, &s) || !s.found) {
        printf("%3d%%  no plan\n", percent);
        return;
    }
    printf("%3d%% %12.0f %12.0f\n", percent, speed_of(&pl->work[0], &s, evaluate),
           speed_of(&pl->work[0], &s, evaluate_again));
    fflush(stdout);
}

static int show(Tide *tide, const char *name, int batch)
{
    static const int percents[] = { 70, 35, 15 };
    ModelConfig config;
    Model *model;
    TideProfile *profile;
    Planner *pl;

    if (!model_preset(name, &config)) return 2;
    config.batch = batch;
    config.dtype = TIDE_BF16;
    if (model_new(tide, &config, &model) || tide_profile_guess(model->program, &profile)) return 1;
    h200_times(profile, 1);
    if (planner_open(model->program, profile, (TideBudget){ 0 }, &pl) || planner_find_extremes(pl)) return 1;
    printf("%s B=%d: %d nodes, %d tensors with a fate; evaluations/s\n      from nothing    following\n",
           name, batch, pl->work[0].problem->n_nodes, pl->work[0].facts->n_choices);
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
        status = show(tide, argv[1], argc > 2 ? atoi(argv[2]) : 8);
    else if (!status && !(status = show(tide, "gpt2-124m", 32)))
        status = show(tide, "gpt2-1558m", 16);
    if (status) fprintf(stderr, "%s\n", tide_message(tide));
    tide_close(tide);
    return status;
}
