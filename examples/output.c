/* output.c - JSON documents on standard output. */
#include "examples/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

json_t *json_number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *json_hash(uint64_t hash)
{
    return json_sprintf("%016" PRIx64, hash);
}

int json_emit(const Options *o, json_t *document)
{
    int rc = document ? json_dumpf(document, stdout, JSON_INDENT(2)) : -1;

    json_decref(document);
    if (rc || putchar('\n') == EOF || fflush(stdout)) {
        refuse(o, "the JSON document could not be written to standard output");
        return EXIT_WORLD;
    }
    return EXIT_DONE;
}
