/* liveness.h - what holds for a problem whatever is decided: order, uses, and who has a choice. */
#ifndef TIDE_LIVENESS_H
#define TIDE_LIVENESS_H
#include "runtime/pool.h"
#include "runtime/problem.h"

enum { NO_NODE = -1 };

/* How a tensor is used in the problem's own order; nodes `again` do not count. */
typedef struct Uses {
    int  writers;        /* nodes that write it                                            */
    int  first, last;    /* first and last node that reads or writes it; NO_NODE           */
    int  last_forward;   /* last such node before the turn; NO_NODE                        */
    int  first_backward; /* first such node from the turn on; NO_NODE                      */
    bool choice;         /* it has a fate: made before the turn, used after it             */
    bool can_recompute, can_offload;
} Uses;

typedef struct Facts {
    const Problem *problem;
    Uses          *uses;       /* [n_tensors] */
    int           *order;      /* [n_order]: nodes that are not `again` */
    int            n_order;
    bool          *repeatable; /* [n_nodes]: running it once more gives the same bits */
    int           *choices;    /* [n_choices]: tensors that have a fate, ascending */
    int            n_choices;
    int           *fixed;      /* [n_fixed]: fixed tensors by offset */
    int            n_fixed;
    size_t         always;     /* static bytes that no fixed tensor of the problem may free */
    size_t         stage_bytes; /* of one copy of the inputs and outputs */
    Pool           pool;
} Facts;

/* What the user forbids for the whole problem. */
typedef struct Limits { bool no_recompute, no_offload; } Limits;

/* TIDE_NO_MEMORY is the only failure. The problem must outlive the facts. */
TideStatus facts_new(const Problem *p, Limits limits, Facts **out);
void       facts_free(Facts *f);

/* The cheapest node that makes tensor t once more: `again` if there is one, else its producer; whether
 * what it reads is there, the schedule decides. NO_NODE if it cannot be made again. */
int facts_remaker(const Facts *f, int t);

#endif
