/* loaded.h - a model with memory behind it, for tests of what a model computes. */
#ifndef TIDE_TEST_LOADED_H
#define TIDE_TEST_LOADED_H
#include "models/model.h"

/* A model with a run under the roomiest plan, its weights not yet written. */
typedef struct Loaded {
    Model       *model;
    TideProfile *profile;
    TidePlan    *plan;
    TideRun     *run;
} Loaded;

Loaded loaded_new(Tide *t, const ModelConfig *c);
void   loaded_free(Loaded *l);
/* The logits behind the last of n tokens, [vocab], owned by the caller. */
float *loaded_logits(const Loaded *l, const int32_t *tokens, int n);

#endif
