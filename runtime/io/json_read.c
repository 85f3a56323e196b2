/* json_read.c - strict reading of JSON: nothing unknown, nothing twice, nothing out of range. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/io/json_read.h"

/* ---- Messages ------------------------------------------------------------- */

/* The way to a value, "sections[0].slots[3]", into text[size]. Returns its length. */
static size_t way(const JsonAt *at, char *text, size_t size)
{
    size_t n = at->up ? way(at->up, text, size) : 0;

    if (!at->up || n + 1 >= size) return n;
    if (at->key)
        snprintf(text + n, size - n, "%s%.40s", n ? "." : "", at->key);
    else
        snprintf(text + n, size - n, "[%zu]", at->index);
    return n + strlen(text + n);
}

TideStatus read_refuse(const JsonAt *at, const char *format, ...)
{
    char where[160] = "", text[640];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    way(at, where, sizeof where);
    return tide_fail(at->file->tide, TIDE_BAD_FILE, "%s: %s %s", at->file->path,
                     *where ? where : "the document", text);
}

typedef struct ShortText {
    char s[60];
} ShortText;

/* What a value is, for a message: "-1", "1.5", "\"abc\"", "an object". */
static ShortText value_text(const json_t *v)
{
    ShortText t;

    switch (json_typeof(v)) {
    case JSON_OBJECT: snprintf(t.s, sizeof t.s, "an object"); break;
    case JSON_ARRAY: snprintf(t.s, sizeof t.s, "an array of %zu", json_array_size(v)); break;
    case JSON_STRING: snprintf(t.s, sizeof t.s, "\"%.40s\"", json_string_value(v)); break;
    case JSON_INTEGER: snprintf(t.s, sizeof t.s, "%" JSON_INTEGER_FORMAT, json_integer_value(v)); break;
    case JSON_REAL: snprintf(t.s, sizeof t.s, "%.17g", json_real_value(v)); break;
    case JSON_TRUE: snprintf(t.s, sizeof t.s, "true"); break;
    case JSON_FALSE: snprintf(t.s, sizeof t.s, "false"); break;
    case JSON_NULL: snprintf(t.s, sizeof t.s, "null"); break;
    }
    return t;
}

/* ---- Files ---------------------------------------------------------------- */

static TideStatus cannot_read(const JsonFile *f)
{
    return tide_fail(f->tide, TIDE_IO, "%s: cannot read it: %s", f->path, strerror(errno));
}

/* The whole of an open file into *text, which the caller frees, also after a failure. */
static TideStatus read_all(const JsonFile *f, FILE *from, size_t most, char **text, size_t *length)
{
    size_t room = 1 << 16;

    *length = 0;
    *text = malloc(room);
    while (*text) {
        size_t n = fread(*text + *length, 1, room - *length, from);
        *length += n;
        if (ferror(from)) return cannot_read(f);
        if (*length > most)
            return tide_fail(f->tide, TIDE_BAD_FILE, "%s: it is larger than %zu bytes, the most that is read",
                             f->path, most);
        if (n == 0) return TIDE_OK;
        if (*length < room) continue;
        char *larger = realloc(*text, room *= 2);
        if (!larger) break;
        *text = larger;
    }
    return tide_fail(f->tide, TIDE_NO_MEMORY, "%s: no memory for %zu bytes", f->path, room);
}

static TideStatus parse(JsonFile *f, const char *text, size_t length)
{
    json_error_t error;

    if (length == 0) return tide_fail(f->tide, TIDE_BAD_FILE, "%s: the file is empty", f->path);
    f->root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (f->root) return TIDE_OK;
    return tide_fail(f->tide, TIDE_BAD_FILE, "%s: line %d, column %d: %s", f->path, error.line, error.column,
                     error.text);
}

TideStatus read_open(Tide *t, const char *path, size_t most, JsonFile *out)
{
    char *text = NULL;
    size_t length;

    *out = (JsonFile){ .tide = t, .path = path };
    FILE *from = fopen(path, "rb");
    if (!from) return cannot_read(out);
    TideStatus status = read_all(out, from, most, &text, &length);
    fclose(from);
    if (!status) status = parse(out, text, length);
    free(text);
    return status;
}

void read_close(JsonFile *f)
{
    json_decref(f->root);
    f->root = NULL;
}

JsonAt read_root(const JsonFile *f)
{
    return (JsonAt){ .file = f, .value = f->root };
}

/* ---- Objects and arrays --------------------------------------------------- */

TideStatus read_keys(const JsonAt *at, const char *const *keys)
{
    if (!json_is_object(at->value))
        return read_refuse(at, "is %s, it must be an object", value_text(at->value).s);
    /* Jansson walks objects that it may change, so it wants them without const. */
    json_t *object = (json_t *)(uintptr_t)at->value;
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        int k = 0;
        while (keys[k] && strcmp(keys[k], json_object_iter_key(i)) != 0) k++;
        if (!keys[k]) return read_refuse(at, "has an unknown key \"%.60s\"", json_object_iter_key(i));
    }
    return TIDE_OK;
}

bool read_has(const JsonAt *at, const char *key)
{
    return json_object_get(at->value, key) != NULL;
}

TideStatus read_member(const JsonAt *at, const char *key, JsonAt *out)
{
    *out = (JsonAt){ .file = at->file, .up = at, .key = key, .value = json_object_get(at->value, key) };
    if (!json_is_object(at->value))
        return read_refuse(at, "is %s, it must be an object", value_text(at->value).s);
    return out->value ? TIDE_OK : read_refuse(at, "lacks the key \"%s\"", key);
}

TideStatus read_array(const JsonAt *at, size_t least, size_t most, size_t *n)
{
    if (!json_is_array(at->value))
        return read_refuse(at, "is %s, it must be an array", value_text(at->value).s);
    *n = json_array_size(at->value);
    if (*n >= least && *n <= most) return TIDE_OK;
    if (least == most) return read_refuse(at, "has %zu items, it must have %zu", *n, least);
    return read_refuse(at, "has %zu items, it must have %zu to %zu", *n, least, most);
}

JsonAt read_item(const JsonAt *at, size_t i)
{
    return (JsonAt){ .file = at->file, .up = at, .index = i, .value = json_array_get(at->value, i) };
}

/* ---- Values --------------------------------------------------------------- */

TideStatus read_int(const JsonAt *at, int64_t low, int64_t high, int64_t *out)
{
    if (!json_is_integer(at->value) || json_integer_value(at->value) < low ||
        json_integer_value(at->value) > high)
        return read_refuse(at, "is %s, it must be a whole number from %" PRId64 " to %" PRId64,
                           value_text(at->value).s, low, high);
    *out = json_integer_value(at->value);
    return TIDE_OK;
}

TideStatus read_size(const JsonAt *at, size_t *out)
{
    int64_t n = 0;

    TRY(read_int(at, 0, (int64_t)1 << 62, &n));
    *out = (size_t)n;
    return TIDE_OK;
}

TideStatus read_real(const JsonAt *at, double low, double high, double *out)
{
    double x = json_number_value(at->value);

    if (!json_is_number(at->value) || !(x >= low && x <= high))
        return read_refuse(at, "is %s, it must be a number from %g to %g", value_text(at->value).s, low,
                           high);
    *out = x;
    return TIDE_OK;
}

TideStatus read_version(const JsonAt *root, const char *key, int version)
{
    JsonAt at;
    int64_t found = 0;

    TRY(read_member(root, key, &at));
    TRY(read_int(&at, 0, INT32_MAX, &found));
    if (found == version) return TIDE_OK;
    return read_refuse(&at, "is version %" PRId64 "; this program reads version %d", found, version);
}

TideStatus read_text(const JsonAt *at, const char **out)
{
    if (!json_is_string(at->value))
        return read_refuse(at, "is %s, it must be a string", value_text(at->value).s);
    *out = json_string_value(at->value);
    return TIDE_OK;
}

TideStatus read_flag(const JsonAt *at, bool *out)
{
    if (!json_is_boolean(at->value))
        return read_refuse(at, "is %s, it must be true or false", value_text(at->value).s);
    *out = json_is_true(at->value);
    return TIDE_OK;
}

TideStatus read_word(const JsonAt *at, const char *const *words, int n, int *out)
{
    const char *s = NULL;
    char list[200] = "";

    TRY(read_text(at, &s));
    for (*out = 0; *out < n; ++*out)
        if (strcmp(words[*out], s) == 0) return TIDE_OK;
    for (int i = 0; i < n; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
    }
    return read_refuse(at, "is \"%.40s\", it must be one of %s", s, list);
}

TideStatus read_hash(const JsonAt *at, uint64_t *out)
{
    const char *s = NULL;

    TRY(read_text(at, &s));
    if (strlen(s) != 16 || strspn(s, "0123456789abcdef") != 16)
        return read_refuse(at, "is \"%.40s\", it must be 16 hexadecimal digits", s);
    *out = strtoull(s, NULL, 16);
    return TIDE_OK;
}

TideStatus read_name(const JsonAt *object, const char *key, bool may_be_empty, const char **out)
{
    enum { LONGEST_NAME = 200 };
    JsonAt at;

    TRY(read_member(object, key, &at));
    TRY(read_text(&at, out));
    size_t n = strlen(*out);
    if (n > LONGEST_NAME) return read_refuse(&at, "has %zu bytes, the most is %d", n, LONGEST_NAME);
    if (n == 0 && !may_be_empty) return read_refuse(&at, "is empty");
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)(*out)[i] < 0x20 || (*out)[i] == 0x7f)
            return read_refuse(&at, "holds a control character (code %d)", (*out)[i]);
    return TIDE_OK;
}

TideStatus read_optional_int(const JsonAt *object, const char *key, int64_t most, int64_t *out)
{
    JsonAt at;

    if (!read_has(object, key)) return TIDE_OK;
    TRY(read_member(object, key, &at));
    return read_int(&at, 0, most, out);
}

TideStatus read_optional_real(const JsonAt *object, const char *key, double most, double *out)
{
    JsonAt at;

    if (!read_has(object, key)) return TIDE_OK;
    TRY(read_member(object, key, &at));
    return read_real(&at, 0, most, out);
}

TideStatus read_optional_flag(const JsonAt *object, const char *key, bool *out)
{
    JsonAt at;

    if (!read_has(object, key)) return TIDE_OK;
    TRY(read_member(object, key, &at));
    return read_flag(&at, out);
}

int write_text(FILE *to, const char *s)
{
    fputc('"', to);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c < 0x20)
            fprintf(to, "\\u%04x", (unsigned)c);
        else
            fputc(c, to);
    }
    return fputc('"', to);
}
