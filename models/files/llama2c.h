/* llama2c.h - checkpoints of llama2.c (karpathy/llama2.c: export.py, run.c), versions 0 and 1: a header of
 * sizes, then all tensors in f32 in a fixed order. */
#ifndef TIDE_LLAMA2C_H
#define TIDE_LLAMA2C_H
#include "models/files/stored.h"

typedef struct Llama2c {
    int     version; /* 0: the header of 7 numbers alone; 1: with a magic number, 256 bytes */
    int     dim, hidden, layers, heads, kv_heads, vocab, seq;
    bool    shared;  /* the classifier is the embedding */
    int64_t data;    /* offset of the first tensor      */
} Llama2c;

/* Read and check the header, the size of the file included. TIDE_IO, or TIDE_BAD_FILE with the numbers; the
 * versions of quantised weights are refused. */
TideStatus llama2c_header(Tide *t, const char *path, Llama2c *out);

/* Fill the list of the file at s->path with the names that Hugging Face gives to these tensors. The rows of
 * q and k keep their order, in which the two numbers that RoPE turns are neighbours (Stored.pairs). */
TideStatus llama2c_open(StoredList *s);

#endif
