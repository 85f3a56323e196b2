/* measure.c - times every distinct node alone, and the links.
 *
 * Memory is borrowed for one node at a time and given back, so that a model which does not fit
 * can be profiled. Nodes compute on random numbers: zeros would flatter caches and power. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/profile.h"

enum { BATCHES = 5, LINK_BYTES = 16 << 20, LINK_SMALL = 64 << 10 };
static const double node_seconds_limit = 4.0;   /* guessed to take longer: not run, scaled     */
static const double node_seconds_wanted = 0.02; /* enough runs of a node to fill this          */
static const double slow_node_seconds = 0.25;   /* a node that takes so long runs only once    */

typedef struct Bench {
    const TideProgram *p;
    const Backend *be;
    Device *device;
    Stream *lane[3]; /* as many as a run has, so that copies can go both ways */
    Event *from, *to;
    int repeats;
} Bench;

static TideStatus failed(const Bench *b, TideStatus status, const char *what)
{
    if (!status) return TIDE_OK;
    return tide_fail(b->p->tide, status, "profile %s: %s", what, b->be->message(b->device));
}

static TideStatus bench_open(Bench *b)
{
    for (int i = 0; i < 3; i++) TRY(failed(b, b->be->stream_new(b->device, 0, &b->lane[i]), "stream"));
    TRY(failed(b, b->be->event_new(b->device, &b->from), "event"));
    return failed(b, b->be->event_new(b->device, &b->to), "event");
}

static void bench_close(Bench *b)
{
    if (b->from) b->be->event_free(b->from);
    if (b->to) b->be->event_free(b->to);
    for (int i = 0; i < 3; i++)
        if (b->lane[i]) b->be->stream_free(b->lane[i]);
}

/* ---- One node ------------------------------------------------------------------ */

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

static void fill_random(const Tensor *t, int64_t limit, unsigned char *to)
{
    uint32_t state = 12345, *word = (uint32_t *)to;
    size_t n = t->bytes / sizeof *word;

    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        float x = (float)(int32_t)state * 0x1p-32f;
        if (t->type == TIDE_I32)
            word[i] = t->shape.n > 1 ? (state >> 8) % (uint32_t)limit : 0;
        else if (t->type == TIDE_F32)
            memcpy(&word[i], &x, sizeof x);
        else
            word[i] = 0x30003000u | (state & 0x8fff8fffu); /* small bf16 or f16, both signs */
    }
}

/* Offsets of inputs, outputs and scratch behind each other; a tensor in both stands once. */
static size_t lay_out(const Bench *b, const Node *n, const Tensor *const *info, size_t *offset)
{
    size_t end = 0;

    for (int i = 0; i < n->n_in + n->n_out; i++) {
        offset[i] = end;
        if (!info[i]) continue;
        for (int j = 0; j < i; j++)
            if (info[j] == info[i]) offset[i] = offset[j];
        if (offset[i] == end) end += align_up(info[i]->bytes + !info[i]->bytes, b->be->alignment);
    }
    offset[n->n_in + n->n_out] = end;
    return end + align_up(node_scratch(b->p, n), b->be->alignment);
}

/* Put random numbers on the device, through as much host memory as the largest tensor. */
static TideStatus fill_inputs(const Bench *b, const Node *n, const Tensor *const *info, void **pointer)
{
    int64_t limit = index_limit(n, info);

    for (int i = 0; i < n->n_in + n->n_out; i++) {
        if (!info[i] || !info[i]->bytes) continue;
        unsigned char *host = malloc(info[i]->bytes + 4);
        if (!host) return tide_fail(b->p->tide, TIDE_NO_MEMORY, "no memory to profile %s", n->name);
        fill_random(info[i], limit, host);
        TideStatus status = b->be->copy(b->lane[0], pointer[i], host, info[i]->bytes);
        if (!status) status = b->be->stream_sync(b->lane[0]);
        free(host);
        TRY(failed(b, status, n->name));
    }
    return TIDE_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of one of n runs, issued without a wait between them as a step issues its nodes. */
static TideStatus time_batch(const Bench *b, const Kernel *k, const KernelCall *call, int n, double *seconds)
{
    TRY(b->be->event_record(b->lane[0], b->from));
    for (int i = 0; i < n; i++) TRY(b->be->launch(k, call));
    TRY(b->be->event_record(b->lane[0], b->to));
    TRY(b->be->event_sync(b->to));
    TRY(b->be->event_seconds(b->from, b->to, seconds));
    *seconds /= n;
    return TIDE_OK;
}

/* One run to load and warm, one to see how long it takes, then the median of some batches that together
 * fill the wanted time. */
static TideStatus time_call(const Bench *b, const Kernel *k, const KernelCall *call, double *seconds)
{
    double time[BATCHES];

    TRY(time_batch(b, k, call, 1, seconds));
    TRY(time_batch(b, k, call, 1, seconds));
    if (*seconds > slow_node_seconds) return TIDE_OK;
    int n = 1 + (int)(node_seconds_wanted / BATCHES / *seconds);
    for (int i = 0; i < BATCHES; i++) TRY(time_batch(b, k, call, n < b->repeats ? n : b->repeats, &time[i]));
    qsort(time, BATCHES, sizeof *time, by_value);
    *seconds = time[BATCHES / 2];
    return TIDE_OK;
}

static TideStatus time_node(const Bench *b, const Node *n, double *seconds)
{
    const Tensor *info[n->n_in + n->n_out + 1];
    size_t offset[n->n_in + n->n_out + 1];
    void *pointer[n->n_in + n->n_out + 1], *memory = NULL;

    node_infos(b->p, n, info, info + n->n_in);
    size_t bytes = lay_out(b, n, info, offset);
    TRY(failed(b, b->be->device_alloc(b->device, bytes, &memory), n->name));
    for (int i = 0; i < n->n_in + n->n_out; i++) pointer[i] = info[i] ? (char *)memory + offset[i] : NULL;
    KernelCall call = { .node = n,
                        .in_info = info,
                        .out_info = info + n->n_in,
                        .in = pointer,
                        .out = pointer + n->n_in,
                        .scratch = (char *)memory + offset[n->n_in + n->n_out],
                        .stream = b->lane[0],
                        .device = b->device };
    TideStatus status = fill_inputs(b, n, info, pointer);
    const Kernel *k = b->be->kernels[n->op->id];
    if (!status && k->prepare) status = failed(b, k->prepare(&call), n->name);
    if (!status) status = failed(b, time_call(b, k, &call, seconds), n->name);
    b->be->device_free(b->device, memory, bytes);
    return status;
}

/* ---- Links ---------------------------------------------------------------------- */

/* Seconds of one copy of bytes on each of n lanes at once; lane i copies out when i + way is even. */
static TideStatus time_copies(const Bench *b, char *device, char *host, size_t bytes, int n, int way,
                              double *seconds)
{
    double best = 0;

    for (int r = 0; r < 4; r++) {
        TRY(b->be->event_record(b->lane[0], b->from));
        for (int i = 0; i < n; i++) {
            char *d = device + (size_t)i * LINK_BYTES, *h = host + (size_t)i * LINK_BYTES;
            bool out = (i + way) % 2 == 0;
            TRY(b->be->copy(b->lane[i], out ? h : d, out ? d : h, bytes));
        }
        for (int i = 0; i < n; i++) TRY(b->be->stream_sync(b->lane[i]));
        TRY(b->be->event_record(b->lane[0], b->to));
        TRY(b->be->event_sync(b->to));
        double time = 0;
        TRY(b->be->event_seconds(b->from, b->to, &time));
        if (r == 1 || time < best) best = time; /* the first round touches the pages */
    }
    *seconds = best;
    return TIDE_OK;
}

static TideStatus measure_copies(const Bench *b, char *device, char *host, Link *link)
{
    double out = 0, in = 0, both = 0, small = 0;

    TRY(time_copies(b, device, host, LINK_BYTES, 1, 0, &out));
    TRY(time_copies(b, device, host, LINK_BYTES, 1, 1, &in));
    TRY(time_copies(b, device, host, LINK_BYTES, 2, 0, &both));
    TRY(time_copies(b, device, host, LINK_SMALL, 1, 0, &small));
    double per_byte = (out - small) / (LINK_BYTES - LINK_SMALL);
    double latency = small - per_byte * LINK_SMALL;
    if (latency < 1e-7) latency = 1e-7;
    *link = (Link){ LINK_BYTES / out, LINK_BYTES / in, LINK_BYTES / both, latency };
    if (link->duplex > link->out) link->duplex = link->out;
    if (link->duplex > link->in) link->duplex = link->in;
    return TIDE_OK;
}

static TideStatus measure_links(const Bench *b, Link *link)
{
    void *device = NULL, *host = NULL;
    size_t bytes = 2 * (size_t)LINK_BYTES;

    TideStatus status = b->be->device_alloc(b->device, bytes, &device);
    if (!status) status = b->be->host_alloc(b->device, bytes, &host);
    if (!status) memset(host, 0x5a, bytes);
    if (!status) status = measure_copies(b, device, host, link);
    if (host) b->be->host_free(b->device, host, bytes);
    if (device) b->be->device_free(b->device, device, bytes);
    return failed(b, status, "links");
}

/* ---- All of it -------------------------------------------------------------------- */

static TideStatus measure_entries(const Bench *b, TideProfile *f)
{
    const Rough *rough = &b->be->rough;

    for (int g = 0; g < f->n_graphs; g++)
        for (int i = 0; i < b->p->graphs[g]->n_nodes; i++) {
            Entry *e = &f->entries[f->entry_of[g][i]];
            bool too_long =
                e->flops / rough->flops_per_second + e->bytes / rough->bytes_per_second > node_seconds_limit;
            if (e->source != SOURCE_NONE || too_long) continue;
            TRY(time_node(b, b->p->graphs[g]->nodes[i], &e->seconds));
            e->source = SOURCE_MEASURED;
        }
    return TIDE_OK;
}

TideStatus tide_profile_measure(const TideProgram *p, int repeats, TideProfile **out)
{
    TRY(profile_new(p, out));
    Bench b = {
        .p = p, .be = p->tide->backend, .device = p->tide->device, .repeats = repeats > 0 ? repeats : 1
    };
    TideStatus status = bench_open(&b);

    if (!status) status = measure_entries(&b, *out);
    if (!status) status = measure_links(&b, &(*out)->link);
    bench_close(&b);
    if (!status) {
        profile_fill(p, *out);
        return TIDE_OK;
    }
    tide_profile_free(*out);
    *out = NULL;
    return status;
}
