/* test_trace.c - what a traced step says is what happened, and tracing changes no bits. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/exec.h"
#include "runtime/report/account.h"
#include "tests/support/train.h"

static const double tick = 2e-6; /* clocks of two lanes may differ by so many seconds */

typedef struct Bed {
    Tide *tide;
    Model *model;
    TidePlan *plan;
} Bed;

/* A plan with copies both ways: all that can be offloaded is. */
static void bed_open(Bed *b)
{
    TideProfile *f = NULL;
    TideStatus status = tide_open(test_device(), (TideDeviceOptions){ .threads = 2 }, &b->tide);

    if (!status) status = model_new(b->tide, small_model(0), &b->model);
    if (!status) status = tide_profile_guess(b->model->program, &f);
    if (!status)
        status = tide_plan_make(b->model->program, f, (TideBudget){ .policy = TIDE_POLICY_OFFLOAD }, &b->plan,
                                NULL);
    cr_assert(!status, "%s", tide_message(b->tide));
    tide_profile_free(f);
}

static void bed_close(Bed *b)
{
    tide_plan_free(b->plan);
    model_free(b->model);
    tide_close(b->tide);
}

/* Work starts after all that it had to wait for was over, and a lane does one thing at a time. Returns how
 * many pieces of work there are. */
static int check_section(const Section *s, const Period *at)
{
    double *over = calloc((size_t)s->n_events + 1, sizeof *over);
    double last[LANE_COUNT] = { 0 }, ready[LANE_COUNT] = { 0 };
    int work = 0;

    for (int i = 0; i < s->n_steps; i++) {
        const Step *st = &s->steps[i];
        switch (st->kind) {
        case STEP_RECORD: over[st->event] = last[st->lane]; break;
        case STEP_WAIT:
            if (over[st->event] > ready[st->lane]) ready[st->lane] = over[st->event];
            break;
        default:
            cr_expect(at[i].start >= ready[st->lane] - tick && at[i].start >= last[st->lane] - tick,
                      "step %d starts at %g, before %g or %g", i, at[i].start, ready[st->lane],
                      last[st->lane]);
            cr_expect(at[i].end > at[i].start, "step %d takes no time", i);
            last[st->lane] = at[i].end;
            work++;
        }
    }
    free(over);
    return work;
}

static int work_seen;
static char path[2][64];

static void check_run(TideRun *r)
{
    for (int g = 0; g < 2; g++) {
        const Section *s = &r->plan->sections[g];
        Period *at = calloc((size_t)s->n_steps, sizeof *at);
        cr_assert(at && !run_periods(r, g, at));
        work_seen += check_section(s, at);
        free(at);
    }
    cr_expect(!run_was_traced(r, 2), "evaluation was not");
    cr_expect(!trace_save_run(r, path[0]) && !trace_save(r->program, r->plan, path[1]));
}

/* What the event at place i of a trace is about, without its times. */
static void describe(const json_t *trace, size_t i, char *text, size_t size)
{
    json_t *e = json_array_get(json_object_get(trace, "traceEvents"), i);

    snprintf(text, size, "%s %s %lld %lld", json_string_value(json_object_get(e, "ph")),
             json_string_value(json_object_get(e, "name")), json_integer_value(json_object_get(e, "pid")),
             json_integer_value(json_object_get(e, "tid")));
}

/* Both begin with the tracks and the work of the two graphs that ran. */
static void compare_traces(void)
{
    json_t *measured = json_load_file(path[0], 0, NULL), *predicted = json_load_file(path[1], 0, NULL);
    char a[256], b[256];

    cr_assert(measured && predicted);
    cr_expect_gt(json_array_size(json_object_get(measured, "traceEvents")), (size_t)work_seen);
    for (int i = 0; i < work_seen; i++) {
        describe(measured, (size_t)i, a, sizeof a);
        describe(predicted, (size_t)i, b, sizeof b);
        cr_expect_str_eq(a, b);
    }
    json_decref(measured);
    json_decref(predicted);
}

Test(trace, tells_what_happened_and_changes_nothing)
{
    char dir[] = "/tmp/tide-trace-XXXXXX";
    Bed b = { 0 };
    TrainResult plain, traced;

    cr_assert(mkdtemp(dir));
    for (int i = 0; i < 2; i++) snprintf(path[i], sizeof path[i], "%s/%d.json", dir, i);
    bed_open(&b);
    cr_assert(!train_plan(b.model, b.plan, (TrainOptions){ .steps = 5 }, &plain), "%s", tide_message(b.tide));
    cr_assert(!train_plan(b.model, b.plan, (TrainOptions){ .steps = 5, .traced = check_run }, &traced), "%s",
              tide_message(b.tide));
    cr_expect_eq(traced.weights, plain.weights);
    cr_expect_eq(traced.grads, plain.grads);
    cr_expect_gt(tide_plan_stats(b.plan).bytes_out, 0, "the plan has copies");
    compare_traces();
    bed_close(&b);
    for (int i = 0; i < 2; i++) unlink(path[i]);
    rmdir(dir);
}
