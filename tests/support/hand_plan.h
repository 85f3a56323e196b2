/* hand_plan.h - plans put together step by step, without a planner.
 *
 * Sections grow as slots and steps are added; everything is freed by tide_plan_free(). */
#ifndef TIDE_TEST_HAND_PLAN_H
#define TIDE_TEST_HAND_PLAN_H
#include "runtime/graph.h"
#include "runtime/plan.h"

/* A plan with the program's hashes and graphs, homes one behind the other, and empty sections. */
TidePlan *hand_plan_new(const TideProgram *p);

/* Each returns the index of what it added. Arenas grow to hold the slots. */
int hand_slot(TidePlan *plan, int section, Slot slot);
int hand_run(TidePlan *plan, int section, int node, const int *slots, int n);
int hand_copy(TidePlan *plan, int section, Lane lane, int src, int dst);
int hand_record(TidePlan *plan, int section, Lane lane); /* of the next event; returns the event */
int hand_wait(TidePlan *plan, int section, Lane lane, int event);

/* Add predicted times, decisions and stats of made-up values, so that files have all there is. */
bool hand_decorate(TidePlan *plan);

/* Everything in a place of its own: inputs come, every node runs once in the graph's order,
 * outputs go. */
TidePlan *hand_plan_everything(const TideProgram *p);

/* A copy of a plan, and the same without one step. */
TidePlan *hand_plan_copy(const TidePlan *plan);
void hand_delete_step(Section *s, int step);

#endif
