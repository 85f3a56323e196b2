/* profile_device.c - a device that is only described by a profile.
 *
 * It answers what planning asks: alignment, types, scratch, versions, memory, choices of algorithms. The
 * first thing that would need the device itself fails. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/profile.h"

struct Device {
    TideProfile *profile; /* without a program: every entry is measured  */
    Backend backend;
    char kind[16];  /* "cuda" of "cuda:1"                          */
    json_t *record; /* NULL: none; grows with records that are given */
    char message[512];
};

static const char *message(const Device *d)
{
    return d->message;
}

static const char *versions(const Device *d)
{
    return d->profile->versions;
}

static TideStatus memory(Device *d, MemoryInfo *out)
{
    size_t bytes = d->profile->facts.memory_bytes;

    *out = (MemoryInfo){ .total = bytes, .free = bytes };
    return TIDE_OK;
}

/* ---- What cannot be had --------------------------------------------------------- */

static TideStatus not_here(Device *d)
{
    snprintf(d->message, sizeof d->message,
             "this device is not here, only its profile: plans can be made for it, and run where it is");
    return TIDE_DEVICE;
}

static TideStatus alloc(Device *d, size_t bytes, void **out)
{
    (void)bytes;
    *out = NULL;
    return not_here(d);
}

static TideStatus stream_new(Device *d, int priority, Stream **out)
{
    (void)priority;
    *out = NULL;
    return not_here(d);
}

/* ---- Scratch ------------------------------------------------------------------------ */

/* How many times the work of one entry another one is; 0 where that is not known. */
static double times_the_work(const Entry *e, const Entry *of)
{
    if (of->flops > 0) return e->flops / of->flops;
    return of->bytes > 0 ? e->bytes / of->bytes : 0;
}

/* What the profile says of a node of this key; for another one of the same op, no less than what the nearest
 * one takes, and more for more work, as far as a profile can say. */
static size_t scratch(const Device *d, const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    char *key = profile_key(n, in, out);
    int found = key ? profile_find(d->profile, key) : -1;
    Entry like = { .key = key, .bytes = infos_bytes(n, in, out) };

    if (n->op->flops) like.flops = n->op->flops(n, in, out);
    const Entry *e = found >= 0 ? &d->profile->entries[found]
                     : key      ? profile_nearest(d->profile, &like)
                                : NULL;
    free(key);
    if (!e) return 0;
    double more = found < 0 ? times_the_work(&like, e) : 1;
    double bytes = (double)e->scratch_bytes * (more > 1 ? more : 1);
    return bytes < (double)PROFILE_MOST_BYTES ? (size_t)bytes : (size_t)PROFILE_MOST_BYTES;
}

/* ---- The numerics record -------------------------------------------------------------- */

static char *numerics_save(Device *d)
{
    return d->record ? json_dumps(d->record, JSON_COMPACT) : NULL;
}

static bool same_maker(const json_t *a, const json_t *b)
{
    return json_equal(json_object_get(a, "made_with"), json_object_get(b, "made_with"));
}

/* Take the choices over that are not known yet; one that is known must agree. */
static TideStatus adopt(Device *d, const json_t *given)
{
    json_t *known = json_object_get(d->record, "choices"), *value;
    const char *key;

    json_object_foreach(json_object_get(given, "choices"), key, value)
    {
        const json_t *have = json_object_get(known, key);
        if (!have || json_equal(have, value)) continue;
        snprintf(d->message, sizeof d->message, "another choice for \"%.200s\" was given before", key);
        return TIDE_BAD_FILE;
    }
    return json_object_update(known, json_object_get(given, "choices")) ? TIDE_NO_MEMORY : TIDE_OK;
}

static TideStatus numerics_load(Device *d, const char *text)
{
    json_t *given = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    TideStatus status = given ? TIDE_OK : TIDE_BAD_FILE;

    if (!given) snprintf(d->message, sizeof d->message, "a record of choices is malformed");
    if (!status && d->record && same_maker(d->record, given)) status = adopt(d, given);
    json_decref(given);
    return status;
}

/* ---- Opening ------------------------------------------------------------------------------ */

static void close_device(Device *d)
{
    if (!d) return;
    tide_profile_free(d->profile);
    json_decref(d->record);
    free(d);
}

static void describe(Device *d)
{
    const TideProfile *f = d->profile;
    const DeviceFacts *facts = &f->facts;

    snprintf(d->kind, sizeof d->kind, "%.*s", (int)strcspn(f->device, ":"), f->device);
    d->backend = (Backend){ .name = d->kind,
                            .rough = { .flops_per_second = facts->flops_per_second,
                                       .bytes_per_second = facts->bytes_per_second,
                                       .link_bytes_per_second = f->link.out,
                                       .launch_seconds = facts->launch_seconds,
                                       .fixed_bytes = f->fixed_bytes },
                            .alignment = f->alignment,
                            .types = facts->types,
                            .block_elements = facts->block_elements,
                            .scratch = scratch,
                            .close = close_device,
                            .message = message,
                            .versions = versions,
                            .memory = memory,
                            .device_alloc = alloc,
                            .host_alloc = alloc,
                            .stream_new = stream_new };
    if (f->record) {
        d->record = json_loads(f->record, 0, NULL);
        d->backend.numerics_save = numerics_save;
        d->backend.numerics_load = numerics_load;
    }
}

TideStatus tide_open_profile(const char *path, TideDeviceOptions options, Tide **out)
{
    Tide *t = calloc(1, sizeof *t);
    Device *d = calloc(1, sizeof *d);

    *out = t;
    if (d) d->profile = calloc(1, sizeof *d->profile);
    if (!t || !d || !d->profile) {
        free(d);
        return t ? tide_fail(t, TIDE_NO_MEMORY, "no memory for a profile") : TIDE_NO_MEMORY;
    }
    t->options = options;
    TideStatus status = profile_read(t, path, d->profile);
    if (!status && !d->profile->facts.types)
        status = tide_fail(t, TIDE_BAD_FILE,
                           "%s was made by an older tide and does not describe its device; profile it again",
                           path);
    if (status) {
        close_device(d);
        return status;
    }
    describe(d);
    t->device = d;
    t->backend = &d->backend;
    t->described = true;
    snprintf(t->name, sizeof t->name, "%s", d->profile->device);
    return TIDE_OK;
}
