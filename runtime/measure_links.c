/* measure_links.c - the speed of copies by their size, each way alone and both ways at once, and what
 * the process takes of the device besides its arena. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/measure.h"

enum { SMALLEST = 64 << 10, LARGEST = 64 << 20, GROWTH = 4, ROUNDS = 5 };
static const double slow_copy = 0.02;               /* seconds; after such a one no larger copy is timed */
static const size_t graph_bytes = (size_t)16 << 20; /* for what a captured step takes               */

enum { OUT, IN, WAYS };

/* Memory at both ends of the links: a part for each way. */
typedef struct Ends {
    char *device, *host;
    Event *done[WAYS];
} Ends;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One copy each way that is busy, begun together. */
static TideStatus copy_once(const Bench *b, const Ends *e, size_t bytes, const bool *busy, double *seconds)
{
    TRY(b->be->event_record(b->lane[OUT], b->from));
    TRY(b->be->event_wait(b->lane[IN], b->from));
    for (int way = 0; way < WAYS; way++) {
        char *d = e->device + (size_t)way * LARGEST, *h = e->host + (size_t)way * LARGEST;
        if (!busy[way]) continue;
        TRY(b->be->copy(b->lane[way], way == OUT ? h : d, way == OUT ? d : h, bytes));
        TRY(b->be->event_record(b->lane[way], e->done[way]));
    }
    for (int way = 0; way < WAYS; way++) {
        if (!busy[way]) continue;
        TRY(b->be->event_sync(e->done[way]));
        TRY(b->be->event_seconds(b->from, e->done[way], &seconds[way]));
        if (seconds[way] < least_seconds) seconds[way] = least_seconds;
    }
    return TIDE_OK;
}

/* The median seconds of each way that is busy; the first copy touches the pages and does not count. */
static TideStatus time_copies(const Bench *b, const Ends *e, size_t bytes, const bool *busy, double *seconds)
{
    double time[WAYS][ROUNDS], now[WAYS] = { 0 };

    for (int r = -1; r < ROUNDS; r++) {
        TRY(copy_once(b, e, bytes, busy, now));
        for (int way = 0; r >= 0 && way < WAYS; way++) time[way][r] = now[way];
    }
    for (int way = 0; way < WAYS; way++) {
        qsort(time[way], ROUNDS, sizeof **time, by_value);
        seconds[way] = time[way][ROUNDS / 2];
    }
    return TIDE_OK;
}

static TideStatus measure_size(const Bench *b, const Ends *e, size_t bytes, LinkSpeed *s)
{
    static const bool ways[WAYS + 1][WAYS] = { { true, false }, { false, true }, { true, true } };
    double seconds[WAYS + 1][WAYS], n = (double)bytes;

    for (int i = 0; i < WAYS + 1; i++) TRY(time_copies(b, e, bytes, ways[i], seconds[i]));
    *s = (LinkSpeed){ bytes, n / seconds[OUT][OUT], n / seconds[IN][IN], n / seconds[WAYS][OUT],
                      n / seconds[WAYS][IN] };
    return TIDE_OK;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* Speeds of the largest copies; what a small one takes beyond its bytes is the latency. */
static void summarize(TideProfile *f)
{
    const LinkSpeed *small = &f->by_size[0], *large = &f->by_size[f->n_sizes - 1];
    double per_byte = 1 / large->out, latency;

    if (large != small)
        per_byte = ((double)large->bytes / large->out - (double)small->bytes / small->out) /
                   (double)(large->bytes - small->bytes);
    latency = (double)small->bytes * (1 / small->out - per_byte);
    f->link =
        (Link){ .out = large->out,
                .in = large->in,
                .duplex = least(least(large->duplex_out, large->duplex_in), least(large->out, large->in)),
                .latency = latency > 1e-7 ? latency : 1e-7 };
}

/* Where the driver does not count by process, all that is taken counts: it may be others', never less. */
static TideStatus measure_fixed(const Bench *b, size_t borrowed, TideProfile *f)
{
    MemoryInfo m;

    if (!b->be->rough.fixed_bytes) return TIDE_OK;
    TRY(b->be->memory(b->device, &m));
    size_t taken = m.process ? m.process : m.total - m.free;
    f->fixed_bytes = taken > borrowed ? taken - borrowed : 0;
    if (b->be->capture_begin && !b->p->tide->options.no_graph) f->fixed_bytes += graph_bytes;
    return TIDE_OK;
}

static TideStatus measure_sizes(const Bench *b, const Ends *e, TideProfile *f)
{
    for (size_t bytes = SMALLEST; bytes <= LARGEST; bytes *= GROWTH) {
        LinkSpeed *s = &f->by_size[f->n_sizes];
        TRY(measure_size(b, e, bytes, s));
        f->n_sizes++;
        if ((double)bytes / least(s->out, s->in) > slow_copy) break;
    }
    summarize(f);
    return TIDE_OK;
}

TideStatus measure_links(const Bench *b, TideProfile *f)
{
    Ends e = { 0 };
    void *device = NULL, *host = NULL;
    size_t bytes = WAYS * (size_t)LARGEST;

    TideStatus status = b->be->device_alloc(b->device, bytes, &device);
    if (!status) status = b->be->host_alloc(b->device, bytes, &host);
    for (int way = 0; !status && way < WAYS; way++) status = b->be->event_new(b->device, &e.done[way]);
    e.device = device;
    e.host = host;
    if (!status) memset(host, 0x5a, bytes);
    if (!status) status = measure_sizes(b, &e, f);
    if (!status) status = measure_fixed(b, bytes, f);
    for (int way = 0; way < WAYS; way++)
        if (e.done[way]) b->be->event_free(e.done[way]);
    if (host) b->be->host_free(b->device, host, bytes);
    if (device) b->be->device_free(b->device, device, bytes);
    return status;
}
