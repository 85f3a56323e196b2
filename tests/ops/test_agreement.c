/* test_agreement.c - every op that memory binds, on the device of TIDE_TEST_DEVICE against the CPU's kernels,
 * in all its types and at odd sizes. On the CPU device that compares lanes and launches with the
 * plain interpreter; CTest runs it on a GPU where there is one. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <string.h>
#include "tests/support/agreement.h"
#include "tests/support/train.h"

enum { MOST_CASES = 64, CPU_SIZES = 4 }; /* the CPU's kernels have tests of their own */

ParameterizedTestParameters(agreement, ops)
{
    static int row[MOST_CASES];
    size_t n = 0;

    for (; n < MOST_CASES && agree_case((int)n); n++) row[n] = (int)n;
    return cr_make_param_array(int, row, n);
}

ParameterizedTest(int *row, agreement, ops)
{
    const AgreeCase *c = agree_case(*row);
    Tide *t = NULL;
    char why[512] = "";

    cr_assert(!tide_open(test_device(), (TideDeviceOptions){ 0 }, &t), "%s", tide_message(t));
    for (int k = 0; agree_types(k); k++) {
        if (!(t->backend->types & 1u << agree_types(k)->type)) continue;
        for (int i = 0; agree_sizes(i) && (i < CPU_SIZES || strcmp(test_device(), "cpu") != 0); i++) {
            const int64_t *n = agree_sizes(i);
            cr_expect(agree(t, c, agree_types(k), n, NULL, why), "%s, %s, B %d T %d C %d V %d: %s", c->name,
                      agree_types(k)->name, (int)n[0], (int)n[1], (int)n[2], (int)n[3], why);
        }
    }
    tide_close(t);
}

/* Writers of a tensor, `again` nodes left out. */
static int writers(const Side *s, const char *name)
{
    int id = tide_tensor_find(s->p, NULL, name).id, n = 0;

    if (!id) id = tide_tensor_find(s->p, s->g, name).id;
    for (int i = 0; i < s->g->n_nodes; i++)
        for (int o = 0; o < s->g->nodes[i]->n_out; o++) n += s->g->nodes[i]->out[o].id == id;
    return n;
}

/* Built on the CPU device, which could not run it. */
Test(agreement, a_narrow_gradient_of_several_nodes_is_summed_in_f32)
{
    const int64_t size[SIDE_SIZES] = { 1, 4, 16, 8 };
    Side s = { .type = TIDE_BF16, .grad = TIDE_BF16, .state = TIDE_F32, .size = size };
    Tide *t = NULL;
    const AgreeCase *c = NULL;

    for (int i = 0; agree_case(i); i++)
        if (strcmp(agree_case(i)->name, "embedding_shared") == 0) c = agree_case(i);
    cr_assert(c && !tide_open("cpu", (TideDeviceOptions){ 0 }, &t));
    side_new(&s, t);
    c->build(&s);
    cr_assert_eq(s.p->status, TIDE_OK, "%s", s.p->mistake);
    TideTensor sum = tide_tensor_find(s.p, s.g, "table.gradient.sum");
    cr_assert(sum.id);
    cr_expect_eq(tide_tensor_type(s.p, sum), TIDE_F32);
    cr_expect_eq(writers(&s, "table.gradient.sum"), 3);
    cr_expect_eq(writers(&s, "table.gradient"), 1);
    const Node *last = s.g->nodes[s.g->n_nodes - 1];
    cr_expect_str_eq(last->op->name, "cast");
    cr_expect_eq(last->in[0].id, sum.id);
    const Node *first = s.g->nodes[graph_producer(s.g, sum.id)];
    for (int i = 0; i < first->n_in; i++)
        cr_expect_neq(first->in[i].id, sum.id, "the first one adds to nothing");
    side_free(&s);
    tide_close(t);
}

Test(agreement, narrow_types_round_to_nearest_and_back)
{
    const float from[] = { 1.0f,     1.00390625f, 1.01171875f, -65504.0f, 65519.0f,
                           65520.0f, 0x1p-24f,    0x1.8p-25f,  3e-8f };
    const float bf16[] = { 1.0f,     1.0f,     1.015625f,  -65536.0f,  65536.0f,
                           65536.0f, 0x1p-24f, 0x1.8p-25f, 0x1.02p-25f };
    const float f16[] = { 1.0f,     1.00390625f, 1.01171875f, -65504.0f, 65504.0f,
                          INFINITY, 0x1p-24f,    0x1p-24f,    0x1p-24f };
    enum { N = sizeof from / sizeof *from };
    uint16_t half[N];
    float back[N];

    tide_narrow(TIDE_BF16, from, N, half);
    tide_widen(TIDE_BF16, half, N, back);
    for (int i = 0; i < N; i++)
        cr_expect(back[i] == bf16[i], "%a became %a, not %a", from[i], back[i], bf16[i]);
    tide_narrow(TIDE_F16, from, N, half);
    tide_widen(TIDE_F16, half, N, back);
    for (int i = 0; i < N; i++)
        cr_expect(back[i] == f16[i], "%a became %a, not %a", from[i], back[i], f16[i]);
}
