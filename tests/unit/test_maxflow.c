/* test_maxflow.c - flows against all cuts of small random networks. */
#include <criterion/criterion.h>
#include "runtime/maxflow.h"
#include "tests/support/random_graph.h"

enum { MOST_NODES = 9, MOST_ARCS = 40 };

typedef struct Net {
    int nodes, n;
    int from[MOST_ARCS], to[MOST_ARCS], arc[MOST_ARCS];
    int64_t capacity[MOST_ARCS];
} Net;

static Net random_net(uint64_t *state)
{
    Net net = { .nodes = 2 + (int)chance(state, MOST_NODES - 1) };

    net.n = (int)chance(state, MOST_ARCS);
    for (int i = 0; i < net.n; i++) {
        net.from[i] = (int)chance(state, (uint32_t)net.nodes);
        net.to[i] = (int)chance(state, (uint32_t)net.nodes);
        net.capacity[i] = chance(state, 6) ? (int64_t)chance(state, 1000) : FLOW_UNLIMITED / 1000;
    }
    return net;
}

static int64_t capacity_of_cut(const Net *net, unsigned with_source)
{
    int64_t sum = 0;

    for (int i = 0; i < net->n; i++)
        if (with_source >> net->from[i] & 1 && !(with_source >> net->to[i] & 1)) sum += net->capacity[i];
    return sum;
}

/* The cheapest cut between nodes 0 and 1, by trying all. */
static int64_t cheapest_cut(const Net *net)
{
    int64_t least = INT64_MAX;

    for (unsigned set = 0; set < 1u << net->nodes; set++) {
        if (!(set & 1) || set & 2) continue;
        int64_t sum = capacity_of_cut(net, set);
        if (sum < least) least = sum;
    }
    return least;
}

/* The cut that the flow names is a cut, and costs as much as the flow. */
static void check_cut(const Net *net, Flow *f, int64_t flow, int trial)
{
    int64_t sum = 0;

    cr_expect(flow_with_source(f, 0) && !flow_with_source(f, 1));
    for (int i = 0; i < net->n; i++) {
        bool cut = flow_with_source(f, net->from[i]) && !flow_with_source(f, net->to[i]);
        cr_expect_eq(flow_is_cut(f, net->arc[i]), cut);
        if (cut) sum += net->capacity[i];
    }
    cr_expect_eq(sum, flow, "trial %d", trial);
}

Test(maxflow, equals_the_cheapest_cut)
{
    uint64_t state = 1;

    for (int trial = 0; trial < 3000; trial++) {
        Net net = random_net(&state);
        Flow *f = flow_new(net.nodes);
        cr_assert_not_null(f);
        for (int i = 0; i < net.n; i++) net.arc[i] = flow_add(f, net.from[i], net.to[i]);
        for (int again = 0; again < 2; again++) { /* other capacities, the same network */
            for (int i = 0; i < net.n; i++) {
                net.capacity[i] = again ? net.capacity[i] / 2 : net.capacity[i];
                flow_set(f, net.arc[i], net.capacity[i]);
            }
            int64_t flow = flow_solve(f, 0, 1);
            cr_assert_eq(flow, cheapest_cut(&net), "trial %d", trial);
            check_cut(&net, f, flow, trial);
        }
        flow_free(f);
    }
}

Test(maxflow, long_chains_and_wide_layers)
{
    enum { WIDTH = 40, DEPTH = 60 };
    Flow *f = flow_new(2 + WIDTH * DEPTH);
    uint64_t state = 7;
    int64_t ends = 0;

    for (int w = 0; w < WIDTH; w++) {
        flow_set(f, flow_add(f, 0, 2 + w), FLOW_UNLIMITED);
        int64_t last = 1 + (int64_t)chance(&state, 100);
        ends += last;
        flow_set(f, flow_add(f, 2 + w + WIDTH * (DEPTH - 1), 1), last);
        for (int d = 0; d + 1 < DEPTH; d++)
            for (int v = 0; v < WIDTH; v += 1 + WIDTH / 2)
                flow_set(f, flow_add(f, 2 + w + WIDTH * d, 2 + (w + v) % WIDTH + WIDTH * (d + 1)),
                         FLOW_UNLIMITED);
    }
    cr_expect_eq(flow_solve(f, 0, 1), ends, "only the last arcs limit the flow");
    flow_free(f);
}
