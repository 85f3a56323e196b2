/* record.c - reads, writes and adopts numerics records. */
#include "runtime/io/record.h"

#include <stdlib.h>
#include "runtime/base.h"

/* Owned by the caller; NULL without memory. Takes root over. */
static char *compact(json_t *root)
{
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

    json_decref(root);
    return text;
}

TideStatus record_snapshot(Tide *t, char **out)
{
    *out = NULL;
    if (!t->backend->numerics_save) return TIDE_OK;
    char *text = t->backend->numerics_save(t->device);
    if (text) *out = compact(json_loads(text, JSON_REJECT_DUPLICATES, NULL));
    free(text);
    return *out ? TIDE_OK : tide_fail(t, TIDE_NO_MEMORY, "no memory for the numerics record");
}

/* What keys and values mean is the device's affair. */
static TideStatus check_form(const JsonAt *record)
{
    static const char *const keys[] = { "tide_numerics", "made_with", "choices", NULL };
    JsonAt at;
    int64_t version = 0;
    const char *text = NULL;

    TRY(read_keys(record, keys));
    TRY(read_member(record, "tide_numerics", &at));
    TRY(read_int(&at, 1, 1, &version));
    TRY(read_member(record, "made_with", &at));
    TRY(read_text(&at, &text));
    TRY(read_member(record, "choices", &at));
    return json_is_object(at.value) ? TIDE_OK : read_refuse(&at, "must be an object");
}

TideStatus record_read(const JsonAt *root, char **out)
{
    JsonAt at;

    *out = NULL;
    if (!read_has(root, "record")) return TIDE_OK;
    TRY(read_member(root, "record", &at));
    TRY(check_form(&at));
    *out = compact(json_deep_copy(at.value));
    return *out ? TIDE_OK : tide_fail(at.file->tide, TIDE_NO_MEMORY, "%s: no memory", at.file->path);
}

TideStatus record_adopt(Tide *t, const char *record, const char *path)
{
    if (!record || !t->backend->numerics_load) return TIDE_OK;
    TideStatus status = t->backend->numerics_load(t->device, record);
    return status ? tide_fail(t, status, "%s: %s", path, t->backend->message(t->device)) : TIDE_OK;
}
