/* llama2c.c - the order of a file of llama2.c as names, shapes and offsets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "models/files/llama2c.h"
#include "runtime/base.h"

enum { MAGIC = 0x616b3432, SIZES = 7, NAME_BYTES = 64, HEADER_V0 = 4 * SIZES, HEADER_V1 = 256 };

/* ---- The header ------------------------------------------------------------------ */

static int32_t int_at(const unsigned char *b)
{
    return (int32_t)((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
}

static void take_sizes(const unsigned char *b, Llama2c *h)
{
    int *const fields[SIZES] = {
        &h->dim, &h->hidden, &h->layers, &h->heads, &h->kv_heads, &h->vocab, &h->seq
    };

    for (int i = 0; i < SIZES; i++) *fields[i] = int_at(b + 4 * i);
}

typedef struct Limit {
    const char *field;
    int value, most;
} Limit;

static TideStatus check_sizes(Tide *t, const char *path, const Llama2c *h)
{
    const Limit limits[] = {
        { "dim", h->dim, 1 << 20 },
        { "hidden_dim", h->hidden, 1 << 22 },
        { "n_layers", h->layers, 1000 },
        { "n_heads", h->heads, 1 << 16 },
        { "n_kv_heads", h->kv_heads, 1 << 16 },
        { "vocab_size", h->vocab, 1 << 24 },
        { "seq_len", h->seq, 1 << 24 },
    };

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].value < 1 || limits[i].value > limits[i].most)
            return tide_fail(t, TIDE_BAD_FILE,
                             "%s: read as a checkpoint of llama2.c its %s is %d; it must be from 1 to %d",
                             path, limits[i].field, limits[i].value, limits[i].most);
    if (h->dim % h->heads || h->heads % h->kv_heads || h->dim / h->heads % 2)
        return tide_fail(
            t, TIDE_BAD_FILE,
            "%s: read as a checkpoint of llama2.c it has dim %d, n_heads %d and n_kv_heads %d; each "
            "must be a multiple of the next, and dim / n_heads even",
            path, h->dim, h->heads, h->kv_heads);
    return TIDE_OK;
}

static TideStatus parse_v1(Tide *t, const char *path, const unsigned char *b, Llama2c *h)
{
    h->version = int_at(b + 4);
    if (h->version != 1)
        return tide_fail(
            t, TIDE_BAD_FILE,
            "%s: a checkpoint of llama2.c of version %d; versions 0 and 1 are read, which hold f32", path,
            h->version);
    take_sizes(b + 8, h);
    h->shared = b[8 + 4 * SIZES] != 0;
    h->data = HEADER_V1;
    return check_sizes(t, path, h);
}

/* A negative vocabulary says that the classifier is a matrix of its own. */
static TideStatus parse_v0(Tide *t, const char *path, const unsigned char *b, Llama2c *h)
{
    take_sizes(b, h);
    h->shared = h->vocab > 0;
    if (h->vocab < 0 && h->vocab != INT32_MIN) h->vocab = -h->vocab;
    h->data = HEADER_V0;
    return check_sizes(t, path, h);
}

/* ---- The order of the tensors ------------------------------------------------------ */

typedef struct Section {
    const char *name;      /* %d is the layer; NULL: bytes that stand for nothing */
    bool layered;          /* one for each layer, one after another */
    int64_t rows, columns; /* columns 0: a vector */
    int64_t pairs;
} Section;

enum { MOST_SECTIONS = 16 };
typedef struct Layout {
    Section section[MOST_SECTIONS];
    int n;
} Layout;

static void add(Layout *l, Section s)
{
    assert(l->n < MOST_SECTIONS);
    l->section[l->n++] = s;
}

static void add_matrices(Layout *l, const Llama2c *h, bool attention)
{
    int64_t head = h->dim / h->heads, kv = head * h->kv_heads;

    if (attention) {
        add(l, (Section){ "model.layers.%d.self_attn.q_proj.weight", true, h->dim, h->dim, head });
        add(l, (Section){ "model.layers.%d.self_attn.k_proj.weight", true, kv, h->dim, head });
        add(l, (Section){ "model.layers.%d.self_attn.v_proj.weight", true, kv, h->dim, 0 });
        add(l, (Section){ "model.layers.%d.self_attn.o_proj.weight", true, h->dim, h->dim, 0 });
    } else {
        add(l, (Section){ "model.layers.%d.mlp.gate_proj.weight", true, h->hidden, h->dim, 0 });
        add(l, (Section){ "model.layers.%d.mlp.down_proj.weight", true, h->dim, h->hidden, 0 });
        add(l, (Section){ "model.layers.%d.mlp.up_proj.weight", true, h->hidden, h->dim, 0 });
    }
}

static Layout layout_of(const Llama2c *h)
{
    const Section embedding = { "model.embed_tokens.weight", false, h->vocab, h->dim, 0 };
    const Section attention_norm = { "model.layers.%d.input_layernorm.weight", true, h->dim, 0, 0 };
    const Section ffn_norm = { "model.layers.%d.post_attention_layernorm.weight", true, h->dim, 0, 0 };
    const Section norm = { "model.norm.weight", false, h->dim, 0, 0 };
    const Section tables = { NULL, false, h->seq, h->dim / h->heads, 0 }; /* cosines, then sines */
    Layout l = { .n = 0 };

    add(&l, h->version ? attention_norm : embedding);
    add(&l, h->version ? ffn_norm : attention_norm);
    if (h->version) {
        add(&l, norm);
        add(&l, embedding);
    }
    add_matrices(&l, h, true);
    if (!h->version) add(&l, ffn_norm);
    add_matrices(&l, h, false);
    if (!h->version) {
        add(&l, norm);
        add(&l, tables);
    }
    if (!h->shared) add(&l, (Section){ "lm_head.weight", false, h->vocab, h->dim, 0 });
    return l;
}

/* No overflow: the sizes were checked to be small. */
static int64_t elements_of(const Section *s)
{
    return s->rows * (s->columns ? s->columns : 1);
}

static int64_t count_of(const Section *s, const Llama2c *h)
{
    return s->layered ? h->layers : 1;
}

static int64_t end_of(const Llama2c *h)
{
    Layout l = layout_of(h);
    int64_t elements = 0;

    for (int i = 0; i < l.n; i++) elements += count_of(&l.section[i], h) * elements_of(&l.section[i]);
    return h->data + elements * 4;
}

/* ---- For callers --------------------------------------------------------------------- */

TideStatus llama2c_header(Tide *t, const char *path, Llama2c *h)
{
    unsigned char b[HEADER_V1] = { 0 };
    struct stat facts;

    *h = (Llama2c){ 0 };
    if (stat(path, &facts)) return tide_fail(t, TIDE_IO, "%s: cannot read it: %s", path, strerror(errno));
    if (facts.st_size < HEADER_V1)
        return tide_fail(t, TIDE_BAD_FILE, "%s: it has %lld bytes, too few for a checkpoint of llama2.c",
                         path, (long long)facts.st_size);
    TRY(file_read_at(t, path, 0, b, sizeof b));
    TRY((uint32_t)int_at(b) == MAGIC ? parse_v1(t, path, b, h) : parse_v0(t, path, b, h));
    if (facts.st_size == end_of(h)) return TIDE_OK;
    return tide_fail(
        t, TIDE_BAD_FILE,
        "%s: it has %lld bytes, but a checkpoint of llama2.c of version %d with dim %d, %d layers and a "
        "vocabulary of %d has %lld",
        path, (long long)facts.st_size, h->version, h->dim, h->layers, h->vocab, (long long)end_of(h));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Stored *)a)->name, ((const Stored *)b)->name);
}

static void list_section(StoredList *s, const Section *section, const Llama2c *h, int64_t *offset)
{
    for (int i = 0; i < count_of(section, h); i++) {
        char *name = s->names + s->n * NAME_BYTES;
        Stored x = { .name = name,
                     .path = s->path,
                     .dtype = "F32",
                     .type = TIDE_F32,
                     .has_type = true,
                     .n_dims = section->columns ? 2 : 1,
                     .dim = { section->rows, section->columns },
                     .offset = *offset,
                     .pairs = section->pairs };
        *offset += elements_of(section) * 4;
        if (!section->name) continue;
        const char *number = strstr(section->name, "%d");
        if (number)
            snprintf(name, NAME_BYTES, "%.*s%d%s", (int)(number - section->name), section->name, i,
                     number + 2);
        else
            snprintf(name, NAME_BYTES, "%s", section->name);
        s->tensors[s->n++] = x;
    }
}

TideStatus llama2c_open(StoredList *s)
{
    Llama2c h;

    TRY(llama2c_header(s->tide, s->path, &h));
    Layout l = layout_of(&h);
    size_t most = (size_t)(l.n * h.layers);
    int64_t offset = h.data;
    s->tensors = calloc(most, sizeof *s->tensors);
    s->names = calloc(most, NAME_BYTES);
    if (!s->tensors || !s->names)
        return tide_fail(s->tide, TIDE_NO_MEMORY, "%s: no memory for the names of its tensors", s->path);
    for (int i = 0; i < l.n; i++) list_section(s, &l.section[i], &h, &offset);
    qsort(s->tensors, s->n, sizeof *s->tensors, by_name);
    return TIDE_OK;
}
