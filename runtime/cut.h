/* cut.h - what any schedule must hold, and has had time for, at one moment.
 *
 * A cut is the moment at which a node of the order runs for the first time. Whatever was decided, what has no
 * fate and is alive lies on the device then, and so do the inputs, outputs and scratch of that node. What was
 * made before and is used afterwards - the items - has three ways to be there in time: it lies on the
 * device, or on the host, copied out before and back afterwards, or it is made again afterwards. */
#ifndef TIDE_CUT_H
#define TIDE_CUT_H
#include "runtime/liveness.h"

/* What plans a bound is about. */
typedef enum Freedom {
    ANY_SCHEDULE, /* whatever keeps the order: tensors leave, return and are made again at any time  */
    ONE_FATE,     /* what schedule.h makes: one fate for each tensor with a choice, which is there until its
                   * last use in the forward phase and from its first use in the backward phase on  */
} Freedom;

typedef struct Cut {
    int    node;
    double start;       /* of the node, if nothing stalls or runs again                           */
    double items;       /* bytes of the items, without those that the node itself reads           */
    double room;        /* bytes that are left for them; negative: no schedule fits               */
    double out_seconds; /* in which items may leave before the cut, if nothing stalls or runs again */
    double in_seconds;  /* in which they may return afterwards, likewise                          */
} Cut;

/* The cuts of all nodes of the order, for this many bytes on the device: cuts[n_order]. TIDE_NO_MEMORY is
 * the only failure. */
TideStatus cuts_find(const Facts *f, Freedom freedom, size_t limit, Cut *cuts);

/* The nodes from..to at whose cuts t is an item; none if from > to. */
void cut_find_gap(const Facts *f, Freedom freedom, int t, int *from, int *to);

/* Is t an item of the cut of this node? */
bool cut_has_item(const Facts *f, Freedom freedom, int t, int node);

/* Seconds of the section that keeps everything and never waits: no schedule takes less. */
double least_seconds(const Facts *f);

#endif
