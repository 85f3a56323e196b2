/* session.h - from options to a device, a model, a profile and a checked plan.
 *
 * What `tide plan` and `tide train` share. Every function returns an exit code and has said on
 * stderr what is wrong; everything it finds is found before the first step. */
#ifndef TIDE_EXAMPLES_SESSION_H
#define TIDE_EXAMPLES_SESSION_H
#include "examples/options.h"
#include "models/model.h"
#include "runtime/plan.h"

typedef struct Session {
    const Options *options;
    Tide *tide;
    const char *files;    /* the folder or file that --model names; NULL: a preset               */
    Model *model;         /* NULL: a graph file, which can only be planned                       */
    TideProgram *program; /* the model's, or that of the graph file                              */
    TideGraph *micro;     /* graph 0: its activations have fates                                 */
    TideProfile *profile; /* NULL: the plan came from a file and nothing else needed one */
    TidePlan *plan;
    TidePlanStats stats;
    char device[32];
    TideBudget budget;    /* of the arena; what the plan was asked for                   */
    size_t budget_bytes;  /* of the process; 0: no limit                                 */
    size_t default_bytes; /* what is free or ours less the margin; 0: not known          */
    size_t fixed_bytes;   /* of the process, outside the arena                           */
    size_t static_bytes;  /* fixed, persistent tensors, inputs                           */
    bool limited;         /* budget_bytes, default_bytes and budget are known            */
} Session;

/* Open the device, build the model (or read the graph file) and tie the planner's hands as --force says. */
int session_open(const Options *o, Session *out);
/* Time a program's operations and the device's copies. */
TideStatus session_measure(const TideProgram *p, TideProfile **out);
/* Find what the budget of the command line is, where that does not depend on a plan. */
int session_limits(Session *s);
/* What the session's budget leaves for the arena beside fixed bytes of the process. */
TideBudget session_arena(const Session *s, size_t fixed_bytes);
/* Measure or load the session's profile unless it has one. */
TideStatus session_profile(Session *s);
/* Measure or load a profile, find the budget, plan and prove. */
int session_plan(Session *s);
void session_close(Session *s);

/* Make a plan for another budget or policy with the session's profile. */
TideStatus session_replan(Session *s, TideBudget budget, TidePlan **out);

/* Micro-steps of an update. */
int session_accum(const Session *s);

/* Say what a call of the library left as its message; the exit code for its status. */
int session_fail(const Session *s, TideStatus status);

#endif
