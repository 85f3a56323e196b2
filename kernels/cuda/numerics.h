/* numerics.h - the record of choices that decide bits: which algorithm a library runs for a shape.
 *
 * A choice is a line of text under a key of text. It is made once, by timing, or taken from a record:
 * one given by the user (a plan, a profile, a checkpoint), else the cache in the user's folder.
 *
 * Two keys are wishes of the user for all shapes that a given record does not name: "attention", which
 * is "flash" or "cudnn", and "bias_grad", which is "fused" with the GEMM or "apart" from it. */
#ifndef TIDE_CUDA_NUMERICS_H
#define TIDE_CUDA_NUMERICS_H
#include <stdbool.h>
#include "runtime/backend.h"

enum { NUMERICS_KEY_BYTES = 160, NUMERICS_VALUE_BYTES = 256, NUMERICS_MADE_BYTES = 192 };

/* Timed here; a library's first one, untimed; from the cache; from a record that the user gave, or made
 * as the user wishes. */
typedef enum ChoiceSource { CHOICE_TIMED, CHOICE_FIRST, CHOICE_CACHED, CHOICE_GIVEN } ChoiceSource;

typedef struct Choice {
    char key[NUMERICS_KEY_BYTES];
    char value[NUMERICS_VALUE_BYTES];
    ChoiceSource source;
    bool used; /* something was built after it: it can no longer change */
} Choice;

typedef struct Numerics {
    char made_with[NUMERICS_MADE_BYTES]; /* device kind and library versions that it holds for */
    Choice *choices;
    int n_choices;
} Numerics;

/* The choice for a key, which counts as used from now on; NULL: none was made, or only one of the cache
 * where the user wishes something. The text is borrowed until the next choice is added. */
const char *numerics_use(Numerics *n, const char *key, const char *wish);

/* Does the user wish this for shapes in general? */
const char *numerics_wish(const Numerics *n, const char *what);

/* Keep a choice that was just made, in place of one of the cache. False without memory. */
bool numerics_add(Numerics *n, const char *key, const char *value, ChoiceSource source);

/* The record as JSON text that the caller frees; NULL without memory. What only the cache knows and nothing
 * here uses is left out: a file carries what its program rests on. */
char *numerics_text(const Numerics *n);

/* Adopt a record. One made with another device kind or other versions is left aside. why [size] says
 * what is wrong with it when the status is TIDE_BAD_FILE. */
TideStatus numerics_adopt(Numerics *n, const char *json, ChoiceSource source, char *why, size_t size);

/* The record of this device kind and these versions in the user's cache folder. Reading what is not
 * there or not sound adopts nothing; writing is best effort. */
void numerics_cache_read(Numerics *n);
void numerics_cache_write(const Numerics *n);

void numerics_free(Numerics *n);
#endif
