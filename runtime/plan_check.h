/* plan_check.h - the working state of a proof, shared by the files of the checker.
 *
 * The checker is written without knowing how plans are made, and believes nothing
 * that a plan says: no index, no size, no order. The graph it believes. */
#ifndef TIDE_PLAN_CHECK_H
#define TIDE_PLAN_CHECK_H
#include "runtime/graph.h"
#include "runtime/plan.h"

enum { NONE = -1 }; /* no step, no slot, no content */

/* For each lane, how many of its steps of this section are known to be over. */
typedef struct Clock {
    int done[LANE_COUNT];
} Clock;

/* What happened to a slot so far. Steps are NONE where there is none. */
typedef struct Use {
    int first[LANE_COUNT], last[LANE_COUNT]; /* steps of each lane that touch it      */
    int write;                               /* the newest step that wrote it         */
    int read[LANE_COUNT];                    /* newest reads since that write         */
    int version;                             /* what it holds; NONE: nothing of value */
} Use;

/* How one graph treats a tensor. Nodes are NONE where there is none. */
typedef struct Fact {
    int first_in, first_out; /* the first nodes that read it, that write it            */
    int writes;              /* how often it is written, `again` aside: its last version */
    bool live_in, live_out;  /* persistent: holds something before, after the graph    */
} Fact;

/* Views of a flat persistent tensor, in order of offset. */
typedef struct Flat {
    int tensor;
    int first, n;
} Flat;

typedef struct Proof {
    const TideProgram *program;
    const TidePlan *plan;
    /* of the whole plan */
    int *home_of; /* [n_tensors] by flat tensor: index into plan->homes, or NONE           */
    Flat *flats;  /* [n_flats]                                                             */
    int n_flats;
    int *views; /* [n_tensors]: ids of views, grouped by flat                            */
    /* of the section that is being proven */
    const Section *section;
    const TideGraph *graph;
    Fact *fact;     /* [n_tensors] what the graph says about each tensor                    */
    int *wanted;    /* version of each input, then output, of each node in the graph's order */
    int *wanted_at; /* [n_nodes] where a node's versions start in wanted                   */
    int *home;      /* [n_tensors] the slot at the home of a persistent tensor, or NONE     */
    int *stage;     /* [n_tensors] the slot in the staging memory, or NONE                  */
    int *runs;      /* [n_nodes]                                                            */
    Clock *clock;   /* [n_steps] what each step knows when it ends                          */
    int *rank;      /* [n_steps] position of a step in its lane, from 1                     */
    Clock end;      /* what the compute lane knows at the end                       */
    Use *use;       /* [n_slots]                                                            */
} Proof;

/* A short text by value, so that messages need no buffers of their own. */
typedef struct Text {
    char s[192];
} Text;
Text slot_text(const Proof *pr, int slot);
Text step_text(const Proof *pr, int step);

/* Refuse the plan for what follows; the section is named before it. */
TideStatus proof_refuse(const Proof *pr, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Is step a over before step b starts, whatever the lanes' speeds? */
bool proof_before(const Proof *pr, int a, int b);

/* May node n run no more than once? */
bool proof_runs_once(const Proof *pr, const Node *n);

/* plan_check_graph.c: fill fact, wanted and wanted_at of the section's graph; carried: [n_tensors]. */
void proof_read_graph(Proof *pr, const bool *carried);
/* Which persistent tensors keep something from one run of a graph to the next: all but gradients, and
 * those gradients that some graph reads first and writes, or that no graph writes (zeros for good).
 * fact: [n_tensors] of room; carried: [n_tensors] of false. */
void proof_find_carried(const TideProgram *p, Fact *fact, bool *carried);

/* The chapters of the proof of a section, in this order; each demands that those before it passed. */
TideStatus proof_structure(Proof *pr); /* indices, sizes, arities, lanes                   */
TideStatus proof_order(Proof *pr);     /* events, clocks; copy lanes open              */
TideStatus proof_meaning(Proof *pr);   /* every read finds the right tensor and version    */
TideStatus proof_bytes(Proof *pr);     /* no two things share bytes at one time            */
TideStatus proof_end(const Proof *pr); /* the compute lane waits for all others        */

#endif
