/* text.h - what a model learns from and is validated on: a text or token files, parted in two. */
#ifndef TIDE_TEXT_H
#define TIDE_TEXT_H
#include "models/text/bytes.h"
#include "models/text/tokenizer.h"
#include "models/text/tokens.h"

/* Where the data lie. A path that ends with .bin is a token file of llm.c; it may be a pattern as glob(3)
 * knows, whose files are taken in the order of their names. Any other path is a text. */
typedef struct TextSource {
    const char *train, *validate; /* validate NULL: the last tenth of train                         */
    const char *tokenizer;        /* as tokenizer_open() takes it; NULL: bytes, none for token files */
    int         window;           /* tokens of a row and its last target: both parts must hold them */
    int         vocab;            /* of the model: every token must be below                        */
} TextSource;

typedef struct Text {
    Part       train, validate; /* their shards owned, the tokens in files or lists               */
    Tokenizer *tokenizer;       /* owned; NULL: token files without one                           */
    Bytes     *files;           /* [n_files]: texts and mapped files, owned                       */
    TokenList  lists[3];        /* tokens of texts, owned                                         */
    int        n_files, n_lists;
} Text;

/* Open the data. Refuses what cannot be read (TIDE_IO), and what is malformed, empty, too short, or not of
 * the model's vocabulary (TIDE_BAD_FILE); then *out is NULL. */
TideStatus text_open(Tide *t, TextSource source, Text **out);
void       text_free(Text *text);

#endif
