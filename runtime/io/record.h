/* record.h - the numerics record on its way between a device and files.
 *
 * Plans and profiles carry the choices that their device had made or was given. What a device holds
 * only in its cache for other shapes is no part of it. As text a record is compact JSON with sorted
 * keys, so that equal records are equal texts, whatever file they came from. */
#ifndef TIDE_RECORD_H
#define TIDE_RECORD_H
#include "runtime/io/json_read.h"

/* What the device has chosen so far, owned by the caller; NULL: this device makes no choices. */
TideStatus record_snapshot(Tide *t, char **out);
/* The member "record" of a file's root, owned by the caller; NULL: it has none. */
TideStatus record_read(const JsonAt *root, char **out);
/* Let the device take over a record (NULL: none) from a file of that path. One made with another kind
 * of device or other versions is left aside; TIDE_BAD_FILE if it is malformed or contradicts what was
 * chosen or given before. */
TideStatus record_adopt(Tide *t, const char *record, const char *path);

#endif
