/* plan_json.h - what writing and reading a plan file agree on. */
#ifndef TIDE_PLAN_JSON_H
#define TIDE_PLAN_JSON_H
#include "runtime/io/json_read.h"
#include "runtime/plan.h"

enum { PLAN_VERSION = 1 };

/* Fields of TidePlanStats by their names in the file. */
typedef struct StatField {
    const char *key;
    size_t at;
} StatField;
enum { STAT_SIZES = 9, STAT_REALS = 7 };
extern const StatField stat_sizes[STAT_SIZES]; /* size_t */
extern const StatField stat_reals[STAT_REALS]; /* double */

/* What a row of "decisions" says in words, for readers without the program. Borrowed from the file. */
typedef struct DecisionText {
    const char *name, *node;
    size_t bytes;
} DecisionText;
TideStatus plan_read_decision(const JsonAt *row, Decision *d, DecisionText *text);
TideStatus plan_read_stats(const JsonAt *root, TidePlanStats *s);

#endif
