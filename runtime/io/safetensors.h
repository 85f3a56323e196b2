/* safetensors.h - files of named tensors: 8 bytes with the length of a JSON header, the header, then the
 * bytes of the tensors without a hole (https://github.com/huggingface/safetensors, README.md).
 *
 * A file is read with pread() into the caller's memory and never mapped: one that shrinks or goes away while
 * it is read is a status then and no signal, and no page of it counts as memory of this process. */
#ifndef TIDE_SAFETENSORS_H
#define TIDE_SAFETENSORS_H
#include "runtime/io/json_read.h"

enum { TENSOR_DIMS = 8 }; /* the most dimensions of a tensor of a file */

typedef struct TensorEntry {
    const char *name;  /* borrowed from its file                                     */
    const char *dtype; /* "F32", "BF16", "I64" ..; static                            */
    int         n_dims; /* 0: a single element                                       */
    int64_t     dim[TENSOR_DIMS];
    int64_t     offset, bytes; /* offset from the start of the file, of any alignment */
} TensorEntry;

typedef struct TensorFile {
    Tide        *tide;
    char        *path;    /* owned */
    json_t      *header;  /* owned */
    TensorEntry *entries; /* [n_entries] by name, owned */
    size_t       n_entries;
    int64_t      bytes;   /* of the whole file */
} TensorFile;

/* Read and check the header. TIDE_IO: the file cannot be read. TIDE_BAD_FILE: it is no safetensors file, or
 * anything in its header contradicts the format, itself or the size of the file; a git-lfs pointer is told
 * apart. On failure *out is NULL. */
TideStatus tensor_file_open(Tide *t, const char *path, TensorFile **out);
void       tensor_file_close(TensorFile *f);

/* NULL: there is none of that name. Borrowed. */
const TensorEntry *tensor_file_find(const TensorFile *f, const char *name);
/* The value of a key of "__metadata__"; NULL: none. Borrowed. */
const char *tensor_file_metadata(const TensorFile *f, const char *key);
/* The element type of a tensor as the library has it; false: it has none such. */
bool        tensor_entry_type(const TensorEntry *e, TideType *out);

/* Read n bytes from an offset in any file. TIDE_IO, also where the file is shorter by now. */
TideStatus file_read_at(Tide *t, const char *path, int64_t offset, void *to, size_t n);

/* "[2, 3]" into text, which it returns; for messages. */
enum { DIMS_TEXT = 128 };
char *dims_text(int n, const int64_t *dim, char text[DIMS_TEXT]);

/* ---- Writing -------------------------------------------------------------- */

typedef struct TensorSpec {
    char      name[160];
    TideType  type;
    TideShape shape;
} TensorSpec;

/* Called once for each tensor, in the order in which the file holds them, which is not that of i: gives the
 * bytes of tensor i, which stay valid until the next call. */
typedef TideStatus (*TensorSource)(void *context, int i, const void **bytes);

typedef struct TensorOut {
    const TensorSpec  *tensors; /* [n] */
    int                n;
    const char *const *metadata; /* key, value, key, value .. NULL; or NULL */
    TensorSource       source;
    void              *context; /* handed to source */
} TensorOut;

/* Write a file that appears whole or not at all (out_file.h), and wait until the disk has it. TIDE_IO, or
 * what source returned, and then the path is as it was before. */
TideStatus tensor_file_write(Tide *t, const char *path, const TensorOut *o);

#endif
