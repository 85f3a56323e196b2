/* measure_operands.c - what the nodes compute on while they are timed.
 *
 * Nothing is handed from node to node: each reads random numbers and writes elsewhere. So no node can meet
 * an infinity that another made, and memory for the largest node is enough for all. What a node updates in
 * place lies with what it writes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/measure.h"

enum { PATTERN_WORDS = 4 << 20 }; /* of 16 bits, so that neighbours in a pool do not look alike */

static const size_t most_spread = (size_t)256 << 20; /* several times the cache of any device */

typedef enum Place { NOWHERE, READ, WRITTEN, INDEX } Place;

static bool is_written(const Node *n, const Tensor *const *info, int i)
{
    for (int j = 0; j < n->n_out; j++)
        if (info[n->n_in + j] == info[i]) return true;
    return false;
}

/* Where operand i belongs; NOWHERE if it is left out, or was an earlier operand too. */
static Place place_of(const Node *n, const Tensor *const *info, int i)
{
    if (!info[i]) return NOWHERE;
    for (int j = 0; j < i; j++)
        if (info[j] == info[i]) return NOWHERE;
    if (is_written(n, info, i)) return WRITTEN;
    return info[i]->type == TIDE_I32 ? INDEX : READ;
}

static size_t room_for(const Bench *b, const Tensor *t)
{
    return align_up(t->bytes + !t->bytes, b->be->alignment);
}

/* Bytes of the operands of a node by place. */
static void count_bytes(const Bench *b, const Node *n, size_t bytes[INDEX + 1])
{
    const Tensor *info[n->n_in + n->n_out + 1];

    memset(bytes, 0, (INDEX + 1) * sizeof *bytes);
    node_infos(b->p, n, info, info + n->n_in);
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        Place at = place_of(n, info, i);
        if (at != NOWHERE) bytes[at] += room_for(b, info[i]);
    }
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void count_node(const Bench *b, Operands *o, const Node *n, int entry)
{
    size_t bytes[INDEX + 1];

    count_bytes(b, n, bytes);
    o->read.bytes = larger(o->read.bytes, bytes[READ]);
    o->written.bytes = larger(o->written.bytes, bytes[WRITTEN]);
    o->scratch_bytes = larger(o->scratch_bytes, align_up(node_scratch(b->p, n), b->be->alignment));
    if (o->index_of[entry] != SIZE_MAX) return;
    o->index_of[entry] = o->index_bytes;
    o->index_bytes += bytes[INDEX];
}

/* As far as a step's own tensors lie apart. */
static size_t spread(const Bench *b)
{
    size_t bytes = 0;

    for (int id = 1; id < b->p->n_tensors && bytes < most_spread; id++) bytes += b->p->tensors[id]->bytes;
    return align_up(bytes < most_spread ? bytes : most_spread, b->be->alignment);
}

static void lay_out(const Bench *b, Operands *o)
{
    o->read.bytes = larger(o->read.bytes, spread(b));
    o->written.bytes = larger(o->written.bytes, spread(b));
    o->bytes = o->read.bytes + o->written.bytes + o->index_bytes + o->scratch_bytes;
}

TideStatus operands_new(const Bench *b, const TideProfile *f, const bool *timed, Operands *o)
{
    *o = (Operands){ 0 };
    o->index_of = pool_new(&o->pool, (size_t)f->n_entries, sizeof *o->index_of);
    if (!o->index_of) return tide_fail(b->p->tide, TIDE_NO_MEMORY, "no memory for a profile");
    for (int e = 0; e < f->n_entries; e++) o->index_of[e] = SIZE_MAX;
    for (int g = 0; g < f->n_graphs; g++)
        for (int i = 0; i < b->p->graphs[g]->n_nodes; i++)
            if (timed[f->entry_of[g][i]]) count_node(b, o, b->p->graphs[g]->nodes[i], f->entry_of[g][i]);
    lay_out(b, o);
    TideStatus status = b->be->device_alloc(b->device, o->bytes, &o->memory);
    if (status)
        return tide_fail(b->p->tide, status, "profile: memory for the largest node and its surroundings: %s",
                         b->be->message(b->device));
    o->read.base = o->memory;
    o->written.base = o->read.base + o->read.bytes;
    o->indices = o->written.base + o->written.bytes;
    o->scratch = o->indices + o->index_bytes;
    return TIDE_OK;
}

void operands_free(const Bench *b, Operands *o)
{
    if (o->memory) b->be->device_free(b->device, o->memory, o->bytes);
    pool_free(&o->pool);
}

/* ---- Numbers ---------------------------------------------------------------------------- */

static uint32_t random_word(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

/* About normal numbers, as bf16. Two of them are a number of like size when read as one f32, and each is
 * a moderate one when read as f16. */
static void fill_pattern(uint16_t *to, size_t n)
{
    enum { CHUNK = 1024 };
    uint32_t state = 12345;
    float x[CHUNK];

    for (size_t at = 0; at < n; at += CHUNK) {
        size_t here = n - at < CHUNK ? n - at : CHUNK;
        for (size_t i = 0; i < here; i++) {
            uint32_t sum = random_word(&state) + random_word(&state) + random_word(&state);
            x[i] = ((float)sum - 98302.5f) * 0x1p-16f; /* never 0 */
        }
        tide_narrow(TIDE_BF16, x, (int64_t)here, to + at);
    }
}

/* Repeat the first `have` bytes of a range to its end, each time twice as many. */
static TideStatus repeat(const Bench *b, char *base, size_t have, size_t bytes)
{
    for (; have < bytes; have *= 2)
        TRY(b->be->copy(b->lane[0], base + have, base, have < bytes - have ? have : bytes - have));
    return TIDE_OK;
}

static TideStatus fill_numbers(const Bench *b, const Operands *o)
{
    size_t bytes = o->read.bytes + o->written.bytes, have = PATTERN_WORDS * sizeof(uint16_t);

    if (have > bytes) have = bytes;
    uint16_t *host = malloc(have + 2);
    if (!host) return TIDE_NO_MEMORY;
    fill_pattern(host, have / 2);
    TideStatus status = b->be->copy(b->lane[0], o->memory, host, have);
    if (!status) status = repeat(b, o->memory, have, bytes);
    TideStatus waited = b->be->stream_sync(b->lane[0]); /* before its source goes */
    free(host);
    return status ? status : waited;
}

/* Integers index something: stay below every extent of the float matrices. A vector of integers
 * holds parameters of a step, which may be zero. */
static int64_t index_limit(const Node *n, const Tensor *const *in)
{
    int64_t limit = INT32_MAX;

    for (int i = 0; i < n->n_in; i++)
        for (int d = 0; in[i] && in[i]->type != TIDE_I32 && in[i]->shape.n > 1 && d < in[i]->shape.n; d++)
            if (in[i]->shape.dim[d] < limit) limit = in[i]->shape.dim[d];
    return limit;
}

static void write_indices(const Node *n, const Tensor *const *info, int i, int32_t *to)
{
    int64_t limit = index_limit(n, info);
    uint32_t state = 54321;

    for (int64_t k = 0; info[i]->shape.n > 1 && k < shape_elements(info[i]->shape); k++) {
        uint32_t high = random_word(&state);
        to[k] = (int32_t)((high << 15 | random_word(&state) >> 1) % (uint64_t)limit);
    }
}

/* Write the i32 inputs of a node of an entry to its place in host. */
static void fill_indices(const Bench *b, const Operands *o, const Node *n, int entry, char *host)
{
    const Tensor *info[n->n_in + n->n_out + 1];
    size_t at = o->index_of[entry];

    node_infos(b->p, n, info, info + n->n_in);
    for (int i = 0; i < n->n_in; i++) {
        if (place_of(n, info, i) != INDEX) continue;
        write_indices(n, info, i, (int32_t *)(void *)(host + at));
        at += room_for(b, info[i]);
    }
}

static TideStatus fill_all_indices(const Bench *b, const TideProfile *f, const Operands *o)
{
    char *host = calloc(o->index_bytes + 1, 1);

    if (!host) return TIDE_NO_MEMORY;
    for (int g = 0; g < f->n_graphs; g++)
        for (int i = 0; i < b->p->graphs[g]->n_nodes; i++)
            if (o->index_of[f->entry_of[g][i]] != SIZE_MAX)
                fill_indices(b, o, b->p->graphs[g]->nodes[i], f->entry_of[g][i], host);
    TideStatus status = b->be->copy(b->lane[0], o->indices, host, o->index_bytes);
    TideStatus waited = b->be->stream_sync(b->lane[0]);
    free(host);
    return status ? status : waited;
}

TideStatus operands_fill(const Bench *b, const TideProfile *f, const Operands *o)
{
    TideStatus status = fill_numbers(b, o);

    if (!status && o->index_bytes) status = fill_all_indices(b, f, o);
    if (!status) return TIDE_OK;
    return tide_fail(b->p->tide, status, "profile: operands: %s", b->be->message(b->device));
}

/* ---- Calls ------------------------------------------------------------------------------------- */

/* The next place of so many bytes in a part. */
static char *take(Part *part, size_t bytes)
{
    if (part->next + bytes > part->bytes) part->next = 0;
    char *at = part->base + part->next;
    part->next += bytes;
    return at;
}

bool operands_call(const Bench *b, Operands *o, const Node *n, int entry, Pool *pool, KernelCall *out)
{
    size_t count = (size_t)(n->n_in + n->n_out), index = o->index_of[entry];
    const Tensor **info = pool_new(pool, count, sizeof *info);
    void **pointer = pool_new(pool, count, sizeof *pointer);

    if (!info || !pointer) return false;
    node_infos(b->p, n, info, info + n->n_in);
    for (int i = 0; i < (int)count; i++) {
        switch (place_of(n, info, i)) {
        case READ: pointer[i] = take(&o->read, room_for(b, info[i])); break;
        case WRITTEN: pointer[i] = take(&o->written, room_for(b, info[i])); break;
        case INDEX:
            pointer[i] = o->indices + index;
            index += room_for(b, info[i]);
            break;
        case NOWHERE:
            for (int j = 0; info[i] && j < i; j++)
                if (info[j] == info[i]) pointer[i] = pointer[j];
        }
    }
    *out = (KernelCall){ .node = n,
                         .in_info = info,
                         .out_info = info + n->n_in,
                         .in = pointer,
                         .out = pointer + n->n_in,
                         .scratch = o->scratch,
                         .stream = b->lane[0],
                         .device = b->device };
    return true;
}
