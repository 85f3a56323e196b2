/* json_read.h - strict reading of JSON that a stranger may have written.
 *
 * A JsonAt is a value and the way to it, so that a message can say
 * "plan.json: sections[0].slots[3][2] is -1, it must be ...". JsonAts live on the
 * caller's stack and point to their parents: a child must not outlive its parent.
 * Every function leaves a message and returns TIDE_BAD_FILE when the value is unfit. */
#ifndef TIDE_JSON_READ_H
#define TIDE_JSON_READ_H
#include <jansson.h>
#include "runtime/graph.h"

typedef struct JsonFile {
    Tide *tide;
    const char *path; /* borrowed */
    json_t *root;
} JsonFile;

typedef struct JsonAt {
    const JsonFile *file;
    const struct JsonAt *up; /* NULL: the root          */
    const char *key;         /* in an object; NULL: index counts */
    size_t index;
    const json_t *value;
} JsonAt;

/* Read and parse a file of at most `most` bytes. TIDE_IO: it cannot be read; TIDE_BAD_FILE: it is too
 * large or is not JSON. Close with read_close(), also after a failure. */
TideStatus read_open(Tide *t, const char *path, size_t most, JsonFile *out);
void read_close(JsonFile *f);
JsonAt read_root(const JsonFile *f);

/* Refuse a value for a reason of the caller's: "FILE: WAY TEXT". */
TideStatus read_refuse(const JsonAt *at, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* at is an object whose keys are all in the list, which NULL ends. */
TideStatus read_keys(const JsonAt *at, const char *const *keys);
TideStatus read_member(const JsonAt *at, const char *key, JsonAt *out); /* must be there */
bool read_has(const JsonAt *at, const char *key);
/* at is an array of least to most items. */
TideStatus read_array(const JsonAt *at, size_t least, size_t most, size_t *n);
JsonAt read_item(const JsonAt *at, size_t i); /* of an array, i < n */

TideStatus read_int(const JsonAt *at, int64_t low, int64_t high, int64_t *out);
TideStatus read_size(const JsonAt *at, size_t *out); /* 0 to 2^62           */
TideStatus read_real(const JsonAt *at, double low, double high, double *out);
TideStatus read_text(const JsonAt *at, const char **out); /* borrowed from the file */
TideStatus read_flag(const JsonAt *at, bool *out);
/* One of n words; *out is its index. */
TideStatus read_word(const JsonAt *at, const char *const *words, int n, int *out);
/* Refuse a document whose version, the number of that key, is another one. */
TideStatus read_version(const JsonAt *root, const char *key, int version);
TideStatus read_hash(const JsonAt *at, uint64_t *out); /* 16 hexadecimal digits */

/* A member that names something: at most 200 bytes, none of which controls a terminal. */
TideStatus read_name(const JsonAt *object, const char *key, bool may_be_empty, const char **out);

/* Members that may be left out; *out then stays what it is. */
TideStatus read_optional_int(const JsonAt *object, const char *key, int64_t most, int64_t *out); /* from 0 */
TideStatus read_optional_real(const JsonAt *object, const char *key, double most, double *out);  /* from 0 */
TideStatus read_optional_flag(const JsonAt *object, const char *key, bool *out);

/* Write s as a JSON string, quotes and all; returns what fprintf returns. */
int write_text(FILE *to, const char *s);

#endif
