/* plan.c - what every reader of a plan needs: names of its enums, its facts, its end. */
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/plan.h"

const char *const lane_names[LANE_COUNT] = { "compute", "out", "in" };
const char *const space_names[SPACE_COUNT] = { "device", "host", "stage" };
const char *const step_names[STEP_KIND_COUNT] = { "run", "copy", "record", "wait" };
const char *const fate_names[TIDE_FATE_COUNT] = { "auto", "keep", "recompute", "offload" };
const char *const policy_names[TIDE_POLICY_COUNT] = { "auto", "keep",    "recompute",
                                                      "sqrt", "offload", "offload-inputs" };

TidePlanStats tide_plan_stats(const TidePlan *plan)
{
    assert(plan);
    return plan->stats;
}

TideFate tide_plan_fate(const TidePlan *plan, TideTensor x)
{
    assert(plan);
    for (int i = 0; i < plan->n_decisions; i++)
        if (plan->decisions[i].tensor == x.id) return plan->decisions[i].fate;
    return TIDE_AUTO;
}

void section_free(Section *s)
{
    free(s->slots);
    free(s->steps);
    free(s->spans);
    free(s->args);
}

void tide_plan_free(TidePlan *plan)
{
    if (!plan) return;
    for (int i = 0; plan->sections && i < plan->n_sections; i++) section_free(&plan->sections[i]);
    free(plan->sections);
    free(plan->homes);
    free(plan->decisions);
    free(plan->record);
    free(plan);
}
