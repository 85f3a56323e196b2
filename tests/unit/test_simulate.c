/* test_simulate.c - three lanes, worked out on paper. */
#include <criterion/criterion.h>
#include "runtime/simulate.h"

enum { MOST = 4 };

typedef struct Lanes {
    Task compute[MOST], out[MOST], in[MOST];
} Lanes;

static Timeline timeline(Lanes *l, int n_compute, int n_out, int n_in)
{
    return (Timeline){ .tasks = { l->compute, l->out, l->in },
                       .n_tasks = { n_compute, n_out, n_in },
                       .link = { .out = 10, .in = 20, .duplex = 5, .latency = 1 } };
}

static void expect_task(const Task *t, double start, double end, const char *what)
{
    cr_expect_float_eq(t->start, start, 1e-9, "%s starts at %g, not %g", what, t->start, start);
    cr_expect_float_eq(t->end, end, 1e-9, "%s ends at %g, not %g", what, t->end, end);
}

Test(simulate, runs_follow_each_other)
{
    Lanes l = { .compute = { { .seconds = 3 }, { .seconds = 4 } } };
    Timeline t = timeline(&l, 2, 0, 0);

    t.origin = 2;
    cr_expect_float_eq(simulate(&t), 9, 1e-9);
    expect_task(&l.compute[1], 5, 9, "the second run");
}

Test(simulate, nothing_at_all_ends_at_the_origin)
{
    Lanes l = { .compute = { { 0 } } };
    Timeline t = timeline(&l, 0, 0, 0);

    t.origin = 2;
    cr_expect_float_eq(simulate(&t), 2, 1e-9);
}

/* The copy starts when run 0 is over at 3, takes 1 + 40 / 10; run 1 needs it, and stalls from 3 to 8. */
Test(simulate, a_run_waits_for_a_copy)
{
    Lanes l = { .compute = { { .seconds = 3 }, { .seconds = 4, .after = { 0, 1, 0 } } },
                .out = { { .seconds = 1, .bytes = 40, .after = { 1, 0, 0 } } } };
    Timeline t = timeline(&l, 2, 1, 0);

    cr_expect_float_eq(simulate(&t), 12, 1e-9);
    expect_task(&l.out[0], 3, 8, "the copy");
    expect_task(&l.compute[1], 8, 12, "the waiting run");
}

/* A lane is a queue: the second copy could start at 0 but stands behind the first, which waits until 5. */
Test(simulate, a_lane_keeps_its_order)
{
    Lanes l = { .compute = { { .seconds = 5 } },
                .out = { { .seconds = 1, .bytes = 10, .after = { 1, 0, 0 } },
                         { .seconds = 1, .bytes = 10 } } };
    Timeline t = timeline(&l, 1, 2, 0);

    cr_expect_float_eq(simulate(&t), 9, 1e-9);
    expect_task(&l.out[1], 7, 9, "the second copy");
}

/* Out: latency until 1, alone until 6 and moves 50 of 100. In: starts at 5, latency until 6, then both
 * move 5 a second: out needs 10 s more and ends at 16; in has moved 50 of 100 by then, the rest goes at 20
 * a second and ends at 18.5. */
Test(simulate, both_directions_share_the_link)
{
    Lanes l = { .compute = { { .seconds = 5 } },
                .out = { { .seconds = 1, .bytes = 100 } },
                .in = { { .seconds = 1, .bytes = 100, .after = { 1, 0, 0 } } } };
    Timeline t = timeline(&l, 1, 1, 1);

    cr_expect_float_eq(simulate(&t), 18.5, 1e-9);
    expect_task(&l.out[0], 0, 16, "the copy out");
    expect_task(&l.in[0], 5, 18.5, "the copy in");
}

/* A duplex speed above the speed of one direction changes nothing. */
Test(simulate, a_fast_duplex_is_no_gain)
{
    Lanes l = { .out = { { .bytes = 100 } }, .in = { { .bytes = 100 } } };
    Timeline t = timeline(&l, 0, 1, 1);

    t.link.duplex = 50;
    cr_expect_float_eq(simulate(&t), 10, 1e-9);
    expect_task(&l.in[0], 0, 5, "the copy in");
}
