/* account.h - who holds the device arena when it is fullest, and what was decided for whom.
 *
 * Reads a plan that was checked; decides nothing. */
#ifndef TIDE_REPORT_ACCOUNT_H
#define TIDE_REPORT_ACCOUNT_H
#include "runtime/plan.h"

typedef enum AccountPart {
    PART_PARAMETERS,
    PART_GRADIENTS,
    PART_OPTIMIZER,
    PART_INPUTS,
    PART_ACTIVATIONS, /* what has a fate, and what backward needs of it */
    PART_OTHERS,      /* results that live from first write to last read: gradients of activations */
    PART_SCRATCH,
    PART_COUNT
} AccountPart;

typedef struct Holder {
    const char *tensor;
    size_t bytes;
} Holder; /* name borrowed from the program */
enum { MAX_HOLDERS = 6 };

/* Bytes at the fullest moment of the graph whose moment is fullest. */
typedef struct Account {
    size_t part[PART_COUNT];
    size_t live;       /* sum of part[]                                             */
    size_t arena;      /* size of the arena: live, and what placement could not use */
    const char *graph; /* of the fullest moment                                     */
    const char *node;  /* that runs then, or the tensor whose copy is issued then   */
    int step, n_steps;
    Holder holders[MAX_HOLDERS]; /* the largest without a home, largest first   */
    int n_holders;
} Account;
TideStatus account_make(const TideProgram *p, const TidePlan *plan, Account *out);
void account_print(const Account *a, size_t fixed_bytes, FILE *to);

/* Print what was decided for every activation; layers whose tensors, sizes and fates are equal
 * share one row. The price is what a byte costs at the moment that binds. */
TideStatus fates_print(const TideProgram *p, const TidePlan *plan, FILE *to);

/* Write the predicted timeline of every graph as a Chrome trace. TIDE_IO if it cannot. */
TideStatus trace_save(const TideProgram *p, const TidePlan *plan, const char *path);
/* The same, with the same tracks, of what was measured for each graph: see tide_run_trace(). */
TideStatus trace_save_run(TideRun *r, const char *path);

/* How long the lanes of a traced run worked. */
typedef struct LaneTimes {
    double seconds;          /* from its start to the end of the last work on any lane */
    double busy[LANE_COUNT]; /* 0 where a lane had nothing to do                       */
} LaneTimes;
TideStatus trace_lane_times(TideRun *r, int graph, LaneTimes *out);

/* Predicted seconds of a section, 0 if its timeline is not known. */
double section_seconds(const TidePlan *plan, int graph);

#endif
