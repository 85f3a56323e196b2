/* measure.c - times every distinct node alone.
 *
 * Memory is borrowed for one node at a time and given back, so that a model which does not fit
 * can be profiled. Nodes compute on random numbers: zeros would flatter caches and power. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/io/record.h"
#include "runtime/measure.h"

enum { BATCHES = 5 };
static const double node_seconds_limit = 4.0;   /* guessed to take longer: not run, scaled     */
static const double node_seconds_wanted = 0.02; /* enough runs of a node to fill this          */
static const double slow_node_seconds = 0.25;   /* a node that takes so long runs only once    */

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
    if (*seconds < least_seconds) *seconds = least_seconds;
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

/* Prepare a node and time it; seconds NULL: prepare it only. */
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
    TideStatus status = seconds ? fill_inputs(b, n, info, pointer) : TIDE_OK;
    const Kernel *k = b->be->kernels[n->op->id];
    if (!status && k->prepare) status = failed(b, k->prepare(&call), n->name);
    if (!status && seconds) status = failed(b, time_call(b, k, &call, seconds), n->name);
    b->be->device_free(b->device, memory, bytes);
    return status;
}

/* ---- All of it -------------------------------------------------------------------- */

/* Nodes of one key take equally long, but what a library chooses may hang on their attributes too: *timed
 * is the newest node of this key that was prepared; the first one is timed. */
static TideStatus measure_node(const Bench *b, const Node *n, Entry *e, const Node **timed)
{
    const Rough *rough = &b->be->rough;
    bool prepares = b->be->kernels[n->op->id]->prepare != NULL;

    if (e->flops / rough->flops_per_second + e->bytes / rough->bytes_per_second > node_seconds_limit)
        return TIDE_OK;
    if (*timed && (!prepares || memcmp(n->attr.bytes, (*timed)->attr.bytes, sizeof n->attr.bytes) == 0))
        return TIDE_OK;
    TRY(time_node(b, n, *timed ? NULL : &e->seconds));
    e->source = SOURCE_MEASURED;
    *timed = n;
    return TIDE_OK;
}

static TideStatus measure_entries(const Bench *b, TideProfile *f)
{
    const Node **timed = calloc((size_t)f->n_entries + 1, sizeof *timed);
    TideStatus status = TIDE_OK;

    if (!timed) return tide_fail(b->p->tide, TIDE_NO_MEMORY, "no memory for a profile");
    for (int g = 0; g < f->n_graphs; g++)
        for (int i = 0; !status && i < b->p->graphs[g]->n_nodes; i++) {
            int at = f->entry_of[g][i];
            status = measure_node(b, b->p->graphs[g]->nodes[i], &f->entries[at], &timed[at]);
        }
    free(timed);
    return status;
}

TideStatus tide_profile_measure(const TideProgram *p, int repeats, TideProfile **out)
{
    TRY(profile_new(p, out));
    Bench b = {
        .p = p, .be = p->tide->backend, .device = p->tide->device, .repeats = repeats > 0 ? repeats : 1
    };
    TideStatus status = bench_open(&b);

    if (!status) status = measure_entries(&b, *out);
    if (!status) status = failed(&b, measure_links(&b, *out), "links"); /* after all kernels are loaded */
    if (!status) status = record_snapshot(p->tide, &(*out)->record);
    bench_close(&b);
    if (!status) {
        profile_fill(p, *out);
        return TIDE_OK;
    }
    tide_profile_free(*out);
    *out = NULL;
    return status;
}
