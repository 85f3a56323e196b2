/* report.h - what a session planned, as JSON and in words. */
#ifndef TIDE_EXAMPLES_REPORT_H
#define TIDE_EXAMPLES_REPORT_H
#include <stdio.h>
#include "examples/output.h"
#include "examples/session.h"

/* A step is all micro-steps of an update and the update; the statistics of a plan are those of one
 * micro-step. */
double step_seconds(const Session *s);
double plan_step_seconds(const Session *s, const TidePlan *plan);
/* What is proven for a micro-step, as for the step; the update has no choice. */
double plan_step_bound(const Session *s, const TidePlan *plan, double micro);

/* Everything that `tide plan --json` says. A new reference. */
json_t *plan_json(const Session *s);
/* One line on the model and device, one on the budget. */
void plan_headline(const Session *s, FILE *to);
/* Predicted times, traffic, and what keep-everything would take. */
void plan_summary(const Session *s, FILE *to);

#endif
