/* family.h - what a family of models must tell: a row of the table in model.c. */
#ifndef TIDE_FAMILY_H
#define TIDE_FAMILY_H
#include "models/model.h"
#include "models/params.h"

typedef struct Family {
    const char *name;
    const char *classes[2]; /* the parameters whose rows are the vocabulary, padded rows last; NULL: none */
    bool        features;  /* takes numbers [batch, width] and one target a row, not a sequence */
    /* Fill in what the configuration leaves 0 and means a default. Cannot fail. */
    void   (*defaults)(ModelConfig *c);
    /* Refuse through g what cannot be built; the message names the field and the numbers. */
    void   (*check)(const ModelConfig *c, TideGraph *g);
    /* Declare the parameters and append to the graphs of m, all but update. False without memory. */
    bool   (*build)(Model *m, Params *s);
    /* Standard deviation of the starting values of a parameter of 2 dimensions. */
    double (*deviation)(const ModelConfig *c, const char *parameter);
    /* Does a parameter take part in no product of matrices? NULL: all do. */
    bool   (*looked_up)(const ModelConfig *c, const char *parameter);
    /* Floating-point operations of a token besides 6 for every parameter. */
    double (*extra_flops)(const ModelConfig *c);
} Family;

extern const Family family_gpt, family_mlp;
/* Are the rows of a parameter the vocabulary? */
bool family_has_classes(const Family *f, const char *parameter);
/* NULL: there is none of that name. */
const Family *family_find(const char *name);

#endif
