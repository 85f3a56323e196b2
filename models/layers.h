/* layers.h - what families of models have in common. */
#ifndef TIDE_LAYERS_H
#define TIDE_LAYERS_H
#include "models/model.h"
#include "models/params.h"

/* A field of a configuration and the numbers that it may have. */
typedef struct Limits { const char *field; int64_t value, least, most; } Limits;
/* Refuse the first of n fields that is out of its limits. */
void limits_check(TideGraph *g, const Limits *limits, int n);

/* A linear layer or a norm: weight and, unless the model has none, bias [weight's first dimension]. */
typedef struct Affine { TideTensor weight, bias; } Affine;
/* Declare "<name>.weight" and, with bias, "<name>.bias". */
Affine affine_new(Params *s, const char *name, TideShape weight, bool bias);

/* The classifier at the end: x [rows, width], weight [padded vocab, width], targets [rows]. */
typedef struct Head { TideTensor x, weight, targets, info; } Head;
/* Add the losses to those of the update so far, and append the backward pass. */
void       head_train(TideGraph *g, const ModelConfig *c, Head h, const Params *s);
/* The sum of the losses, an output of g. */
TideTensor head_eval(TideGraph *g, const ModelConfig *c, Head h);

#endif
