/* sample.h - choose the next token from logits, as llama2.c does: the same seed gives the same text. */
#ifndef TIDE_SAMPLE_H
#define TIDE_SAMPLE_H
#include "runtime/tide.h"

typedef struct Sampler {
    float    temperature; /* 0: always the likeliest token, the smallest of equals             */
    float    top_p;       /* of the likeliest tokens, as few as have more than this share; 0 or 1: all */
    uint64_t state;       /* of the generator: at first a seed, 0 for a fixed other one        */
    void    *choices;     /* scratch for vocab tokens, owned                                   */
    int      vocab;
} Sampler;

/* Refuses a temperature below 0, a share outside [0, 1], and numbers that are none (TIDE_BAD_GRAPH). */
TideStatus sampler_new(Tide *t, Sampler settings, Sampler **out);
void       sampler_free(Sampler *s);
/* The next token of logits [vocab]; -1 if a logit is not a number or none is finite. */
int        sampler_next(Sampler *s, const float *logits);

#endif
