/* profile_json.c - a profile to JSON and back.
 *
 * A file belongs to a device, not to a model: what it lacks for the program at hand is
 * filled by scaling, and what the program does not need is left alone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/io/json_read.h"
#include "runtime/io/out_file.h"
#include "runtime/io/record.h"
#include "runtime/profile.h"

/* Beyond what any device or program has, and small enough that sums of some of them do not overflow. Entries
 * are found one after another, so a file of very many would take minutes. */
enum { MOST_FILE_BYTES = 64 << 20, MOST_ENTRIES = 1 << 14, MOST_ALIGNMENT = 1 << 20 };

/* ---- Saving ---------------------------------------------------------------- */

static void write_links(const TideProfile *f, FILE *to)
{
    fprintf(to,
            "  \"link\": { \"out_bytes_per_second\": %.9g, \"in_bytes_per_second\": %.9g, "
            "\"duplex_bytes_per_second\": %.9g, \"latency_seconds\": %.9g },\n  \"link_by_size\": [",
            f->link.out, f->link.in, f->link.duplex, f->link.latency);
    for (int i = 0; i < f->n_sizes; i++) {
        const LinkSpeed *s = &f->by_size[i];
        fprintf(to, "%s\n    [%zu, %.9g, %.9g, %.9g, %.9g]", i ? "," : "", s->bytes, s->out, s->in,
                s->duplex_out, s->duplex_in);
    }
    fprintf(to, "],\n");
}

static void write_facts(const DeviceFacts *d, FILE *to)
{
    const char *comma = "";

    fprintf(to, ",\n  \"memory_bytes\": %zu,\n  \"types\": [", d->memory_bytes);
    for (int i = 0; i < TIDE_TYPE_COUNT; i++) {
        if (!(d->types & 1u << i)) continue;
        fprintf(to, "%s\"%s\"", comma, type_name((TideType)i));
        comma = ", ";
    }
    fprintf(to,
            "],\n  \"block_elements\": %lld,\n  \"rough\": { \"flops_per_second\": %.9g, "
            "\"bytes_per_second\": %.9g, \"launch_seconds\": %.9g }",
            (long long)d->block_elements, d->flops_per_second, d->bytes_per_second, d->launch_seconds);
}

static void write_entry(const Entry *e, FILE *to)
{
    fprintf(to, "\n    { \"key\": ");
    write_text(to, e->key);
    fprintf(to, ", \"seconds\": %.9g, \"flops\": %.17g, \"bytes\": %.17g, \"scratch_bytes\": %zu }",
            e->seconds, e->flops, e->bytes, e->scratch_bytes);
}

void profile_write(const TideProfile *f, FILE *to)
{
    const char *comma = "";

    fprintf(to, "{ \"tide_profile\": 1,\n  \"device\": ");
    write_text(to, f->device);
    fprintf(to, ",\n  \"versions\": ");
    write_text(to, f->versions);
    write_facts(&f->facts, to);
    fprintf(to, ",\n  \"fixed_bytes\": %zu,\n  \"alignment\": %zu,\n", f->fixed_bytes, f->alignment);
    write_links(f, to);
    if (f->record) fprintf(to, "  \"record\": %s,\n", f->record);
    fprintf(to, "  \"nodes\": [");
    for (int i = 0; i < f->n_entries; i++) {
        if (f->entries[i].source != SOURCE_MEASURED) continue;
        fputs(comma, to);
        write_entry(&f->entries[i], to);
        comma = ",";
    }
    fprintf(to, "\n  ]\n}\n");
}

TideStatus tide_profile_save(const TideProgram *p, const TideProfile *f, const char *path)
{
    OutFile file;

    if (!out_file_open(&file, path)) return tide_fail(p->tide, TIDE_IO, "%s: %s", path, strerror(errno));
    profile_write(f, file.to);
    if (!out_file_close(&file)) return tide_fail(p->tide, TIDE_IO, "%s: %s", path, strerror(errno));
    return TIDE_OK;
}

/* ---- Loading --------------------------------------------------------------- */

static TideStatus read_positive(const JsonAt *at, const char *key, double *out)
{
    JsonAt value;

    TRY(read_member(at, key, &value));
    return read_real(&value, 1e-12, 1e18, out);
}

/* Bytes of memory. */
static TideStatus read_bytes(const JsonAt *at, size_t *out)
{
    int64_t n = 0;

    TRY(read_int(at, 0, PROFILE_MOST_BYTES, &n));
    *out = (size_t)n;
    return TIDE_OK;
}

/* A size that files of an older day lack. */
static TideStatus read_optional_bytes(const JsonAt *at, const char *key, size_t *out)
{
    JsonAt value;

    if (!read_has(at, key)) return TIDE_OK;
    TRY(read_member(at, key, &value));
    return read_bytes(&value, out);
}

static TideStatus read_alignment(const JsonAt *root, size_t *out)
{
    TRY(read_optional_bytes(root, "alignment", out));
    if (*out && *out <= MOST_ALIGNMENT && (*out & (*out - 1)) == 0) return TIDE_OK;
    return read_refuse(root, "has the alignment %zu, which must be a power of two, at most %d", *out,
                       MOST_ALIGNMENT);
}

/* One row: bytes, then the four speeds. */
static TideStatus read_speed(const JsonAt *row, size_t above, LinkSpeed *s)
{
    double *const speeds[] = { &s->out, &s->in, &s->duplex_out, &s->duplex_in };
    JsonAt at;
    size_t n = 0;

    TRY(read_array(row, 5, 5, &n));
    at = read_item(row, 0);
    TRY(read_size(&at, &s->bytes));
    if (s->bytes <= above) return read_refuse(&at, "is %zu, but sizes must ascend from 1", s->bytes);
    for (size_t i = 0; i < 4; i++) {
        at = read_item(row, i + 1);
        TRY(read_real(&at, 1e-12, 1e18, speeds[i]));
    }
    return TIDE_OK;
}

static TideStatus read_by_size(const JsonAt *root, TideProfile *f)
{
    JsonAt rows;
    size_t n = 0, above = 0;

    if (!read_has(root, "link_by_size")) return TIDE_OK;
    TRY(read_member(root, "link_by_size", &rows));
    TRY(read_array(&rows, 0, MOST_LINK_SIZES, &n));
    for (size_t i = 0; i < n; i++) {
        JsonAt row = read_item(&rows, i);
        TRY(read_speed(&row, above, &f->by_size[i]));
        above = f->by_size[i].bytes;
    }
    f->n_sizes = (int)n;
    return TIDE_OK;
}

static TideStatus read_link(const JsonAt *at, Link *link)
{
    static const char *const keys[] = { "out_bytes_per_second", "in_bytes_per_second",
                                        "duplex_bytes_per_second", "latency_seconds", NULL };

    TRY(read_keys(at, keys));
    TRY(read_positive(at, keys[0], &link->out));
    TRY(read_positive(at, keys[1], &link->in));
    TRY(read_positive(at, keys[2], &link->duplex));
    return read_positive(at, keys[3], &link->latency);
}

/* Append an entry of the file that the program has no node for, so that others may be scaled from it. */
static TideStatus add_entry(const JsonAt *at, TideProfile *f, const char *key)
{
    Entry *grown = realloc(f->entries, ((size_t)f->n_entries + 1) * sizeof *grown);
    char *copy = malloc(strlen(key) + 1);

    if (grown) f->entries = grown;
    if (!grown || !copy) {
        free(copy);
        return tide_fail(at->file->tide, TIDE_NO_MEMORY, "no memory for a profile");
    }
    strcpy(copy, key);
    f->entries[f->n_entries++] = (Entry){ .key = copy };
    return TIDE_OK;
}

static TideStatus read_entry(const JsonAt *at, TideProfile *f)
{
    static const char *const keys[] = { "key", "seconds", "flops", "bytes", "scratch_bytes", NULL };
    JsonAt value;
    const char *key;
    double flops, bytes;

    TRY(read_keys(at, keys));
    TRY(read_member(at, "key", &value));
    TRY(read_text(&value, &key));
    int i = profile_find(f, key);
    if (i < 0) {
        TRY(add_entry(at, f, key));
        i = f->n_entries - 1;
    }
    if (f->entries[i].source != SOURCE_NONE) return read_refuse(&value, "appears twice");
    TRY(read_positive(at, "seconds", &f->entries[i].seconds));
    TRY(read_member(at, "flops", &value));
    TRY(read_real(&value, 0, 1e30, &flops));
    TRY(read_member(at, "bytes", &value));
    TRY(read_real(&value, 0, 1e30, &bytes));
    TRY(read_optional_bytes(at, "scratch_bytes", &f->entries[i].scratch_bytes));
    f->entries[i].flops = flops;
    f->entries[i].bytes = bytes;
    f->entries[i].source = SOURCE_MEASURED;
    return TIDE_OK;
}

static TideStatus read_line(const JsonAt *root, const char *key, char *to, size_t size)
{
    JsonAt value;
    const char *text;

    TRY(read_member(root, key, &value));
    TRY(read_text(&value, &text));
    snprintf(to, size, "%s", text);
    return TIDE_OK;
}

static TideStatus read_types(const JsonAt *root, unsigned *out)
{
    const char *names[TIDE_TYPE_COUNT];
    JsonAt list;
    size_t n = 0;

    for (int i = 0; i < TIDE_TYPE_COUNT; i++) names[i] = type_name((TideType)i);
    TRY(read_member(root, "types", &list));
    TRY(read_array(&list, 1, TIDE_TYPE_COUNT, &n));
    for (size_t i = 0; i < n; i++) {
        JsonAt item = read_item(&list, i);
        int type = 0;
        TRY(read_word(&item, names, TIDE_TYPE_COUNT, &type));
        *out |= 1u << type;
    }
    return TIDE_OK;
}

/* Files of an older day have none of them; they serve only where the device is. */
static TideStatus read_facts(const JsonAt *root, DeviceFacts *d)
{
    static const char *const keys[] = { "flops_per_second", "bytes_per_second", "launch_seconds", NULL };
    JsonAt value;

    if (!read_has(root, "types")) return TIDE_OK;
    d->types = 0;
    TRY(read_types(root, &d->types));
    TRY(read_optional_bytes(root, "memory_bytes", &d->memory_bytes));
    TRY(read_member(root, "block_elements", &value));
    TRY(read_int(&value, 0, INT64_MAX >> 1, &d->block_elements));
    TRY(read_member(root, "rough", &value));
    TRY(read_keys(&value, keys));
    TRY(read_positive(&value, keys[0], &d->flops_per_second));
    TRY(read_positive(&value, keys[1], &d->bytes_per_second));
    return read_positive(&value, keys[2], &d->launch_seconds);
}

static TideStatus read_root_of(const JsonFile *file, TideProfile *f)
{
    static const char *const keys[] = {
        "tide_profile", "device",    "versions", "memory_bytes", "types",  "block_elements", "rough",
        "fixed_bytes",  "alignment", "link",     "link_by_size", "record", "nodes",          NULL
    };
    JsonAt root = read_root(file), value;
    int64_t version;
    size_t n;

    TRY(read_keys(&root, keys));
    TRY(read_member(&root, "tide_profile", &value));
    TRY(read_int(&value, 1, 1, &version));
    TRY(read_line(&root, "device", f->device, sizeof f->device));
    TRY(read_line(&root, "versions", f->versions, sizeof f->versions));
    TRY(read_facts(&root, &f->facts));
    TRY(read_member(&root, "fixed_bytes", &value));
    TRY(read_bytes(&value, &f->fixed_bytes));
    TRY(read_member(&root, "link", &value));
    TRY(read_link(&value, &f->link));
    TRY(read_alignment(&root, &f->alignment));
    TRY(read_by_size(&root, f));
    TRY(record_read(&root, &f->record));
    TRY(read_member(&root, "nodes", &value));
    TRY(read_array(&value, 0, MOST_ENTRIES, &n));
    for (size_t i = 0; i < n; i++) {
        JsonAt item = read_item(&value, i);
        TRY(read_entry(&item, f));
    }
    return TIDE_OK;
}

TideStatus profile_read(Tide *t, const char *path, TideProfile *f)
{
    JsonFile file;
    TideStatus status = read_open(t, path, MOST_FILE_BYTES, &file);

    if (!status) status = read_root_of(&file, f);
    read_close(&file);
    return status;
}

TideStatus tide_profile_load(const TideProgram *p, const char *path, TideProfile **out)
{
    TRY(profile_new(p, out));
    TideStatus status = profile_read(p->tide, path, *out);
    if (!status) status = record_adopt(p->tide, (*out)->record, path);
    if (!status) {
        profile_fill(p, *out);
        return TIDE_OK;
    }
    tide_profile_free(*out);
    *out = NULL;
    return status;
}
