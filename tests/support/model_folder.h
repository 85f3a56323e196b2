/* model_folder.h - folders of models made for a test: written by the library, then changed at will. */
#ifndef TIDE_TEST_MODEL_FOLDER_H
#define TIDE_TEST_MODEL_FOLDER_H
#include "models/model.h"
#include "runtime/io/safetensors.h"

/* Expect a folder to be refused with that status, as a configuration, as a model or for its weights, and a
 * message that holds the words, which | separates. */
void   folder_refused(Tide *t, const char *path, TideStatus wanted, const char *words);

/* All tensors of a file in memory. */
typedef struct Contents {
    TensorSpec *specs; /* [n], and room for more */
    unsigned char **bytes; /* [n] owned */
    int n;
} Contents;

Contents contents_read(Tide *t, const char *path);
void     contents_write(Tide *t, const char *path, const Contents *c);
void     contents_free(Contents *c);
/* The index of a tensor; it must be there. */
int      contents_find(const Contents *c, const char *name);
/* Add a tensor of zeros. */
void     contents_add(Contents *c, const char *name, TideType type, TideShape shape);
void     contents_drop(Contents *c, int i);
/* Round the numbers of a tensor, which are f32, to another type. */
void     contents_narrow(Contents *c, int i, TideType type);

/* Make a text the only content of a file. */
void     text_write(const char *path, const char *text);

#endif
