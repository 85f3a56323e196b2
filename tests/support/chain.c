/* chain.c - see chain.h. */
#include "tests/support/chain.h"
#include "tests/support/fake.h"
#include "tests/support/hand_plan.h"

enum { ELEMENTS = 256, BYTES = 1024 };

TideProgram *chain_program(Tide *t)
{
    TideProgram *p = tide_program_new(t);
    TideGraph *g = tide_graph_new(p, "chain");
    FakeAttr attr = { .elements = ELEMENTS };
    const char *names[] = { "a", "b", "c", "d", "e" };
    TideTensor x[6] = { tide_input(g, "x", TIDE_F32, (TideShape){ 1, { ELEMENTS } }) };

    for (int i = 0; i < 5; i++) {
        TideTensor in[2] = { x[i], x[1] };
        x[i + 1] = tide_name(g, fake_mix(g, in, i == 4 ? 2 : 1, attr), names[i]);
    }
    TideTensor in[2] = { x[5], x[2] };
    tide_output(g, tide_name(g, fake_over(g, in, 2, (FakeAttr){ 0 }), "f"));
    return p;
}

/* Where each slot lies, in its order; tensors x a b c d e f have the ids 1 to 7. */
static void add_slots(TidePlan *plan)
{
    static const Slot slots[CHAIN_SLOTS] = {
        [CHAIN_X] = { 1, SPACE_DEVICE, 0, BYTES },         [CHAIN_A] = { 2, SPACE_DEVICE, BYTES, BYTES },
        [CHAIN_B] = { 3, SPACE_DEVICE, 2 * BYTES, BYTES }, [CHAIN_C] = { 4, SPACE_DEVICE, BYTES, BYTES },
        [CHAIN_D] = { 5, SPACE_DEVICE, 2 * BYTES, BYTES }, [CHAIN_A2] = { 2, SPACE_DEVICE, 3 * BYTES, BYTES },
        [CHAIN_E] = { 6, SPACE_DEVICE, BYTES, BYTES },     [CHAIN_B2] = { 3, SPACE_DEVICE, 2 * BYTES, BYTES },
        [CHAIN_F] = { 7, SPACE_DEVICE, BYTES, BYTES },     [CHAIN_AH] = { 2, SPACE_HOST, 0, BYTES },
        [CHAIN_XS] = { 1, SPACE_STAGE, 0, BYTES },         [CHAIN_FS] = { 7, SPACE_STAGE, BYTES, BYTES },
    };

    for (int i = 0; i < CHAIN_SLOTS; i++) hand_slot(plan, 0, slots[i]);
}

static void run(TidePlan *plan, int node, int in0, int in1, int out)
{
    int args[4] = { in0 }, n = 1;

    if (in1 >= 0) args[n++] = in1;
    args[n++] = out;
    args[n++] = -1;
    hand_run(plan, 0, node, args, n);
}

TidePlan *chain_plan(const TideProgram *p)
{
    TidePlan *plan = hand_plan_new(p);

    add_slots(plan);
    hand_wait(plan, 0, LANE_IN, hand_record(plan, 0, LANE_COMPUTE)); /* steps 0, 1 */
    hand_copy(plan, 0, LANE_IN, CHAIN_XS, CHAIN_X);
    hand_wait(plan, 0, LANE_COMPUTE, hand_record(plan, 0, LANE_IN)); /* steps 3, 4 */
    run(plan, 0, CHAIN_X, -1, CHAIN_A);
    hand_wait(plan, 0, LANE_OUT, hand_record(plan, 0, LANE_COMPUTE)); /* steps 6, 7 */
    hand_copy(plan, 0, LANE_OUT, CHAIN_A, CHAIN_AH);
    int left = hand_record(plan, 0, LANE_OUT); /* step 9 */
    run(plan, 1, CHAIN_A, -1, CHAIN_B);
    hand_wait(plan, 0, LANE_COMPUTE, left); /* step 11: c overwrites a */
    run(plan, 2, CHAIN_B, -1, CHAIN_C);
    hand_wait(plan, 0, LANE_IN, left); /* step 13: a is on the host */
    hand_copy(plan, 0, LANE_IN, CHAIN_AH, CHAIN_A2);
    int back = hand_record(plan, 0, LANE_IN); /* step 15 */
    run(plan, 3, CHAIN_C, -1, CHAIN_D);
    hand_wait(plan, 0, LANE_COMPUTE, back); /* step 17 */
    run(plan, 4, CHAIN_D, CHAIN_A2, CHAIN_E);
    run(plan, 1, CHAIN_A2, -1, CHAIN_B2); /* step 19: b again */
    run(plan, 5, CHAIN_E, CHAIN_B2, CHAIN_F);
    hand_wait(plan, 0, LANE_OUT, hand_record(plan, 0, LANE_COMPUTE)); /* steps 21, 22 */
    hand_copy(plan, 0, LANE_OUT, CHAIN_F, CHAIN_FS);
    hand_wait(plan, 0, LANE_COMPUTE, hand_record(plan, 0, LANE_OUT)); /* steps 24, 25 */
    return plan;
}
