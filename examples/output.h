/* output.h - JSON documents on standard output. */
#ifndef TIDE_EXAMPLES_OUTPUT_H
#define TIDE_EXAMPLES_OUTPUT_H
#include <jansson.h>
#include "examples/options.h"

/* null where a number is infinite or none. A new reference. */
json_t *json_number(double x);
/* 16 hexadecimal digits. A new reference. */
json_t *json_hash(uint64_t hash);
/* Print a document on stdout and drop it. Exit code. */
int json_emit(const Options *o, json_t *document);

#endif
