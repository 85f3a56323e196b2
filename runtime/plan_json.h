/* plan_json.h - what writing and reading a plan file agree on. */
#ifndef TIDE_PLAN_JSON_H
#define TIDE_PLAN_JSON_H
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

#endif
