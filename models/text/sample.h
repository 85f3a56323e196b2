/* sample.h - choose the next token from logits. */
#ifndef TIDE_SAMPLE_H
#define TIDE_SAMPLE_H
#include "runtime/tide.h"

/* Draw number `drawn` depends on seed and drawn alone, so that a text can be continued. */
typedef struct Sampler {
    float    temperature; /* 0: always the likeliest token                                    */
    float    top_p;       /* of the likeliest tokens, as few as have this share; 0 or 1: all   */
    uint64_t seed, drawn;
    void    *order;       /* scratch for vocab tokens, owned                                   */
    int      vocab;
} Sampler;

/* Refuses a temperature below 0, a share outside [0, 1], and numbers that are none (TIDE_BAD_GRAPH). */
TideStatus sampler_new(Tide *t, Sampler settings, Sampler **out);
void       sampler_free(Sampler *s);
/* The next token of logits [vocab]; -1 if a logit is not a number or none is finite. */
int        sampler_next(Sampler *s, const float *logits);

#endif
