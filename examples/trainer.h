/* trainer.h - steps of training over a run: batches in, losses out.
 *
 * A trainer keeps one step ahead: the loss of a step is read while the next one works. All that
 * it feeds to the device is a function of seed and step, never of the plan. */
#ifndef TIDE_EXAMPLES_TRAINER_H
#define TIDE_EXAMPLES_TRAINER_H
#include <signal.h>
#include "examples/session.h"
#include "models/text/loader.h"
#include "models/text/text.h"

typedef struct Trainer {
    Session *session;
    const Text *text;
    TideRun *run;
    Loader *loader;
    uint64_t seed;
    const volatile sig_atomic_t *stop; /* once set, what takes long is cut short; NULL: never */
    int64_t trace_step; /* whose last micro-step and update are timed; -1: none */
    int64_t valid[2]; /* targets that count, of the newest even and odd steps: losses are sums over them */
    DataPosition next[2]; /* in the data, after those steps: what a run that goes on from there begins with */
    int64_t epoch;        /* steps of one; 0: there are none                                             */
    int64_t settled, updates; /* steps whose result was read, and those among them that were not skipped */
} Trainer;

typedef struct StepResult {
    double loss, norm; /* mean loss of a target; global norm of the gradient before clipping */
    double lr;         /* the learning rate that it used, or would have                    */
    double loss_scale, next_scale; /* of the loss, in this step and the next; 0: no loss scaling */
    int64_t skipped;               /* steps so far whose gradients overflowed: no updates        */
    bool finite; /* false: training cannot go on, for no smaller scale of the loss would help */
} StepResult;

/* Put memory behind a plan, write the starting weights and begin to load batches. */
TideStatus trainer_new(Session *s, const TidePlan *plan, const Text *text, Trainer *out);
void trainer_close(Trainer *t);

/* Enqueue the micro-steps of the next step; then its update. After a stop micro-steps may be missing. */
TideStatus trainer_gradients(Trainer *t, int64_t step);
TideStatus trainer_update(Trainer *t, int64_t step);

/* Epochs that are over after a step that was enqueued, the newest or the one before; NaN: there are none. */
double trainer_epochs(const Trainer *t, int64_t step);

/* The result of a step, each once and in order: of the newest one (waits for it), or the previous, which
 * is over sooner. */
TideStatus trainer_result(Trainer *t, int64_t step, bool previous, StepResult *out);

/* Mean loss of a target over batches spread evenly over the validation text; NaN after a stop. */
TideStatus trainer_evaluate(Trainer *t, int64_t batches, double *loss);
/* A text of n tokens, with '?' for what no terminal can show; fewer after a stop, and where the text ends.
 * The data must have a tokenizer. The caller frees *text. */
TideStatus trainer_sample(Trainer *t, int64_t n, char **text);

/* A hash (runtime/io/hash.h) of the bytes of all gradients, or of all parameters, in order of declaration. */
TideStatus trainer_hash(Trainer *t, bool gradients, uint64_t *hash);
/* All gradients one after another. The caller frees *bytes. */
TideStatus trainer_read_gradients(Trainer *t, unsigned char **bytes);

#endif
