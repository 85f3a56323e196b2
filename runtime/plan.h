/* plan.h - a plan is a straight-line program over memory slots.
 *
 * The planner writes it, plan_check() proves it, exec.c runs it with one loop
 * and one switch, plan_save.c and plan_load.c store it. None of them knows the others.
 * A plan has one section per graph of the program; sections share the places
 * of the persistent tensors. */
#ifndef TIDE_PLAN_H
#define TIDE_PLAN_H
#include "runtime/tide.h"

typedef enum Lane { LANE_COMPUTE, LANE_OUT, LANE_IN, LANE_COUNT } Lane;

/* SPACE_STAGE is pinned host memory through which inputs come and outputs go. The
 * executor owns two copies of it and uses them in turn, so that the host may fill one
 * while a step reads the other. */
typedef enum Space { SPACE_DEVICE, SPACE_HOST, SPACE_STAGE, SPACE_COUNT } Space;

typedef enum StepKind {
    STEP_RUN,    /* run node on slots args[first_arg ...]                   */
    STEP_COPY,   /* copy slot src to slot dst; their spaces tell the way    */
    STEP_RECORD, /* event happens when all earlier work of the lane is done */
    STEP_WAIT,   /* later work of the lane starts after event               */
    STEP_KIND_COUNT
} StepKind;

typedef struct Step {
    StepKind kind;
    Lane     lane;
    int      node;      /* STEP_RUN: index into the graph's nodes; else -1                    */
    int      first_arg; /* STEP_RUN: index into args[]; else -1. The node's n_in input slots (-1
                         * where an input is left out), n_out output slots, then its scratch
                         * slot (-1: none)                                                     */
    int      src, dst;  /* STEP_COPY: slots; else -1                                          */
    int      event;     /* STEP_RECORD, STEP_WAIT; else -1                                    */
} Step;

/* A tensor for a while at a place. A tensor that is recomputed or fetched back
 * owns several slots, one for each stay. Not stored: the lifetime of a slot is
 * from its first to its last use in steps[]; a slot of a persistent tensor lives as long as
 * holding.h says. */
typedef struct Slot {
    int    tensor; /* id in the program; 0: scratch */
    Space  space;
    size_t offset, bytes;
} Slot;

/* Where a flat persistent tensor lives, in all sections. */
typedef struct Home { int tensor; Space space; size_t offset, bytes; } Home;

/* When a step is predicted to run, from the start of the section. */
typedef struct Period { double start, end; } Period;

typedef struct Section {
    int   graph;
    Slot *slots; int n_slots;
    Step *steps; int n_steps;
    Period *spans;            /* [n_steps]: the predicted timeline; NULL: not known */
    int  *args;  int n_args;
    int   n_events;           /* each event is recorded once per section            */
} Section;

/* What was decided for an activation of the first graph, and why: all else as it is. */
typedef struct Decision {
    int      tensor;
    TideFate fate;
    double   price;      /* seconds a byte that keeping it would save; kept: that giving it up would cost */
    size_t   flip_bytes; /* of the arena at which a tensor that was given up would be kept; kept: at which
                          * it would be given up (0: not known)                                        */
    int      node;       /* that runs at the fullest moment at which it lies unused, if kept; -1: not known */
    size_t   live_bytes; /* on the device at that moment                                               */
    double   seconds[TIDE_FATE_COUNT]; /* of the micro-step under each fate; negative: it cannot have it */
} Decision;

struct TidePlan {
    uint64_t      program_hash, numerics_hash; /* refuses to run on others */
    char         *record;                      /* the choices that it was made with; NULL: none */
    size_t        arena_bytes[SPACE_COUNT];
    size_t        fixed_bytes;                 /* of the process, outside the arena; 0 if not known */
    TidePolicy    policy;
    Home         *homes;     int n_homes;
    Section      *sections;  int n_sections;
    Decision     *decisions; int n_decisions;
    TidePlanStats stats;
};

/* Free what a section owns. */
void section_free(Section *s);

extern const char *const lane_names[LANE_COUNT], *const space_names[SPACE_COUNT],
    *const step_names[STEP_KIND_COUNT], *const fate_names[TIDE_FATE_COUNT],
    *const policy_names[TIDE_POLICY_COUNT];

#endif
