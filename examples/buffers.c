/* buffers.c - a strict reader of buffer lists: what is not understood is refused, with its line. */
#include "examples/buffers.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/io/out_file.h"

enum { COLUMN_ID, COLUMN_LOWER, COLUMN_UPPER, COLUMN_SIZE, COLUMN_COUNT };
static const char *const column_names[COLUMN_COUNT] = { "id", "lower", "upper", "size" };

/* Columns that change what a placement may be; passing them by would give a wrong answer. */
static const char *const not_supported[] = { "alignment", "gaps", "hint", "offset" };

/* A device that never ends must not take all memory. */
static const size_t MOST_FILE_BYTES = (size_t)256 << 20;

static const uint64_t MOST = (uint64_t)1 << 62; /* of any number, so that sums do not overflow */

typedef struct Reader {
    const Options *o;
    const char *path;
    int line; /* from 1 */
    int column[COLUMN_COUNT], n_columns;
} Reader;

static int refuse_line(const Reader *r, const char *what, const char *text)
{
    return refuse(r->o, "%s, line %d: %s%s%s", r->path, r->line, what, text ? ": " : "", text ? text : "");
}

/* ---- reading ------------------------------------------------------------------------- */

static int read_file(const Reader *r, char **text, size_t *length)
{
    FILE *f = fopen(r->path, "rb");
    size_t room = 1 << 16, n = 0, got = 1;
    char *bytes = f ? malloc(room + 1) : NULL, *grown;

    if (!f) return refuse(r->o, "%s cannot be read: %s", r->path, strerror(errno));
    while (bytes && got && n <= MOST_FILE_BYTES) {
        n += got = fread(bytes + n, 1, room - n, f);
        if (n < room) continue;
        grown = realloc(bytes, 2 * room + 1);
        if (!grown) free(bytes);
        bytes = grown;
        room *= 2;
    }
    int error = ferror(f) ? errno : 0; /* fclose() may change errno */
    fclose(f);
    if (!bytes) return refuse(r->o, "%s: no memory to read it", r->path);
    bytes[n] = 0;
    *text = bytes;
    *length = n;
    if (error) return refuse(r->o, "%s cannot be read: %s", r->path, strerror(error));
    if (n > MOST_FILE_BYTES)
        return refuse(r->o, "%s is larger than %zu bytes, the most that is read; split it", r->path,
                      MOST_FILE_BYTES);
    if (strlen(bytes) != n) return refuse(r->o, "%s is no text: it holds a zero byte", r->path);
    return EXIT_DONE;
}

/* Cut the line at *at off and move *at behind it; NULL at the end. */
static char *take_line(char **at)
{
    char *line = *at, *end;

    if (!*line) return NULL;
    end = line + strcspn(line, "\n");
    *at = *end ? end + 1 : end;
    *end = 0;
    if (end > line && end[-1] == '\r') end[-1] = 0;
    return line;
}

/* The length of the field at text, which ends at a comma or the line's end. */
static size_t field_length(const char *text)
{
    return strcspn(text, ",");
}

static bool field_is(const char *field, size_t n, const char *name)
{
    return strlen(name) == n && !strncmp(field, name, n);
}

static int read_header(Reader *r, const char *line)
{
    for (int i = 0; i < COLUMN_COUNT; i++) r->column[i] = -1;
    for (const char *at = line;; at++) {
        size_t n = field_length(at);
        for (size_t i = 0; i < sizeof not_supported / sizeof *not_supported; i++)
            if (field_is(at, n, not_supported[i]))
                return refuse_line(r, "this column is not supported", not_supported[i]);
        for (int i = 0; i < COLUMN_COUNT; i++) {
            if (!field_is(at, n, column_names[i])) continue;
            if (r->column[i] >= 0) return refuse_line(r, "the column stands twice", column_names[i]);
            r->column[i] = r->n_columns;
        }
        r->n_columns++;
        at += n;
        if (!*at) break;
    }
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (r->column[i] < 0) return refuse_line(r, "the first line must name the column", column_names[i]);
    return EXIT_DONE;
}

static bool read_number(const char *text, size_t length, uint64_t *out)
{
    uint64_t n = 0;

    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i])) return false;
        n = 10 * n + (uint64_t)(text[i] - '0');
        if (n > MOST) return false;
    }
    *out = n;
    return length > 0;
}

static int read_row(Reader *r, const char *line, BufferFile *b, int row)
{
    uint64_t value[COLUMN_COUNT] = { 0 };
    int n = 0;

    for (const char *at = line;; at++) {
        size_t length = field_length(at);
        for (int i = COLUMN_LOWER; i < COLUMN_COUNT; i++)
            if (r->column[i] == n && !read_number(at, length, &value[i]))
                return refuse_line(r, "not a whole number from 0 to 2^62 in column", column_names[i]);
        if (r->column[COLUMN_ID] == n && !length) return refuse_line(r, "the id is empty", NULL);
        n++;
        at += length;
        if (!*at) break;
    }
    if (n != r->n_columns) return refuse_line(r, "the number of columns is not that of the first line", line);
    if (value[COLUMN_LOWER] >= value[COLUMN_UPPER]) return refuse_line(r, "lower must be below upper", line);
    b->lower[row] = (int64_t)value[COLUMN_LOWER];
    b->upper[row] = (int64_t)value[COLUMN_UPPER];
    b->size[row] = (int64_t)value[COLUMN_SIZE];
    return EXIT_DONE;
}

static bool make_room(BufferFile *b, size_t lines)
{
    b->lower = calloc(lines, sizeof *b->lower);
    b->upper = calloc(lines, sizeof *b->upper);
    b->size = calloc(lines, sizeof *b->size);
    b->offset = calloc(lines, sizeof *b->offset);
    b->rows = calloc(lines, sizeof *b->rows);
    return b->lower && b->upper && b->size && b->offset && b->rows;
}

static int read_rows(Reader *r, char *at, BufferFile *b)
{
    uint64_t total = 0;
    int rc = EXIT_DONE;

    for (char *line; !rc && (line = take_line(&at)) != NULL; b->n++) {
        r->line++;
        rc = read_row(r, line, b, b->n);
        b->rows[b->n] = line;
        total += (uint64_t)b->size[b->n];
        if (!rc && total > MOST) rc = refuse_line(r, "the sizes sum to more than 2^62", NULL);
    }
    if (!rc && !b->n) rc = refuse(r->o, "%s holds no buffers, only a first line", r->path);
    return rc;
}

/* Ids tell buffers apart, so two of a kind are a mistake. */
static int compare_fields(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    size_t n = field_length(x), m = field_length(y);
    int order = strncmp(x, y, n < m ? n : m);

    return order ? order : (n > m) - (n < m);
}

static int check_ids(const Reader *r, const BufferFile *b)
{
    const char **ids = calloc((size_t)b->n, sizeof *ids);
    int rc = EXIT_DONE;

    if (!ids) return refuse(r->o, "%s: no memory for %d ids", r->path, b->n);
    for (int i = 0; i < b->n; i++) {
        ids[i] = b->rows[i];
        for (int c = 0; c < r->column[COLUMN_ID]; c++) ids[i] += field_length(ids[i]) + 1;
    }
    qsort(ids, (size_t)b->n, sizeof *ids, compare_fields);
    for (int i = 1; !rc && i < b->n; i++)
        if (!compare_fields(&ids[i - 1], &ids[i]))
            rc = refuse(r->o, "%s: the id %.*s stands twice", r->path, (int)field_length(ids[i]), ids[i]);
    free(ids);
    return rc;
}

int buffers_read(const Options *o, const char *path, BufferFile *b)
{
    Reader r = { .o = o, .path = path, .line = 1 };
    size_t length = 0, lines = 1;
    int rc;

    *b = (BufferFile){ 0 };
    rc = read_file(&r, &b->text, &length);
    if (rc) return rc;
    for (size_t i = 0; i < length; i++) lines += b->text[i] == '\n';
    if (lines > INT32_MAX || !make_room(b, lines))
        return refuse(o, "%s: no memory for %zu buffers", path, lines);
    char *at = b->text;
    b->header = take_line(&at);
    if (!b->header)
        return refuse(o, "%s is empty; its first line must name the columns id,lower,upper,size", path);
    rc = read_header(&r, b->header);
    if (!rc) rc = read_rows(&r, at, b);
    return rc ? rc : check_ids(&r, b);
}

/* ---- writing --------------------------------------------------------------------------- */

int buffers_write(const Options *o, const BufferFile *b, const char *path)
{
    OutFile f;
    bool ok = out_file_open(&f, path);

    if (ok) {
        fprintf(f.to, "%s,offset\n", b->header);
        for (int i = 0; i < b->n; i++) fprintf(f.to, "%s,%lld\n", b->rows[i], (long long)b->offset[i]);
        ok = out_file_close(&f);
    }
    if (ok) return EXIT_DONE;
    refuse(o, "-o %s cannot be written: %s", path, strerror(errno));
    return EXIT_WORLD;
}

void buffers_free(BufferFile *b)
{
    free(b->lower);
    free(b->upper);
    free(b->size);
    free(b->offset);
    free(b->rows);
    free(b->text);
}
