/* test_plan_wrong.c - one thing wrong in a good plan: it is refused, and the message names it. */
#include <criterion/criterion.h>
#include <string.h>
#include "tests/support/chain.h"
#include "tests/support/fake.h"
#include "tests/support/hand_plan.h"

/* What of the plan of chain.h is changed: of slot or step i, or of argument i % 10 of step i / 10. */
typedef enum Field {
    GRAPH,
    N_SLOTS,
    N_EVENTS,
    ARENA,
    TENSOR,
    SPACE,
    OFFSET,
    BYTES,
    KIND,
    LANE,
    NODE,
    FIRST_ARG,
    SRC,
    DST,
    EVENT,
    ARG,
    SWAP, /* exchange steps i / 100 and i % 100 */
} Field;

typedef struct Wrong {
    const char *name;
    Field field;
    int i;
    int64_t to;
    const char *words[3]; /* that the message must have */
} Wrong;

static void swap_steps(Section *s, int a, int b)
{
    Step x = s->steps[a];

    s->steps[a] = s->steps[b];
    s->steps[b] = x;
}

static void change_step(Section *s, Field field, int i, int to)
{
    Step *st = &s->steps[field == ARG ? i / 10 : i];

    switch (field) {
    case KIND: st->kind = (StepKind)to; break;
    case LANE: st->lane = (Lane)to; break;
    case NODE: st->node = to; break;
    case FIRST_ARG: st->first_arg = to; break;
    case SRC: st->src = to; break;
    case DST: st->dst = to; break;
    case EVENT: st->event = to; break;
    case ARG: s->args[st->first_arg + i % 10] = to; break;
    default: cr_assert(false, "field %d", (int)field);
    }
}

static void change(TidePlan *plan, Field field, int i, int64_t to)
{
    Section *s = &plan->sections[0];

    switch (field) {
    case GRAPH: s->graph = (int)to; break;
    case N_SLOTS: s->n_slots = (int)to; break;
    case N_EVENTS: s->n_events = (int)to; break;
    case ARENA: plan->arena_bytes[i] = (size_t)to; break;
    case TENSOR: s->slots[i].tensor = (int)to; break;
    case SPACE: s->slots[i].space = (Space)to; break;
    case OFFSET: s->slots[i].offset = (size_t)to; break;
    case BYTES: s->slots[i].bytes = (size_t)to; break;
    case SWAP: swap_steps(s, i / 100, i % 100); break;
    default: change_step(s, field, i, (int)to);
    }
}

/* clang-format off */
static const Wrong wrongs[] = {
    { "section of no graph", GRAPH, 0, 7, { "graph 7" } },
    { "slots negative", N_SLOTS, 0, -1, { "-1 slots" } },
    { "events more than steps", N_EVENTS, 0, INT32_MAX, { "2147483647 events", "26 steps" } },
    { "event never recorded", N_EVENTS, 0, 8, { "event 7 of 8 is never recorded" } },
    { "arena too small", ARENA, SPACE_DEVICE, 4095, { "slot 5", "4095" } },
    { "host arena too small", ARENA, SPACE_HOST, 512, { "slot 9", "host", "512" } },
    { "stage arena missing", ARENA, SPACE_STAGE, 0, { "slot 10", "stage" } },
    { "tensor too high", TENSOR, CHAIN_B, 8, { "slot 2 holds tensor 8", "1 to 7" } },
    { "tensor negative", TENSOR, CHAIN_B, -1, { "slot 2 holds tensor -1" } },
    { "slot of another tensor", TENSOR, CHAIN_B, 4, { "step 10 (run b", "tensor 3 (b)", "slot 2 (c" } },
    { "slot of scratch", TENSOR, CHAIN_B, 0, { "step 10 (run b", "tensor 3 (b)", "slot 2 (scratch" } },
    { "space unknown", SPACE, CHAIN_B, 3, { "slot 2 lies in space 3" } },
    { "space negative", SPACE, CHAIN_B, -1, { "slot 2 lies in space -1" } },
    { "stage of an activation", SPACE, CHAIN_AH, SPACE_STAGE, { "slot 9", "neither an input nor" } },
    { "slot unaligned", OFFSET, CHAIN_A, 1056, { "slot 1 (a, 1024 bytes at 1056", "multiple of 64" } },
    { "slot beyond the end", OFFSET, CHAIN_A2, 3136, { "slot 5", "leaves its arena of 4096" } },
    { "offset wraps", OFFSET, CHAIN_C, -64, { "slot 3", "leaves its arena" } },
    { "over a live tensor", OFFSET, CHAIN_A, 2048, { "slot 1 (a", "slot 2 (b", "share 1024 bytes at 2048" } },
    { "half over a live tensor", OFFSET, CHAIN_A, 1536, { "slot 1 (a", "slot 2 (b", "512 bytes at 2048" } },
    { "over the wrong input", OFFSET, CHAIN_F, 2048, { "slot 7 (b", "slot 8 (f", "share 1024 bytes" } },
    { "in place, shifted", OFFSET, CHAIN_F, 1088, { "slot 6 (e", "slot 8 (f", "share 960 bytes at 1088" } },
    { "fetched too early", OFFSET, CHAIN_A2, 2048, { "slot 2 (b", "slot 5 (a", "not over before step 14" } },
    { "stage shared", OFFSET, CHAIN_FS, 0, { "slot 10 (x", "slot 11 (f", "share 1024 bytes at 0 of stage" } },
    { "slot too small", BYTES, CHAIN_D, 960, { "slot 4 (d, 960 bytes", "1024 bytes" } },
    { "slot of nothing", BYTES, CHAIN_D, 0, { "slot 4 (d, 0 bytes", "1024 bytes" } },
    { "bytes wrap", BYTES, CHAIN_C, -1000, { "slot 3", "leaves its arena" } },
    { "kind unknown", KIND, 8, STEP_KIND_COUNT, { "step 8 is of kind 4" } },
    { "kind negative", KIND, 8, -1, { "step 8 is of kind -1" } },
    { "lane unknown", LANE, 8, LANE_COUNT, { "step 8 (copy) is on lane 3" } },
    { "run on a copy lane", LANE, 12, LANE_IN, { "step 12 (run c, in)", "compute lane" } },
    { "copy on another lane", LANE, 8, LANE_IN, { "step 8 (copy a", "without waiting for step 5 (run a" } },
    { "node unknown", NODE, 5, 6, { "step 5 runs node 6 of 6" } },
    { "node negative", NODE, 5, -1, { "step 5 runs node -1" } },
    { "another node", NODE, 5, 1, { "step 5 (run b", "tensor 2 (a)", "slot 0 (x" } },
    { "arguments beyond", FIRST_ARG, 20, 22, { "step 20 (run f", "4 arguments from 22 on" } },
    { "arguments negative", FIRST_ARG, 20, -1, { "step 20 (run f", "from -1" } },
    { "arguments huge", FIRST_ARG, 20, INT32_MAX, { "step 20 (run f", "from 2147483647" } },
    { "copy from beyond", SRC, 8, 12, { "step 8 copies slot 12" } },
    { "copy from negative", SRC, 8, -1, { "step 8 copies slot -1" } },
    { "copy of another tensor", SRC, 8, CHAIN_B, { "step 8", "slot 2 (b", "slot 9 (a" } },
    { "copy to beyond", DST, 8, 1 << 30, { "to slot 1073741824 of 12" } },
    { "copy within the device", DST, 8, CHAIN_A2, { "step 8", "between the device and the host" } },
    { "event unknown", EVENT, 7, 7, { "step 7 (wait) names event 7 of 7" } },
    { "event negative", EVENT, 7, -1, { "step 7 (wait) names event -1" } },
    { "event recorded twice", EVENT, 15, 3, { "step 15", "step 9 recorded already" } },
    { "wait for another event", EVENT, 17, 0, { "step 18 (run e", "without waiting for step 14" } },
    { "wrong tensor", ARG, 181, CHAIN_C, { "step 18 (run e", "tensor 2 (a)", "slot 3 (c" } },
    { "overwritten tensor", ARG, 181, CHAIN_A, { "slot 1 (a", "share 1024 bytes", "is not over before" } },
    { "read before written", ARG, 100, CHAIN_A2, { "step 10 (run b", "slot 5 (a", "before anything" } },
    { "argument beyond", ARG, 121, 12, { "step 12 (run c", "slot 12 of 12" } },
    { "argument negative", ARG, 120, -2, { "step 12 (run c", "slot -2" } },
    { "input left out", ARG, 120, -1, { "step 12 (run c", "slot -1" } },
    { "scratch holds a tensor", ARG, 122, CHAIN_A2, { "step 12 (run c", "slot 5 (a", "scratch" } },
    { "run on the host", ARG, 181, CHAIN_AH, { "step 18 (run e", "slot 9", "not on the device" } },
    { "wait before its record", SWAP, 607, 0, { "step 6 (wait event 2, out)", "before the event" } },
    { "nodes out of order", SWAP, 1216, 0, { "step 12 (run d", "slot 3 (c", "before anything" } },
    { "overwritten too early", SWAP, 1112, 0, { "slot 1 (a", "slot 3 (c", "step 8 (copy a" } },
};
/* clang-format on */

Test(plan_wrong, each_is_named)
{
    Tide *t = fake_open();
    TideProgram *p = chain_program(t);
    TidePlan *good = chain_plan(p);

    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const Wrong *w = &wrongs[i];
        TidePlan *plan = hand_plan_copy(good);
        change(plan, w->field, w->i, w->to);
        cr_expect_eq(tide_plan_check(p, plan), TIDE_BAD_FILE, "%s: the plan passes", w->name);
        for (int k = 0; k < 3 && w->words[k]; k++)
            cr_expect(strstr(tide_message(t), w->words[k]), "%s: no '%s' in: %s", w->name, w->words[k],
                      tide_message(t));
        tide_plan_free(plan);
    }
    tide_plan_free(good);
    tide_program_free(p);
    tide_close(t);
}

static void expect(TideProgram *p, TidePlan *plan, const char *word)
{
    const char *message = tide_message(tide_program_device(p));

    cr_expect_eq(tide_plan_check(p, plan), TIDE_BAD_FILE, "passes though: %s", word);
    cr_expect(strstr(message, word), "no '%s' in: %s", word, message);
}

Test(plan_wrong, the_whole_plan)
{
    Tide *t = fake_open();
    TideProgram *p = chain_program(t);
    TidePlan *plan = chain_plan(p);
    Section *s = plan->sections;

    plan->program_hash ^= 1;
    expect(p, plan, "made for program");
    plan->program_hash ^= 1;
    plan->numerics_hash ^= 1;
    expect(p, plan, "made for numerics");
    plan->numerics_hash ^= 1;
    plan->n_sections = 0;
    expect(p, plan, "0 sections, but the program has 1");
    plan->n_sections = 1;
    Slot saved = s->slots[CHAIN_FS];
    s->slots[CHAIN_FS] = s->slots[CHAIN_XS];
    expect(p, plan, "slot 10 are both in staging memory");
    s->slots[CHAIN_FS] = saved;
    cr_assert(hand_decorate(plan));
    plan->decisions[1].tensor = 99;
    expect(p, plan, "decision 1 is about tensor 99");
    plan->decisions[1].tensor = 1;
    plan->decisions[1].fate = TIDE_FATE_COUNT;
    expect(p, plan, "decision 1 is fate 4");
    plan->decisions[1].fate = TIDE_KEEP;
    cr_expect_eq(tide_plan_check(p, plan), TIDE_OK, "%s", tide_message(t));
    tide_plan_free(plan);
    tide_program_free(p);
    tide_close(t);
}
