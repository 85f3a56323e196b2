/* exec.h - a run: a plan with memory behind it. */
#ifndef TIDE_EXEC_H
#define TIDE_EXEC_H
#include "runtime/graph.h"
#include "runtime/plan.h"

/* A node ready to be launched at one step of a plan. */
typedef struct Launch {
    const Kernel *kernel;
    KernelCall call;
} Launch;

/* A slot whose last use is a step: what to overwrite after it, when asked to. */
typedef struct Poison {
    int step, slot;
} Poison;

/* The marks around a piece of work of a traced run. */
typedef struct WorkMarks {
    int begin, end;
    bool waited; /* its lane waited before it: begin is a mark of its own */
} WorkMarks;

typedef struct SectionRun {
    const Section *section;
    const TideGraph *graph;
    Launch *launches; /* one for each STEP_RUN                                       */
    void **pointers;  /* addresses and infos that the launches refer to               */
    int *launch_of;   /* [n_steps] index into launches                               */
    bool *written;    /* [n_slots] stage slots that tide_write() filled since the last run */
    Event *done[2];   /* by parity: the end of the newest run that used that stage copy */
    Capture *captured[2];
    Poison *poisoned; /* [n_poisoned], by step */
    int n_poisoned;
    WorkMarks *work; /* [n_steps], of runs and copies; NULL: never traced            */
    Event **marks;   /* [n_marks]                                                    */
    int n_marks;
    bool tracing, traced; /* the next run shall be; the marks are those of a run     */
    int64_t issued; /* runs so far                                                  */
    int64_t order;  /* of the newest run, among those of all sections                */
    int parity;     /* stage copy of the newest run                                 */
} SectionRun;

struct TideRun {
    const TideProgram *program;
    const TidePlan *plan;
    const Backend *be;
    Device *device;
    void *arena[SPACE_COUNT]; /* stage lies behind host, in one allocation */
    size_t host_total;        /* bytes of that allocation                  */
    Stream *lane[LANE_COUNT];
    Event **events; /* [n_events], shared by the sections: each records before it waits */
    int n_events;
    SectionRun *sections; /* [plan->n_sections] */
    int last;             /* section of the newest run */
    int64_t order;
    bool no_graph, poison;
    double copy_delay; /* seconds, at most; for tests */
    uint64_t random;
    size_t process_bytes; /* highest seen */
};

/* For tests: fill every slot with NaN when its last use is over, where all its uses are on the
 * compute lane. A lifetime bug becomes a NaN at the step where it happens. */
void tide_run_poison(TideRun *r, bool on);

/* poison.c */
TideStatus poison_prepare(const TideRun *r, SectionRun *sr);
TideStatus poison_after(TideRun *r, const SectionRun *sr, int step);

/* exec_trace.c: record the marks of a run that is issued. */
TideStatus trace_start(const TideRun *r, const SectionRun *sr);
TideStatus trace_before(const TideRun *r, const SectionRun *sr, int step);
TideStatus trace_after(const TideRun *r, const SectionRun *sr, int step);
void trace_free(const TideRun *r, SectionRun *sr);

/* Was a run of this graph traced since the last tide_run_trace()? */
bool run_was_traced(const TideRun *r, int graph);
/* When runs and copies of that run began and ended, in seconds from the start of its section; 0 for other
 * steps. periods[n_steps]. Waits. */
TideStatus run_periods(TideRun *r, int graph, Period *periods);

#endif
