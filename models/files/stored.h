/* stored.h - the tensors of a model as files hold them: one file, a folder, or one with many shards.
 *
 * Only headers are read here and kept; the numbers come later, a stretch at a time. */
#ifndef TIDE_STORED_H
#define TIDE_STORED_H
#include "runtime/io/safetensors.h"

typedef struct Stored {
    const char *name; /* borrowed from the list */
    const char *path; /* of the file that holds it; borrowed from the list */
    const char *dtype; /* as the file calls it  */
    TideType type;
    bool     has_type; /* the library has the type: else the tensor can only be ignored */
    int      n_dims;
    int64_t  dim[TENSOR_DIMS];
    int64_t  offset; /* in the file */
    int64_t  pairs;  /* not 0: the rows of each head, of that number, are ordered as llama2.c orders them */
    bool     used;   /* for whoever checks that all are */
} Stored;

typedef struct StoredList {
    Tide        *tide;
    TensorFile **files;   /* [n_files] owned */
    size_t       n_files;
    json_t      *index;   /* of the shards, owned; NULL: one file */
    char        *path;    /* that was opened, owned */
    char        *names;   /* where no file has names of its own, owned */
    Stored      *tensors; /* [n] by name, owned */
    size_t       n;
} StoredList;

/* The tensors of a folder: model.safetensors; else those that model.safetensors.index.json names, in its
 * shards; else the only *.safetensors there. Or those of a file of llama2.c. TIDE_IO or TIDE_BAD_FILE names
 * the file, the shard or the tensor. On failure *out is NULL. */
TideStatus stored_open(Tide *t, const char *path, StoredList **out);
void       stored_close(StoredList *s);
Stored    *stored_find(const StoredList *s, const char *name);

/* Elements [first, first + n) of a tensor, of a float type, as f32. */
TideStatus stored_read(const StoredList *s, const Stored *x, int64_t first, int64_t n, float *to);

#endif
