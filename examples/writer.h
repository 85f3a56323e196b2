/* writer.h - a text that a model writes, token by token. */
#ifndef TIDE_EXAMPLES_WRITER_H
#define TIDE_EXAMPLES_WRITER_H
#include <signal.h>
#include "models/model.h"
#include "models/text/tokenizer.h"

/* What to write. */
typedef struct Writing {
    const char *prompt; /* to continue; NULL: begin a text           */
    int64_t tokens;     /* at most; fewer where the text ends        */
    float temperature, top_p;
    uint64_t seed;
    const volatile sig_atomic_t *stop; /* once set, no more is written; NULL: never */
} Writing;

/* The prompt and what follows it, as bytes and a 0 behind them. The model sees the last config.seq tokens.
 * The caller frees *text, which is NULL after a failure. */
TideStatus model_write(const Model *m, TideRun *run, Tokenizer *k, const Writing *w, char **text, size_t *n);

/* Put '?' for what no terminal can show, or might obey. */
void make_printable(char *text, size_t n);

#endif
