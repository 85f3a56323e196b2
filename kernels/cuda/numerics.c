/* numerics.c - the table of choices, its JSON text, and its copy in the user's cache folder. */
#include "kernels/cuda/numerics.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Table ------------------------------------------------------------------ */

static Choice *find(const Numerics *n, const char *key)
{
    for (int i = 0; i < n->n_choices; i++)
        if (strcmp(n->choices[i].key, key) == 0) return &n->choices[i];
    return NULL;
}

const char *numerics_wish(const Numerics *n, const char *what)
{
    const Choice *c = find(n, what);

    return c ? c->value : NULL;
}

const char *numerics_use(Numerics *n, const char *key, const char *wish)
{
    Choice *c = find(n, key);

    if (!c || (wish && c->source == CHOICE_CACHED)) return NULL;
    c->used = true;
    return c->value;
}

bool numerics_add(Numerics *n, const char *key, const char *value, ChoiceSource source)
{
    Choice *c = find(n, key);

    if (!c) {
        Choice *grown = realloc(n->choices, ((size_t)n->n_choices + 1) * sizeof *grown);
        if (!grown) return false;
        n->choices = grown;
        c = &grown[n->n_choices++];
    }
    *c = (Choice){ .source = source };
    snprintf(c->key, sizeof c->key, "%s", key);
    snprintf(c->value, sizeof c->value, "%s", value);
    return true;
}

void numerics_free(Numerics *n)
{
    free(n->choices);
    *n = (Numerics){ 0 };
}

/* ---- Text ------------------------------------------------------------------- */

static bool is_idle(const Choice *c)
{
    return c->source == CHOICE_CACHED && !c->used;
}

static char *text_of(const Numerics *n, bool idle_too)
{
    json_t *choices = json_object();
    char *text = NULL;

    for (int i = 0; choices && i < n->n_choices; i++)
        if ((idle_too || !is_idle(&n->choices[i])) &&
            json_object_set_new(choices, n->choices[i].key, json_string(n->choices[i].value))) {
            json_decref(choices);
            choices = NULL;
        }
    if (!choices) return NULL;
    json_t *all =
        json_pack("{s:i, s:s, s:o}", "tide_numerics", 1, "made_with", n->made_with, "choices", choices);
    if (all) text = json_dumps(all, JSON_INDENT(1) | JSON_SORT_KEYS);
    json_decref(all);
    return text;
}

char *numerics_text(const Numerics *n)
{
    return text_of(n, false);
}

/* Take one choice of a record; false if it contradicts what is in use or was given before. */
static bool adopt_choice(Numerics *n, const char *key, const char *value, ChoiceSource source)
{
    Choice *c = find(n, key);

    if (!c) return numerics_add(n, key, value, source);
    if (strcmp(c->value, value) == 0) {
        if (c->source == CHOICE_CACHED) c->source = source; /* what was timed here still goes to the cache */
        return true;
    }
    if (c->used || c->source == CHOICE_GIVEN) return false;
    snprintf(c->value, sizeof c->value, "%s", value);
    c->source = source;
    return true;
}

static TideStatus adopt_choices(Numerics *n, json_t *choices, ChoiceSource source, char *why, size_t size)
{
    const char *key;
    json_t *value;

    json_object_foreach(choices, key, value)
    {
        const char *text = json_string_value(value);
        if (!text || strlen(text) >= NUMERICS_VALUE_BYTES || strlen(key) >= NUMERICS_KEY_BYTES) {
            snprintf(why, size, "numerics record: the choice for \"%.80s\" is not a short string", key);
            return TIDE_BAD_FILE;
        }
        if (!adopt_choice(n, key, text, source)) {
            snprintf(why, size,
                     "numerics record: \"%.80s\" was already decided otherwise; give records that agree, or "
                     "only one",
                     key);
            return TIDE_BAD_FILE;
        }
    }
    return TIDE_OK;
}

TideStatus numerics_adopt(Numerics *n, const char *json, ChoiceSource source, char *why, size_t size)
{
    json_error_t error;
    json_t *all = json_loads(json, JSON_REJECT_DUPLICATES, &error), *choices = NULL;
    const char *made_with = NULL;
    int version = 0;

    if (!all ||
        json_unpack(all, "{s:i, s:s, s:o!}", "tide_numerics", &version, "made_with", &made_with, "choices",
                    &choices) ||
        version != 1 || !json_is_object(choices)) {
        snprintf(why, size, "numerics record: not a tide_numerics 1 document");
        json_decref(all);
        return TIDE_BAD_FILE;
    }
    TideStatus status = TIDE_OK;
    if (strcmp(made_with, n->made_with) == 0) status = adopt_choices(n, choices, source, why, size);
    json_decref(all);
    return status;
}

/* ---- Cache -------------------------------------------------------------------- */

enum { PATH_BYTES = 512 };

/* FNV-1a. */
static unsigned long long hash_of(const char *text)
{
    unsigned long long h = 14695981039346656037ull;

    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211ull;
    return h;
}

/* The cache's folder; false where the environment names none. */
static bool cache_folder(char *path, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;

    if (cache && cache[0] == '/')
        n = snprintf(path, size, "%s", cache);
    else if (home && home[0] == '/')
        n = snprintf(path, size, "%s/.cache", home);
    return n > 0 && (size_t)n < size;
}

static bool cache_path(const Numerics *n, char *path, size_t size)
{
    char folder[PATH_BYTES], device[64];
    size_t length = strcspn(n->made_with, ",");

    if (!cache_folder(folder, sizeof folder)) return false;
    if (length >= sizeof device) length = sizeof device - 1;
    for (size_t i = 0; i < length; i++) {
        char c = n->made_with[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        device[i] = plain ? c : '_';
    }
    device[length] = 0;
    int m = snprintf(path, size, "%s/tide/numerics-%s-%016llx.json", folder, device, hash_of(n->made_with));
    return m > 0 && (size_t)m < size;
}

/* A whole small file as text; NULL if it cannot be read. */
static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    long bytes = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;

    if (bytes >= 0 && fseek(f, 0, SEEK_SET) == 0) text = malloc((size_t)bytes + 1);
    if (text && fread(text, 1, (size_t)bytes, f) != (size_t)bytes) {
        free(text);
        text = NULL;
    }
    if (text) text[bytes] = 0;
    if (f) fclose(f);
    return text;
}

void numerics_cache_read(Numerics *n)
{
    char path[2 * PATH_BYTES], why[NUMERICS_VALUE_BYTES];
    char *text = cache_path(n, path, sizeof path) ? read_text(path) : NULL;

    if (text) (void)numerics_adopt(n, text, CHOICE_CACHED, why, sizeof why);
    free(text);
}

static bool write_text(const char *path, const char *text)
{
    char temporary[2 * PATH_BYTES + 32];

    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    FILE *f = fopen(temporary, "wb");
    bool ok = f && fputs(text, f) >= 0;
    if (f && fclose(f)) ok = false;
    if (ok && rename(temporary, path) == 0) return true;
    if (f) remove(temporary);
    return false;
}

/* What was timed here is added to what the file holds by now: the first heuristic of an unprepared run is
 * not worth a place there, and a record that the user gave is that file's own. */
void numerics_cache_write(const Numerics *n)
{
    Numerics kept = { 0 };
    char path[2 * PATH_BYTES], folder[PATH_BYTES];
    bool timed = false, ok = cache_folder(folder, sizeof folder) && cache_path(n, path, sizeof path);

    memcpy(kept.made_with, n->made_with, sizeof kept.made_with);
    if (ok) numerics_cache_read(&kept);
    for (int i = 0; ok && i < n->n_choices; i++) {
        const Choice *c = &n->choices[i];
        if (c->source != CHOICE_TIMED) continue;
        timed = true;
        ok = numerics_add(&kept, c->key, c->value, c->source);
    }
    char *text = ok && timed ? text_of(&kept, true) : NULL;
    if (text) {
        mkdir(folder, 0755);
        char *slash = strrchr(path, '/');
        *slash = 0;
        mkdir(path, 0755);
        *slash = '/';
        write_text(path, text);
    }
    free(text);
    numerics_free(&kept);
}
