/* model_files.h - models in files: a folder as Hugging Face keeps one (config.json and safetensors, in one
 * file or in shards), or a checkpoint of llama2.c.
 *
 * Weights are read and written one tensor at a time: the host holds the f32 numbers of the largest one. */
#ifndef TIDE_MODEL_FILES_H
#define TIDE_MODEL_FILES_H
#include "models/model.h"

/* Is this a folder, or a file whose name ends in .bin? Else it is no path of a model. */
bool       model_files_are(const char *path);

/* Fill a configuration from config.json, or from the header of llama2.c; training hyperparameters and
 * batch are defaults, seq is the longest that the model can do. TIDE_IO: it cannot be read. TIDE_BAD_FILE:
 * malformed, or a model that cannot be built here; the message names the key. */
TideStatus model_files_config(Tide *t, const char *path, ModelConfig *out);

/* Do the weights fit the model: every tensor there, of its shape, and none besides that would be lost? Reads
 * headers only, except of a head beside the embedding that it is tied to. TIDE_IO or TIDE_BAD_FILE names the
 * file and the tensor. */
TideStatus model_files_check(const Model *m, const char *path);

/* Check, then write the weights into a run that model_init() has begun, the f32 copies of narrow parameters
 * too. Rows that pad the vocabulary are 0. */
TideStatus model_files_load(const Model *m, TideRun *r, const char *path);

/* TIDE_BAD_GRAPH: no architecture of Hugging Face is this model; the message says why. */
TideStatus model_files_can_save(const Model *m);

/* Write config.json and model.safetensors into a folder, made if it is not there: the parameters in their own
 * type, without the padding of the vocabulary, named as transformers names them. Each file appears whole or
 * not at all. TIDE_BAD_GRAPH as above; TIDE_IO: it cannot be written. */
TideStatus model_files_save(const Model *m, TideRun *r, const char *folder);

#endif
