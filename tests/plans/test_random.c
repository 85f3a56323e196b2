/* test_random.c - random programs under random budgets: no plan, or a proven one with the same bits.
 *
 * Also the other way round: what the checker lets pass after a random change must still give the same
 * bits. On the fake device steps run in the order of issue, which is one of the orders that the
 * checker has to think of. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "tests/support/fake.h"
#include "tests/support/hand_plan.h"
#include "tests/support/random_graph.h"
#include "tests/support/train.h"

/* ---- Outcomes ----------------------------------------------------------------- */

static uint64_t hash_words(uint64_t h, const uint32_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++) h = (h ^ words[i]) * 0x100000001b3u;
    return h;
}

/* Write a tensor full of numbers that depend on seed: small floats, or small integers. */
static void write_made_up(TideRun *r, const TideProgram *p, TideTensor x, uint64_t seed)
{
    size_t n = tide_tensor_bytes(p, x) / 4;
    uint32_t *words = malloc(n * 4);
    uint64_t state = seed * 977 + (uint64_t)x.id;

    cr_assert(words);
    for (size_t i = 0; i < n; i++) {
        float f = (float)chance(&state, 2000) / 1000 - 1;
        words[i] = chance(&state, 100);
        if (tide_tensor_type(p, x) == TIDE_F32) memcpy(&words[i], &f, 4);
    }
    cr_assert_eq(tide_write(r, x, words, n * 4), TIDE_OK);
    free(words);
}

static uint64_t hash_tensor(TideRun *r, const TideProgram *p, TideTensor x, uint64_t h)
{
    size_t n = tide_tensor_bytes(p, x) / 4;
    uint32_t *words = malloc(n * 4);

    cr_assert(words);
    cr_assert_eq(tide_read(r, x, words, n * 4), TIDE_OK, "%s", tide_message(p->tide));
    h = hash_words(h, words, n);
    free(words);
    return h;
}

/* One hash of all outputs, gradients and parameters over three steps with an evaluation between. */
static uint64_t outcome(const TideProgram *p, const TidePlan *plan, double delay)
{
    TideRun *r;
    uint64_t h = 1;

    cr_assert_eq(tide_run_new(p, plan, &r), TIDE_OK, "%s", tide_message(p->tide));
    tide_run_delay_copies(r, delay, 7);
    for (int i = 0; i < tide_parameter_count(p); i++) write_made_up(r, p, tide_parameter_at(p, i), 5);
    for (uint64_t step = 0; step < 3; step++)
        for (int g = 2; g >= 0; g--) { /* eval, and then micro and update */
            int graph = g == 2 ? 2 : 1 - g;
            for (int id = 1; id < p->n_tensors; id++)
                if (p->tensors[id]->graph == graph && p->tensors[id]->kind == TIDE_INPUT)
                    write_made_up(r, p, (TideTensor){ id }, step);
            cr_assert_eq(tide_step(r, graph), TIDE_OK, "%s", tide_message(p->tide));
            for (int id = 1; id < p->n_tensors; id++) {
                const Tensor *t = p->tensors[id];
                bool result = t->graph == graph && t->output;
                bool gradient = graph == 0 && t->kind == TIDE_GRADIENT && t->flat &&
                                graph_producer(p->graphs[0], id) >= 0;
                bool parameter = graph == 1 && t->kind == TIDE_PARAMETER && t->flat;
                if (result || gradient || parameter) h = hash_tensor(r, p, (TideTensor){ id }, h);
            }
        }
    tide_run_free(r);
    return h;
}

/* ---- Plans of the planner -------------------------------------------------------- */

static void same_bits_under_budgets(Tide *t, RandomSpec spec, double delay, int n_budgets)
{
    TideProgram *p = random_program(t, spec);
    TidePlan *apart = hand_plan_everything(p), *keep = NULL, *plan = NULL;
    uint64_t state = spec.seed, expected = outcome(p, apart, 0);
    TideProfile *f = NULL;
    size_t least = 0;

    cr_assert_eq(tide_profile_guess(p, &f), TIDE_OK, "%s", tide_message(t));
    cr_assert_eq(tide_plan_make(p, f, (TideBudget){ 0 }, &keep, &least), TIDE_OK, "%s", tide_message(t));
    size_t most = tide_plan_stats(keep).device_bytes;
    for (int i = 0; i < n_budgets; i++) {
        TideBudget b = { .device_bytes = most / 2 + chance(&state, (uint32_t)(most / 2 + 1)),
                         .policy = (TidePolicy)chance(&state, TIDE_POLICY_COUNT) };
        TideStatus status = tide_plan_make(p, f, b, &plan, &least);
        if (status == TIDE_NO_PLAN && least > b.device_bytes) { /* and then the least it names must do */
            b.device_bytes = least;
            status = tide_plan_make(p, f, b, &plan, &least);
        }
        cr_assert_eq(status, TIDE_OK, "seed %d, policy %d, %zu bytes: %s", (int)spec.seed, (int)b.policy,
                     b.device_bytes, tide_message(t));
        cr_expect_leq(tide_plan_stats(plan).device_bytes, b.device_bytes);
        cr_expect_eq(tide_plan_check(p, plan), TIDE_OK, "%s", tide_message(t));
        cr_expect_eq(outcome(p, plan, delay), expected, "seed %d, policy %d, %zu bytes: other bits",
                     (int)spec.seed, (int)b.policy, b.device_bytes);
        tide_plan_free(plan);
    }
    tide_plan_free(keep);
    tide_plan_free(apart);
    tide_profile_free(f);
    tide_program_free(p);
}

Test(random, fake_ops_give_the_same_bits)
{
    Tide *t = fake_open();

    for (uint64_t seed = 0; seed < 100; seed++)
        same_bits_under_budgets(t, (RandomSpec){ .seed = seed, .accumulate = seed % 3 == 0 }, 0, 4);
    tide_close(t);
}

Test(random, real_ops_give_the_same_bits_under_slow_copies)
{
    Tide *t;

    cr_assert_eq(tide_open(test_device(), (TideDeviceOptions){ 0 }, &t), TIDE_OK, "%s", tide_message(t));
    for (uint64_t seed = 0; seed < 6; seed++)
        same_bits_under_budgets(t, (RandomSpec){ .seed = seed, .real = true, .accumulate = seed % 2 }, 2e-4,
                                3);
    tide_close(t);
}

/* ---- Plans that were changed ------------------------------------------------------ */

/* One random change of a section that leaves its arrays as long as they are. */
static void change(Section *s, const TideProgram *p, uint64_t *state)
{
    if (s->n_steps == 0) return;
    int i = (int)chance(state, (uint32_t)s->n_steps), j = (int)chance(state, (uint32_t)s->n_steps);
    int slot = (int)chance(state, (uint32_t)s->n_slots), other = (int)chance(state, (uint32_t)s->n_slots);
    Step *step = &s->steps[i];

    switch (chance(state, 9)) {
    case 0: hand_delete_step(s, i); break;
    case 1: { /* a step moves to its neighbour's place */
        int k = i + 1 < s->n_steps ? i + 1 : i;
        Step moved = s->steps[i];
        s->steps[i] = s->steps[k];
        s->steps[k] = moved;
        break;
    }
    case 2: s->slots[slot].offset = s->slots[other].offset; break;
    case 3: s->slots[slot].offset = 64 * chance(state, 400); break;
    case 4: s->slots[slot].tensor = (int)chance(state, (uint32_t)p->n_tensors); break;
    case 5:
        if (s->n_args) s->args[chance(state, (uint32_t)s->n_args)] = other;
        break;
    case 6:
        if (step->kind == STEP_COPY) step->src = slot;
        break;
    case 7:
        if (step->kind == STEP_RUN && s->steps[j].kind == STEP_RUN) *step = s->steps[j];
        break;
    default:
        if (step->kind != STEP_RUN) step->lane = (Lane)chance(state, LANE_COUNT);
        break;
    }
}

Test(random, what_passes_after_a_change_gives_the_same_bits)
{
    Tide *t = fake_open();
    int passed = 0, refused = 0;

    for (uint64_t seed = 0; seed < 60; seed++) {
        TideProgram *p = random_program(t, (RandomSpec){ .seed = seed, .layers = 3, .width = 3 });
        TideProfile *f = NULL;
        TidePlan *good = NULL;
        size_t least = 0;
        uint64_t state = seed;
        cr_assert_eq(tide_profile_guess(p, &f), TIDE_OK);
        TideBudget b = { .policy = (TidePolicy)(seed % TIDE_POLICY_COUNT) };
        cr_assert_eq(tide_plan_make(p, f, b, &good, &least), TIDE_OK, "%s", tide_message(t));
        uint64_t expected = outcome(p, good, 0);
        for (int i = 0; i < 200; i++) {
            TidePlan *plan = hand_plan_copy(good);
            for (uint32_t n = 1 + chance(&state, 2); n > 0; n--)
                change(&plan->sections[chance(&state, 3)], p, &state);
            if (tide_plan_check(p, plan) == TIDE_OK) {
                passed++;
                cr_expect_eq(outcome(p, plan, 0), expected, "seed %d, change %d passes with other bits",
                             (int)seed, i);
            } else {
                refused++;
            }
            tide_plan_free(plan);
        }
        tide_plan_free(good);
        tide_profile_free(f);
        tide_program_free(p);
    }
    cr_log_info("%d changed plans passed, %d were refused", passed, refused);
    cr_expect(passed > 100 && refused > 5000, "%d passed, %d refused", passed, refused);
    tide_close(t);
}
