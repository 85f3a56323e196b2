/* measure.h - what measuring nodes and measuring links share. */
#ifndef TIDE_MEASURE_H
#define TIDE_MEASURE_H
#include "runtime/profile.h"

static const double least_seconds = 1e-9; /* below any clock, so that speeds stay finite */

typedef struct Bench {
    const TideProgram *p;
    const Backend *be;
    Device *device;
    Stream *lane[3]; /* as many as a run has, so that copies can go both ways */
    Event *from, *to;
    int repeats;
} Bench;

/* Fill link and by_size, and fixed_bytes: what the process takes besides the memory that is borrowed
 * here, so every kernel must have run. A failure leaves its text with the device. */
TideStatus measure_links(const Bench *b, TideProfile *f);

#endif
