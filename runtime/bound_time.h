/* bound_time.h - seconds that no schedule of a problem can beat. */
#ifndef TIDE_BOUND_TIME_H
#define TIDE_BOUND_TIME_H
#include "runtime/pricing.h"

typedef struct TimeBound {
    double seconds; /* of the section; INFINITY: proven that nothing fits                      */
    Cut    cut;     /* that proves it; its node is NO_NODE where memory binds nowhere           */
    double price;   /* seconds by which one byte more at that cut would lower the bound         */
} TimeBound;

/* A lower bound on the seconds of any schedule of the problem in its order, that takes at most limit bytes
 * on the device and host_limit for what is offloaded: whatever is kept, offloaded once or often, made
 * again once or often, wherever bytes lie. Stays of persistent tensors, inputs, outputs, of what is
 * forced to be kept and of what has kind `other` are as in liveness.h. */
TideStatus bound_seconds(const Facts *f, size_t limit, size_t host_limit, TimeBound *out);

#endif
