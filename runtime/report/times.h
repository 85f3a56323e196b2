/* times.h - a profile for the eye: what each operation and each copy takes. */
#ifndef TIDE_REPORT_TIMES_H
#define TIDE_REPORT_TIMES_H
#include "runtime/tide.h"

/* Device and versions, a row for each operation, a row for each size of copies. */
void times_print(const TideProfile *f, FILE *to);
/* How many operations, and what planning uses of the links. */
void times_summary(const TideProfile *f, FILE *to);
/* The document that tide_profile_save() writes. */
void times_json(const TideProfile *f, FILE *to);

#endif
