/* progress.h - what a run says while it works: one line on a terminal, lines elsewhere, and JSON lines
 * in a file. */
#ifndef TIDE_EXAMPLES_PROGRESS_H
#define TIDE_EXAMPLES_PROGRESS_H
#include <stdio.h>
#include "examples/options.h"

/* A step that is over. Seconds since the step before; 0 tokens per second: not known. */
typedef struct StepRecord {
    int64_t step; /* counted from 1 */
    int64_t tokens;
    double loss, lr, norm, seconds;
    double loss_scale; /* NaN: no loss scaling */
    double epochs;     /* so far; NaN: the data have none */
    int64_t skipped;   /* steps so far         */
    size_t process_bytes, host_bytes;
} StepRecord;

typedef struct Progress {
    FILE *to;       /* NULL: quiet           */
    FILE *metrics;  /* NULL: none            */
    bool terminal;  /* one line, rewritten   */
    bool open_line; /* it wants a line break */
    int64_t steps, every;
    double started;
} Progress;

/* Open the metrics file anew. EXIT_BAD_INPUT after a message if it cannot be. */
int progress_open(const Options *o, Progress *out);
/* False if the metrics file cannot be written. */
bool progress_step(Progress *p, const StepRecord *r);
/* A line of its own, such as a validation loss. */
void progress_say(Progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool progress_close(Progress *p);

/* Seconds of a clock that never goes back. */
double now(void);

#endif
