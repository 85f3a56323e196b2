/* bpe_vocabulary.c - reads encoder.json and vocab.bpe.
 *
 * Both write bytes as printable characters: 33..126, 161..172 and 174..255 stand for themselves, the other
 * 68 in rising order for U+0100 and up. */
#include <stdlib.h>
#include <string.h>
#include "models/text/bpe.h"
#include "models/text/bytes.h"
#include "models/text/unicode.h"
#include "runtime/base.h"
#include "runtime/io/json_read.h"
#include "runtime/op.h"

enum { MOST_FILE_BYTES = 1 << 28, MOST_TOKENS = 1 << 24, MOST_PIECE = 1 << 16 };

static bool shows_itself(int byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

/* The byte that a character stands for; -1: none. */
static int byte_of(uint32_t code)
{
    if (code < 256) return shows_itself((int)code) ? (int)code : -1;
    uint32_t next = 256;
    for (int byte = 0; byte < 256; byte++)
        if (!shows_itself(byte) && next++ == code) return byte;
    return -1;
}

/* ---- encoder.json --------------------------------------------------------- */

/* Write the bytes that a name stands for, and how many. False for a name with other characters, such as that
 * of a mark may be, which stands for itself. to [strlen(name)]. */
static bool bytes_of_name(const char *name, unsigned char *to, size_t *length)
{
    const unsigned char *s = (const unsigned char *)name;
    size_t n = strlen(name), bytes;

    *length = 0;
    for (size_t i = 0; i < n; i += bytes) {
        int byte = byte_of(char_next(s + i, n - i, &bytes));
        if (byte < 0) {
            memcpy(to, name, n);
            *length = n;
            return false;
        }
        to[(*length)++] = (unsigned char)byte;
    }
    return true;
}

static TideStatus read_token(const JsonAt *at, int size, Vocabulary *v, size_t *used)
{
    int64_t id;
    size_t n;

    TRY(read_int(at, 0, size - 1, &id));
    if (v->pieces[id].n) return read_refuse(at, "is %lld, as another entry is", (long long)id);
    bool bytes = bytes_of_name(at->key, v->text + *used, &n);
    if (!n || n > MOST_PIECE) return read_refuse(at, "its name has %zu bytes; 1 to %d", n, (int)MOST_PIECE);
    v->pieces[id] = (Piece){ (uint32_t)*used, (uint32_t)n };
    if (bytes && n == 1) v->byte_token[v->text[*used]] = (int32_t)id;
    *used += n;
    return TIDE_OK;
}

static TideStatus allocate(const JsonFile *f, Vocabulary *v)
{
    const char *key;
    json_t *value;
    size_t bytes = 0, n = json_object_size(f->root);

    if (!json_is_object(f->root) || n < 257 || n > MOST_TOKENS)
        return tide_fail(f->tide, TIDE_BAD_FILE,
                         "%s: has %zu tokens; a vocabulary of byte pairs has 257 to %d", f->path, n,
                         (int)MOST_TOKENS);
    json_object_foreach(f->root, key, value) bytes += strlen(key);
    v->size = (int)n;
    v->pieces = calloc(n, sizeof *v->pieces);
    v->text = malloc(bytes + 1);
    if (v->pieces && v->text) return TIDE_OK;
    return tide_fail(f->tide, TIDE_NO_MEMORY, "%s: no memory for %zu tokens", f->path, n);
}

static TideStatus read_tokens(const JsonFile *f, Vocabulary *v)
{
    JsonAt root = read_root(f);
    const char *key;
    json_t *value;
    size_t used = 0;

    TRY(allocate(f, v));
    for (int i = 0; i < 256; i++) v->byte_token[i] = -1;
    json_object_foreach(f->root, key, value)
    {
        JsonAt at = { .file = f, .up = &root, .key = key, .value = value };
        TRY(read_token(&at, v->size, v, &used));
    }
    JsonAt mark;
    int64_t id;
    TRY(read_member(&root, "<|endoftext|>", &mark));
    TRY(read_int(&mark, 0, v->size - 1, &id));
    v->end_of_text = (int32_t)id;
    return TIDE_OK;
}

/* ---- vocab.bpe ------------------------------------------------------------ */

static size_t slot_of(const Vocabulary *v, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    size_t i = (size_t)(h >> 32) & (v->slots - 1);

    while (v->pairs[i].left >= 0 && (v->pairs[i].left != left || v->pairs[i].right != right))
        i = (i + 1) & (v->slots - 1);
    return i;
}

const Pair *vocabulary_pair(const Vocabulary *v, int32_t left, int32_t right)
{
    const Pair *p = &v->pairs[slot_of(v, left, right)];

    return p->left >= 0 ? p : NULL;
}

/* The lines of a file with merges, and which tokens they made so far. */
typedef struct Merges {
    const JsonFile *encoder;
    const char *path;
    char *at, *end; /* what is left */
    int line, rank;
    bool *made; /* [size] */
} Merges;

static TideStatus refuse_line(const Merges *m, const char *why, const char *what)
{
    return tide_fail(m->encoder->tide, TIDE_BAD_FILE, "%s: line %d: %s '%.60s'", m->path, m->line, why, what);
}

/* The token of a part, which a byte or an earlier line must have made. */
static TideStatus find_part(const Merges *m, const char *name, int32_t *id)
{
    const json_t *value = json_object_get(m->encoder->root, name);

    if (!value) return refuse_line(m, "the vocabulary has no", name);
    *id = (int32_t)json_integer_value(value);
    return m->made[*id] ? TIDE_OK : refuse_line(m, "no earlier line makes", name);
}

static TideStatus take_merge(Merges *m, char *line, Vocabulary *v)
{
    char *space = strchr(line, ' '), whole[MOST_PIECE];
    Pair p = { .rank = m->rank };

    if (!space || space == line || !space[1] || strchr(space + 1, ' '))
        return refuse_line(m, "must hold two parts and one space between them, not", line);
    *space = 0;
    TRY(find_part(m, line, &p.left));
    TRY(find_part(m, space + 1, &p.right));
    if (snprintf(whole, sizeof whole, "%s%s", line, space + 1) >= (int)sizeof whole)
        return refuse_line(m, "too long:", line);
    const json_t *value = json_object_get(m->encoder->root, whole);
    if (!value) return refuse_line(m, "the vocabulary has no", whole);
    p.result = (int32_t)json_integer_value(value);
    if (m->made[p.result]) return refuse_line(m, "an earlier line makes", whole);
    m->made[p.result] = true;
    v->pairs[slot_of(v, p.left, p.right)] = p;
    m->rank++;
    return TIDE_OK;
}

/* The next line without its end, in place; NULL after the last. */
static char *next_line(Merges *m)
{
    char *line = m->at, *end;

    if (line >= m->end) return NULL;
    end = memchr(line, '\n', (size_t)(m->end - line));
    m->at = end ? end + 1 : m->end;
    if (!end) end = m->end;
    if (end > line && end[-1] == '\r') end--;
    *end = 0; /* the file's last byte has one more behind it */
    m->line++;
    return line;
}

static TideStatus read_merges(Merges *m, Vocabulary *v)
{
    char *line;

    while ((line = next_line(m))) {
        if (!*line || (m->line == 1 && !strncmp(line, "#version", 8))) continue;
        if (m->rank == v->size) return refuse_line(m, "more merges than tokens:", line);
        TRY(take_merge(m, line, v));
    }
    if (m->rank) return TIDE_OK;
    return tide_fail(m->encoder->tide, TIDE_BAD_FILE, "%s: holds no merges", m->path);
}

/* A table at most half full, and the tokens that stand for bytes. */
static TideStatus begin_merges(Tide *t, Vocabulary *v, bool **made)
{
    for (v->slots = 512; v->slots < 2 * (size_t)v->size; v->slots *= 2) {}
    v->pairs = malloc(v->slots * sizeof *v->pairs);
    *made = calloc((size_t)v->size, sizeof **made);
    if (!v->pairs || !*made) return tide_fail(t, TIDE_NO_MEMORY, "no memory for %d merges", v->size);
    for (size_t i = 0; i < v->slots; i++) v->pairs[i].left = -1;
    for (int i = 0; i < 256; i++)
        if (v->byte_token[i] >= 0) (*made)[v->byte_token[i]] = true;
    return TIDE_OK;
}

static TideStatus read_both(const JsonFile *encoder, const char *path, Vocabulary *v)
{
    Bytes file = { 0 };
    Merges m = { .encoder = encoder, .path = path };
    TideStatus status = read_tokens(encoder, v);

    if (!status) status = bytes_read(encoder->tide, path, &file);
    if (!status && file.n > MOST_FILE_BYTES)
        status = tide_fail(encoder->tide, TIDE_BAD_FILE, "%s: has %zu bytes, more than any list of merges",
                           path, file.n);
    if (!status) status = begin_merges(encoder->tide, v, &m.made);
    if (!status) {
        m.at = (char *)file.at;
        m.end = m.at + file.n;
        status = read_merges(&m, v);
    }
    free(m.made);
    bytes_free(&file);
    return status;
}

TideStatus vocabulary_read(Tide *t, const char *encoder_path, const char *merges_path, Vocabulary *out)
{
    JsonFile encoder;
    TideStatus status = read_open(t, encoder_path, MOST_FILE_BYTES, &encoder);

    *out = (Vocabulary){ 0 };
    if (!status) status = read_both(&encoder, merges_path, out);
    read_close(&encoder);
    return status;
}

void vocabulary_free(Vocabulary *v)
{
    free(v->pieces);
    free(v->text);
    free(v->pairs);
    *v = (Vocabulary){ 0 };
}
