/* profile.c - what a profile holds, and how its gaps are filled. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/profile.h"

double profile_seconds(const TideProfile *f, const TideGraph *g, int node)
{
    return f->entries[f->entry_of[g->index][node]].seconds;
}

Link profile_link(const TideProfile *f)
{
    return f->link;
}
size_t tide_profile_fixed(const TideProfile *f)
{
    return f->fixed_bytes;
}
int tide_profile_filled(const TideProfile *f)
{
    return f->filled;
}

void tide_profile_set_link(TideProfile *f, double bytes_per_second)
{
    f->link.out = f->link.in = f->link.duplex = bytes_per_second;
}

int profile_find(const TideProfile *f, const char *key)
{
    for (int i = 0; i < f->n_entries; i++)
        if (strcmp(f->entries[i].key, key) == 0) return i;
    return -1;
}

static void add_tensor(char *text, size_t size, const Tensor *t)
{
    size_t n = strlen(text);

    n += (size_t)snprintf(text + n, size - n, " %s", t ? type_name(t->type) : "-");
    for (int i = 0; t && i < t->shape.n && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%c%lld", i ? ',' : '[', (long long)t->shape.dim[i]);
    if (t && n < size) snprintf(text + n, size - n, "]");
}

/* Nodes of one key take equally long: what counts of the attributes is part of it. */
char *profile_key(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    size_t size = 64 + 2 * OP_ATTR_BYTES + 64 * (size_t)(n->n_in + n->n_out);
    char *key = calloc(size, 1);

    if (!key) return NULL;
    snprintf(key, size, "%s", n->op->name);
    for (int i = 0; i < n->n_in; i++) add_tensor(key, size, in[i]);
    snprintf(key + strlen(key), size - strlen(key), " >");
    for (int i = 0; i < n->n_out; i++) add_tensor(key, size, out[i]);
    for (int i = 0; i < n->op->timed_bytes; i++)
        snprintf(key + strlen(key), size - strlen(key), "%s%02x", i ? "" : " #", n->attr.bytes[i]);
    return key;
}

double infos_bytes(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    double bytes = 0;

    if (n->op->bytes) return n->op->bytes(n, in, out);
    for (int i = 0; i < n->n_in; i++)
        if (in[i]) bytes += (double)in[i]->bytes;
    for (int i = 0; i < n->n_out; i++)
        if (out[i]) bytes += (double)out[i]->bytes;
    return bytes;
}

/* The entry for a node, made if there is none; -1 without memory. */
static int entry_for(const TideProgram *p, TideProfile *f, const Node *n)
{
    const Tensor *in[n->n_in + 1], *out[OP_MAX_OUT];

    node_infos(p, n, in, out);
    char *key = profile_key(n, in, out);
    int found = key ? profile_find(f, key) : -1;
    size_t scratch = node_scratch(p, n);

    if (found >= 0 && f->entries[found].scratch_bytes < scratch) f->entries[found].scratch_bytes = scratch;
    if (!key || found >= 0) {
        free(key);
        return found;
    }
    Entry *grown = realloc(f->entries, ((size_t)f->n_entries + 1) * sizeof *grown);
    if (!grown) {
        free(key);
        return -1;
    }
    f->entries = grown;
    f->entries[f->n_entries] = (Entry){
        .key = key, .flops = node_flops(p, n), .bytes = infos_bytes(n, in, out), .scratch_bytes = scratch
    };
    return f->n_entries++;
}

static TideStatus index_graph(const TideProgram *p, TideProfile *f, const TideGraph *g)
{
    int *entry_of = calloc((size_t)g->n_nodes + 1, sizeof *entry_of);

    f->entry_of[g->index] = entry_of;
    if (!entry_of) return TIDE_NO_MEMORY;
    for (int i = 0; i < g->n_nodes; i++) {
        entry_of[i] = entry_for(p, f, g->nodes[i]);
        if (entry_of[i] < 0) return TIDE_NO_MEMORY;
    }
    return TIDE_OK;
}

static DeviceFacts device_facts(Tide *t)
{
    const Backend *be = t->backend;
    MemoryInfo memory = { 0 };

    if (be->memory(t->device, &memory)) memory.total = 0;
    return (DeviceFacts){ .memory_bytes = memory.total,
                          .types = be->types,
                          .block_elements = be->block_elements,
                          .flops_per_second = be->rough.flops_per_second,
                          .bytes_per_second = be->rough.bytes_per_second,
                          .launch_seconds = be->rough.launch_seconds };
}

TideStatus profile_new(const TideProgram *p, TideProfile **out)
{
    *out = NULL;
    TRY(tide_program_check(p));
    TideProfile *f = calloc(1, sizeof *f);
    TideStatus status = f ? TIDE_OK : TIDE_NO_MEMORY;

    if (!status) f->entry_of = calloc((size_t)p->n_graphs + 1, sizeof *f->entry_of);
    if (!status && !f->entry_of) status = TIDE_NO_MEMORY;
    if (!status) f->n_graphs = p->n_graphs;
    for (int i = 0; !status && i < p->n_graphs; i++) status = index_graph(p, f, p->graphs[i]);
    if (status) {
        tide_profile_free(f);
        return tide_fail(p->tide, status, "no memory for a profile");
    }
    f->facts = device_facts(p->tide);
    f->alignment = p->tide->backend->alignment;
    snprintf(f->device, sizeof f->device, "%s", p->tide->name);
    snprintf(f->versions, sizeof f->versions, "%s", p->tide->backend->versions(p->tide->device));
    *out = f;
    return TIDE_OK;
}

void tide_profile_free(TideProfile *f)
{
    if (!f) return;
    for (int i = 0; i < f->n_entries; i++) free(f->entries[i].key);
    for (int i = 0; i < f->n_graphs && f->entry_of; i++) free(f->entry_of[i]);
    free(f->entry_of);
    free(f->entries);
    free(f->record);
    free(f);
}

/* ---- Filling ---------------------------------------------------------------- */

static double guess(const Rough *r, const Entry *e)
{
    double compute = e->flops / r->flops_per_second, memory = e->bytes / r->bytes_per_second;

    return r->launch_seconds + (compute > memory ? compute : memory);
}

static bool same_op(const Entry *a, const Entry *b)
{
    size_t n = strcspn(a->key, " ");

    return n == strcspn(b->key, " ") && memcmp(a->key, b->key, n) == 0;
}

static double times_apart(double a, double b)
{
    return a > b ? a / b : b / a;
}

const Entry *profile_nearest(const TideProfile *f, const Entry *e)
{
    const Entry *best = NULL;
    double best_apart = 0;

    for (int i = 0; i < f->n_entries; i++) {
        const Entry *other = &f->entries[i];
        if (other->source != SOURCE_MEASURED || !same_op(e, other) || other->bytes <= 0 || e->bytes <= 0)
            continue;
        double apart = times_apart(other->bytes, e->bytes) * times_apart(other->flops + 1, e->flops + 1);
        if (best && apart >= best_apart) continue;
        best = other;
        best_apart = apart;
    }
    return best;
}

/* Scale what is not known from entries of another profile, or of this one. */
static void fill_from(const TideProgram *p, const TideProfile *from, TideProfile *f)
{
    const Rough *rough = &p->tide->backend->rough;

    for (int i = 0; i < f->n_entries; i++) {
        Entry *e = &f->entries[i];
        if (e->source != SOURCE_NONE) continue;
        const Entry *like = profile_nearest(from, e);
        e->source = like ? SOURCE_SCALED : SOURCE_GUESSED;
        e->seconds = like ? like->seconds * guess(rough, e) / guess(rough, like) : guess(rough, e);
        f->filled++;
    }
    if (!f->fixed_bytes) f->fixed_bytes = rough->fixed_bytes;
    if (f->link.out <= 0) {
        double speed = p->tide->options.link_bytes_per_second;
        if (speed <= 0) speed = rough->link_bytes_per_second;
        f->link = (Link){ speed, speed, speed, rough->launch_seconds };
    }
}

void profile_fill(const TideProgram *p, TideProfile *f)
{
    fill_from(p, f, f);
}

TideStatus tide_profile_scale(const TideProgram *p, const TideProfile *from, TideProfile **out)
{
    TRY(profile_new(p, out));
    TideProfile *f = *out;

    for (int i = 0; i < f->n_entries; i++) {
        int same = profile_find(from, f->entries[i].key);
        if (same < 0) continue;
        f->entries[i].seconds = from->entries[same].seconds;
        f->entries[i].source = from->entries[same].source;
    }
    f->link = from->link;
    f->fixed_bytes = from->fixed_bytes;
    fill_from(p, from, f);
    return TIDE_OK;
}

TideStatus tide_profile_guess(const TideProgram *p, TideProfile **out)
{
    TRY(profile_new(p, out));
    profile_fill(p, *out);
    return TIDE_OK;
}

/* ---- Merging -------------------------------------------------------------------- */

static bool same_kind(const char *a, const char *b)
{
    size_t n = strcspn(a, ":");

    return n == strcspn(b, ":") && memcmp(a, b, n) == 0;
}

/* The entry of f for that key, made empty if there is none; NULL without memory. */
static Entry *entry_of_key(TideProfile *f, const char *key)
{
    int found = profile_find(f, key);

    if (found >= 0) return &f->entries[found];
    char *copy = malloc(strlen(key) + 1);
    Entry *grown = realloc(f->entries, ((size_t)f->n_entries + 1) * sizeof *grown);
    if (grown) f->entries = grown;
    if (!copy || !grown) {
        free(copy);
        return NULL;
    }
    strcpy(copy, key);
    f->entries[f->n_entries] = (Entry){ .key = copy };
    return &f->entries[f->n_entries++];
}

TideStatus tide_profile_merge(const TideProgram *p, TideProfile *f, const TideProfile *older)
{
    if (!same_kind(f->device, older->device) || strcmp(f->versions, older->versions) != 0)
        return tide_fail(
            p->tide, TIDE_BAD_FILE,
            "the profile there is of %s (%s), not of %s (%s): give another file, or remove that one",
            older->device, older->versions, f->device, f->versions);
    for (int i = 0; i < older->n_entries; i++) {
        const Entry *from = &older->entries[i];
        if (from->source != SOURCE_MEASURED) continue;
        Entry *to = entry_of_key(f, from->key);
        if (!to) return tide_fail(p->tide, TIDE_NO_MEMORY, "no memory for a profile");
        if (to->source == SOURCE_MEASURED) continue;
        char *key = to->key;
        *to = *from;
        to->key = key;
    }
    return TIDE_OK;
}
