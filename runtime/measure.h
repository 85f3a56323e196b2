/* measure.h - what measuring nodes and measuring links share. */
#ifndef TIDE_MEASURE_H
#define TIDE_MEASURE_H
#include "runtime/pool.h"
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

/* Does a run replay its steps on this device? */
bool bench_replays(const Bench *b);

/* Fill link and by_size, and fixed_bytes: what the process takes besides the memory that is borrowed
 * here, so every kernel must have run. A failure leaves its text with the device. */
TideStatus measure_links(const Bench *b, TideProfile *f);

/* ---- measure_operands.c: what the nodes compute on while they are timed -------------------- */

/* A part of the borrowed memory. Nodes take their places in it one behind the other, and from its start
 * again where it ends. */
typedef struct Part { char *base; size_t bytes, next; } Part;

typedef struct Operands {
    void  *memory; size_t bytes;
    Part   read, written; /* numbers that stay as they are; what nodes write                 */
    char  *indices;       /* for each entry, the i32 inputs of its nodes one behind the other */
    size_t *index_of;     /* [n_entries] offset into indices; SIZE_MAX: the entry is not timed */
    size_t index_bytes, scratch_bytes;
    char  *scratch;
    Pool   pool;
} Operands;

/* Borrow memory in which every timed node finds room (timed[n_entries] tells which entries). Operands of
 * nodes that follow each other lie apart, over as many bytes as the program itself touches, or enough to
 * push each other out of any cache. Numbers are random: zeros would flatter caches and power. */
TideStatus operands_new(const Bench *b, const TideProfile *f, const bool *timed, Operands *out);
void       operands_free(const Bench *b, Operands *o);
/* Put random numbers everywhere but into scratch. */
TideStatus operands_fill(const Bench *b, const TideProfile *f, const Operands *o);
/* A call of node n with the next places; what it points to lives in the pool. False without memory. */
bool       operands_call(const Bench *b, Operands *o, const Node *n, int entry, Pool *pool, KernelCall *out);

/* ---- measure_laps.c: nodes one behind the other ------------------------------------------------ */

typedef struct Timed { const Node *node; const Kernel *kernel; int entry; KernelCall call; } Timed;

/* Nodes that run in this order, again and again. */
typedef struct Lap { Timed *nodes; int n; } Lap;

/* Run a lap once with a mark behind every node; seconds[n] of each, what a device needs between two nodes
 * included. marks[n + 1]. */
TideStatus lap_run(const Bench *b, const Lap *lap, Event **marks, double *seconds);
/* Median seconds of a whole lap without marks, replayed where the device can: as a step runs. */
TideStatus lap_plain(const Bench *b, const Lap *lap, int times, double *seconds);

/* The middle one of n > 0 values, which are sorted. */
double median_of(double *values, int n);

#endif
