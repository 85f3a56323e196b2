/* test_graphs.c - graphs of other systems under many budgets in one sweep: no plan is higher than its budget,
 * more memory never costs time, and each plan is proven.
 *
 * TIDE_TEST_BUDGETS says how many budgets a graph; a few by default. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "models/model.h"
#include "runtime/plan.h"
#include "tests/support/sketch.h"

enum { MOST_BUDGETS = 1000 };

typedef struct Bed {
    Tide *t;
    TideProgram *p;
    TideProfile *f;
} Bed;

static int n_budgets(void)
{
    const char *text = getenv("TIDE_TEST_BUDGETS");
    int n = text ? atoi(text) : 0;

    return n < 2 ? 8 : n > MOST_BUDGETS ? MOST_BUDGETS : n;
}

/* A bed for a graph file that fill() writes. */
static Bed bed_of(void (*fill)(const char *path, const void *what), const void *what)
{
    char path[] = "/tmp/tide-graphs-XXXXXX";
    int file = mkstemp(path);
    Bed b;

    cr_assert(file >= 0);
    close(file);
    fill(path, what);
    cr_assert_eq(tide_graph_load(path, &b.t, &b.p, &b.f), TIDE_OK, "%s", tide_message(b.t));
    unlink(path);
    return b;
}

static void fill_sketch(const char *path, const void *what)
{
    FILE *f = fopen(path, "w");

    cr_assert(f);
    cr_assert(sketch_write(what, f));
    fclose(f);
}

/* A model of Tide's own, its links as slow as those of an H200 are beside its kernels. */
static void fill_model(const char *path, const void *what)
{
    ModelConfig config;
    Model *m;
    TideProfile *f;
    Tide *t;

    cr_assert(model_preset(what, &config));
    config.layers = config.layers > 4 ? 4 : config.layers;
    cr_assert_eq(tide_open("cpu", (TideDeviceOptions){ 0 }, &t), TIDE_OK);
    cr_assert_eq(model_new(t, &config, &m), TIDE_OK, "%s", tide_message(t));
    cr_assert_eq(tide_profile_guess(m->program, &f), TIDE_OK);
    tide_profile_set_link(f, 1e9);
    cr_assert_eq(tide_graph_save(m->program, f, what, path), TIDE_OK, "%s", tide_message(t));
    tide_profile_free(f);
    model_free(m);
    tide_close(t);
}

/* Budgets from below the least to above keeping everything. */
static void choose_budgets(const Bed *b, TideBudget *budgets, int n)
{
    TidePlan *keep;
    size_t least;

    cr_assert_eq(tide_plan_make(b->p, b->f, (TideBudget){ 0 }, &keep, &least), TIDE_OK, "%s",
                 tide_message(b->t));
    size_t most = tide_plan_stats(keep).keep_bytes;
    for (int i = 0; i < n; i++)
        budgets[i] =
            (TideBudget){ .device_bytes = least - 1 + (size_t)((double)(most - least + 2) * i / (n - 1)) };
    tide_plan_free(keep);
}

static void check_sweep(Bed b, const char *name)
{
    int n = n_budgets(), found = 0;
    TideBudget budgets[MOST_BUDGETS];
    TidePlan *plans[MOST_BUDGETS];
    double before = INFINITY;

    choose_budgets(&b, budgets, n);
    cr_assert_eq(tide_plan_sweep(b.p, b.f, budgets, n, plans), TIDE_OK, "%s: %s", name, tide_message(b.t));
    for (int i = 0; i < n; i++) {
        if (!plans[i]) continue;
        TidePlanStats s = tide_plan_stats(plans[i]);
        cr_expect_leq(s.device_bytes, budgets[i].device_bytes, "%s, budget %d", name, i);
        cr_expect_leq(s.seconds, before, "%s, budget %d: %.9g after %.9g", name, i, s.seconds, before);
        cr_expect_geq(s.seconds, s.keep_seconds * (1 - 1e-12), "%s, budget %d", name, i);
        cr_expect_eq(tide_plan_check(b.p, plans[i]), TIDE_OK, "%s, budget %d: %s", name, i,
                     tide_message(b.t));
        before = s.seconds;
        found++;
        if (i == n - 1) cr_expect_eq(s.fate[TIDE_KEEP].tensors, plans[i]->n_decisions, "%s", name);
        tide_plan_free(plans[i]);
    }
    cr_expect_geq(found, n - 1, "%s: %d of %d", name, found, n); /* the first lies below the least */
    tide_profile_free(b.f);
    tide_program_free(b.p);
    tide_close(b.t);
}

static void sweep_sketch(Sketch *s, const char *name)
{
    check_sweep(bed_of(fill_sketch, s), name);
    sketch_free(s);
}

TestSuite(graphs, .timeout = 3600);

Test(graphs, llama)
{
    sweep_sketch(sketch_llama(6), "llama6");
}

Test(graphs, unet)
{
    sweep_sketch(sketch_unet(16), "unet");
}

Test(graphs, resnet50)
{
    sweep_sketch(sketch_resnet50(128), "resnet50");
}

Test(graphs, densenet121)
{
    sweep_sketch(sketch_densenet121(128), "densenet121");
}

Test(graphs, gpt_char)
{
    check_sweep(bed_of(fill_model, "gpt-char"), "gpt-char");
}

Test(graphs, gpt2)
{
    check_sweep(bed_of(fill_model, "gpt2-124m"), "gpt2-124m");
}

/* Shapes of the papers: numbers that anybody can work out. Parameters are bf16. */
Test(graphs, have_the_parameters_of_the_papers)
{
    const struct {
        Sketch *s;
        double millions, within;
    } cases[] = { { sketch_llama(32), 8030, 1 }, /* with its head; norms count little */
                  { sketch_resnet50(1), 25.6, 0.1 },
                  { sketch_densenet121(1), 8.0, 0.1 },
                  { sketch_unet(1), 31.0, 0.1 } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bed b = bed_of(fill_sketch, cases[i].s);
        size_t bytes = 0;
        for (int j = 0; j < tide_parameter_count(b.p); j++)
            bytes += tide_tensor_bytes(b.p, tide_parameter_at(b.p, j));
        cr_expect_float_eq((double)bytes / 2e6, cases[i].millions, cases[i].within, "case %zu: %.2f million",
                           i, (double)bytes / 2e6);
        sketch_free(cases[i].s);
        tide_profile_free(b.f);
        tide_program_free(b.p);
        tide_close(b.t);
    }
}
