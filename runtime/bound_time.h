/* bound_time.h - seconds that no schedule of a problem can beat. */
#ifndef TIDE_BOUND_TIME_H
#define TIDE_BOUND_TIME_H
#include "runtime/pricing.h"

typedef struct TimeBound {
    double seconds; /* of the section; INFINITY: proven that nothing fits      */
    CutSet set;     /* of cuts that proves it; n_cuts 0: memory binds nowhere  */
    Prices prices;  /* byte[k]: by what a byte more at cut k would lower it    */
} TimeBound;

/* A lower bound on the seconds of any schedule of the problem in its order (or of any with one fate a
 * tensor) that takes at most limit bytes on the device and host_limit for what is offloaded: whatever is
 * kept, offloaded once or often, made again once or often, wherever bytes lie. Persistent tensors, inputs,
 * outputs, what is forced to be kept and what has kind `other` stay from their first use to their last. */
TideStatus bound_seconds(const Facts *f, Freedom freedom, size_t limit, size_t host_limit, TimeBound *out);

#endif
