/* architecture.h - what an architecture of Hugging Face is called in its files, and what it is here: a row of
 * the table in architecture.c. */
#ifndef TIDE_ARCHITECTURE_H
#define TIDE_ARCHITECTURE_H
#include "models/model.h"
#include "runtime/io/json_read.h"

/* Rows of a parameter that files hold as a tensor of its own. */
typedef struct Piece {
    char    name[128];
    int64_t first, rows;
    bool    transposed; /* there it is [columns, rows] */
} Piece;
enum { MOST_PIECES = 4 };

typedef struct Architecture {
    const char *model_type, *class_name; /* in config.json */
    const char *family;                  /* in models/model.c */
    const char *prefix;                  /* that names in files have or lack; "": none */
    const char *embedding, *head;        /* names in files; a tied model's may hold both, if they are equal */
    const char *const *ignored;          /* ends of names that stand for nothing; NULL ends the list */
    bool        always_biased;           /* files have biases even where the model has none: zeros */
    /* Fill what config.json says; the rest of *c are defaults. TIDE_BAD_FILE names the key. */
    TideStatus (*read)(const JsonAt *config, ModelConfig *c);
    /* Set the keys of config.json. NULL, or what of the model the architecture cannot say. */
    const char *(*write)(const ModelConfig *c, json_t *config);
    /* The pieces of a parameter of so many rows, the padding of a vocabulary included; returns how many. */
    int        (*pieces)(const ModelConfig *c, const char *parameter, int64_t rows, Piece out[MOST_PIECES]);
} Architecture;

extern const Architecture architecture_gpt2, architecture_llama;
/* NULL: there is none for that model_type, or for that family. */
const Architecture *architecture_by_type(const char *model_type);
const Architecture *architecture_by_family(const char *family);
/* "gpt2, llama", for messages. */
const char *architecture_types(void);

/* Keys that may be absent or null; *out then stays what it is. Numbers from 1, or reals from 0. The object
 * may be one inside the configuration. */
TideStatus config_int(const JsonAt *config, const char *key, int most, int *out);
TideStatus config_real(const JsonAt *config, const char *key, double most, double *out);
TideStatus config_flag(const JsonAt *config, const char *key, bool *out);
/* The member of that name; false: absent or null. */
bool       config_has(const JsonAt *config, const char *key, JsonAt *at);
/* Set a rate that the configuration holds as a float: 0.1, not 0.10000000149. */
void       config_write_rate(json_t *config, const char *key, float rate);
/* Refuse a flag that is not as what is built here needs it. */
TideStatus config_demand(const JsonAt *config, const char *key, bool needed);

#endif
