/* batch.h - the largest batch whose whole step fits a budget. */
#ifndef TIDE_EXAMPLES_BATCH_H
#define TIDE_EXAMPLES_BATCH_H
#include "examples/session.h"

/* Set config->batch to the largest for which a plan of every graph fits the session's budget, found by
 * doubling and bisection; the session's device is open and its limits are set. Where times are measured, the
 * session gets the profile of that batch, whose part outside the arena decides. The same arguments on the
 * same device give the same batch. Exit code; 3 if a batch of 1 does not fit. */
int batch_choose(Session *s, ModelConfig *config);

#endif
