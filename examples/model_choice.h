/* model_choice.h - what --model names: a preset, or a model in files.
 *
 * Every function returns an exit code and has said on stderr what is wrong. */
#ifndef TIDE_EXAMPLES_MODEL_CHOICE_H
#define TIDE_EXAMPLES_MODEL_CHOICE_H
#include "examples/session.h"

/* Fill a configuration from the preset, or note in the session that it is in files, which are read with
 * model_read_config() as soon as there is a device. */
int model_find(Session *s, ModelConfig *config);
int model_read_config(const Session *s, ModelConfig *config);

/* The weights of a new run: starting weights by --seed, or those of the files. */
TideStatus model_begin(const Session *s, TideRun *r);

/* Refuse --export where the model cannot be saved or the folder cannot be written; leaves no trace. */
int export_check(const Session *s);
/* Save the weights of a run as --export says, if it does. */
TideStatus export_model(const Session *s, TideRun *r);

#endif
