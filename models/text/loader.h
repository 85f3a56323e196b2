/* loader.h - the batches of a model from its data, prepared by a thread while the device works.
 *
 * The thread fills one of two buffers while the caller uses the other. What a step gets depends
 * on the data and the position in them alone, never on when the thread ran. */
#ifndef TIDE_LOADER_H
#define TIDE_LOADER_H
#include "models/model.h"
#include "models/text/tokens.h"

/* All micro-steps of one update. Borrowed from the loader until the next call of loader_next(). */
typedef struct StepData {
    int64_t        step;
    DataPosition   next;    /* after this step: what a run that goes on from here begins with    */
    const void    *tokens;  /* i32 [accum, batch, seq]; an mlp's x: f32 [accum, batch, width]    */
    const int32_t *targets; /* [accum, batch, seq]; an mlp's: [accum, batch]                     */
    size_t         token_bytes, target_bytes; /* of one micro-step                                */
    int64_t        valid;   /* targets that count, of all micro-steps: loss_scale is 1 / valid   */
} StepData;

typedef struct Loader Loader;
typedef struct LoaderStart { Part part; DataPosition at; } LoaderStart;

/* Begin to prepare steps at.step, at.step + 1, ... of a model's configuration (as Model.config holds
 * it: with every default filled in). The part must outlive the loader. Refuses what loader_check() does. */
TideStatus      loader_new(Tide *t, const ModelConfig *config, LoaderStart start, Loader **out);
/* Refuse data that do not hold a row, or a sample, and positions outside of them (TIDE_BAD_FILE). */
TideStatus      loader_check(Tide *t, const ModelConfig *config, LoaderStart start);
/* Steps of an epoch; 0 where rows are windows at random, of which there is no end. */
int64_t         config_epoch(const ModelConfig *config, Part part);
void            loader_free(Loader *l);
/* The next step, in order; waits until it is there. Cannot fail. */
const StepData *loader_next(Loader *l);

/* Addresses of micro-step i of a step. */
const void     *step_tokens(const StepData *d, int micro);
const int32_t  *step_targets(const StepData *d, int micro);

/* Tokens of one window, the target of its last position included: what a text must hold. */
int64_t         config_window(const ModelConfig *config);
/* Fill one batch with windows that are spread evenly over a part: batch i of count, as evaluation
 * wants it. Shapes as one micro-step above. */
void            batch_even(const ModelConfig *config, Part part, int64_t i, int64_t count, void *x,
                           int32_t *targets);

#endif
