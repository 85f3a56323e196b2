/* train.h - run a plan of a small model on made-up data and hash what comes out. */
#ifndef TIDE_TEST_TRAIN_H
#define TIDE_TEST_TRAIN_H
#include "models/model.h"

/* Small models with dropout on; row i of the table, NULL past the last. Plain numbers, so that a
 * Criterion parameter can name a row. Parameters are of type TIDE_TEST_DTYPE, else f32. */
const ModelConfig *small_model(int i);

typedef struct TrainOptions {
    int    steps;
    double delay_seconds; /* before every copy, at random up to this */
    bool   poison;        /* fill dead slots with NaN                */
    void (*traced)(TideRun *r); /* trace the last step, then call this; NULL: trace nothing */
} TrainOptions;

typedef struct TrainResult {
    uint64_t     grads;   /* hash of all gradients after the first micro-step(s), before the update */
    uint64_t     weights; /* hash of all parameters at the end                                     */
    float        first_loss, last_loss; /* mean per row */
    int          skipped;               /* steps whose gradients overflowed, with loss scaling */
    TideRunStats stats;
} TrainResult;

/* Train with inputs that depend on the step alone. */
TideStatus train_plan(const Model *m, const TidePlan *plan, TrainOptions o, TrainResult *out);

/* Hash of the current values of all parameters, or of their gradients. */
TideStatus hash_parameters(const Model *m, TideRun *r, bool gradients, uint64_t *hash);

/* Does what was touched agree with the plan? To the byte on the CPU; a GPU's libraries may leave part of
 * the workspace alone that they ask for, so there it may be less. */
bool touched_as_planned(size_t touched, size_t planned);

/* A small generator for tests: uniform in [0, n). */
uint32_t test_random(uint64_t *state, uint32_t n);

/* A scale of the loss at which gradients of the test's type overflow on the test's device, though not after a
 * few halvings. */
float        too_large_scale(void);

/* The device that tests run on: TIDE_TEST_DEVICE, else "cpu". */
const char *test_device(void);

#endif
