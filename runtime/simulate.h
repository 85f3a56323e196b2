/* simulate.h - when work on three lanes runs.
 *
 * A lane runs its tasks in order, one at a time. A task starts when its lane is free and enough
 * tasks of the other lanes are over. Copies wait the link's latency, then move bytes at the speed of
 * their direction, which drops while the other direction moves bytes, too. */
#ifndef TIDE_SIMULATE_H
#define TIDE_SIMULATE_H
#include "runtime/plan.h"
#include "runtime/problem.h"

typedef struct Task {
    double seconds;            /* of its own: a run, or the latency of a copy              */
    double bytes;              /* moved after that; 0 on the compute lane                   */
    int    after[LANE_COUNT];  /* how many tasks of each lane must be over before it starts */
    double start, end;         /* what simulate() finds                                     */
} Task;

typedef struct Timeline {
    Task *tasks[LANE_COUNT]; /* in the order of each lane */
    int   n_tasks[LANE_COUNT];
    Link  link;
    double origin;           /* when the compute lane starts */
} Timeline;

/* Find start and end of every task. Returns when the last one ends. The demands must not be
 * circular: then every task runs. */
double simulate(Timeline *t);

#endif
