/* planner.h - one planner holds what the plans of one program under several budgets share. */
#ifndef TIDE_PLANNER_H
#define TIDE_PLANNER_H
#include "runtime/bound.h"
#include "runtime/layout.h"
#include "runtime/plan.h"
#include "runtime/search.h"

/* Placing stops within 1/128 of the live bytes where no budget says more. */
enum { SLACK = 128 };

/* Decisions for the first graph that fit a budget, with all that placing them once more needs. */
typedef struct Solution {
    TideFate *fates;      /* [n_tensors] of the first problem */
    size_t    live_limit; /* given to evaluate()              */
    size_t    enough;     /* given to layout_place()          */
    size_t    live;       /* most live bytes of the first graph */
    size_t    height;     /* of the first graph               */
    size_t    host_bytes; /* for its offloaded tensors        */
    double    seconds;    /* of its section as emitted        */
    bool      found;
} Solution;

typedef struct GraphWork {
    const TideGraph *graph;
    Problem         *problem;
    Facts           *facts;
    Evaluator       *evaluator;
    Layout          *layout;
} GraphWork;

typedef struct Planner {
    const TideProgram *program;
    const TideProfile *profile;
    TideBudget         budget;
    size_t             device_limit, host_limit; /* of the arena; of offloaded bytes               */
    GraphWork         *work;        /* [n_graphs]                                                  */
    int                n_graphs;
    size_t            *homes;       /* by tensor id: offset of a flat; SIZE_MAX                    */
    size_t             static_bytes, stage_bytes;
    size_t             others;      /* height of the highest of the other graphs                   */
    int                highest;     /* that graph; 0: none                                         */
    LeastBytes         bound;       /* no plan takes less                                          */
    int                bound_graph; /* because of this graph                                       */
    Solution           keep, least; /* with no limit; as low as could be found                     */
    Pool               pool;
} Planner;

/* Describe the program under a budget. */
TideStatus planner_open(const TideProgram *p, const TideProfile *f, TideBudget b, Planner **out);
void       planner_close(Planner *pl);
void       planner_set_budget(Planner *pl, TideBudget b);

/* The best solution for the planner's budget; *out->found is false if there is none. also (NULL: none)
 * is a solution known from elsewhere that is taken if it fits and nothing is faster. */
TideStatus planner_solve(Planner *pl, const Solution *also, Solution *out);
/* Fill pl->keep, pl->least and pl->bound. */
TideStatus planner_find_extremes(Planner *pl);
/* Raise pl->bound to what one graph proves. */
TideStatus planner_note_bound(Planner *pl, int graph);
/* Schedule and place graph 0 as the solution says, ready to be emitted. */
TideStatus planner_apply(Planner *pl, const Solution *s);

/* Write what was decided for each tensor with a choice, its price and the moment that binds, into the plan.
 * Evaluates other fates, so it comes after the sections were emitted. */
TideStatus planner_write_decisions(Planner *pl, const Solution *s, TidePlan *plan);

#endif
