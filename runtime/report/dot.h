/* dot.h - a graph and the fates of a plan as a picture. */
#ifndef TIDE_REPORT_DOT_H
#define TIDE_REPORT_DOT_H
#include "runtime/plan.h"

/* Write the first graph of a program for Graphviz: a box a node, an arrow from who writes a tensor to who
 * reads it, coloured by what the plan decided for it. TIDE_IO if the file cannot be written. */
TideStatus dot_save(const TideProgram *p, const TidePlan *plan, const char *path);

#endif
