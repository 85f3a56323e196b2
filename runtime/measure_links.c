/* measure_links.c - the speed of copies by their size, each way alone and both ways at once, and what
 * the process takes of the device besides its arena. */
#include <string.h>
#include "runtime/base.h"
#include "runtime/measure.h"

enum { SMALLEST = 64 << 10, LARGEST = 64 << 20, GROWTH = 4, ROUNDS = 5 };
static const double slow_copy = 0.02;               /* seconds; after such a one no larger copy is timed */
static const size_t graph_bytes = (size_t)16 << 20; /* for what a captured step takes               */

enum { OUT, IN, WAYS };

/* Copies in a row. Small ones follow each other as in a step; large ones take long enough alone. */
static int chain(size_t bytes)
{
    return bytes < LARGEST / 16 ? 8 : 1;
}

/* Memory at both ends of the links: a part for each way. */
typedef struct Ends {
    char *device, *host;
    Event *fork, *join;
} Ends;

/* Copies one behind the other, each way that is busy on its lane, which begin and end together. */
static TideStatus issue_copies(const Bench *b, const Ends *e, size_t bytes, const bool *busy)
{
    TRY(b->be->event_record(b->lane[OUT], e->fork));
    TRY(b->be->event_wait(b->lane[IN], e->fork));
    for (int i = 0; i < chain(bytes); i++)
        for (int way = 0; way < WAYS; way++) {
            char *d = e->device + (size_t)way * LARGEST, *h = e->host + (size_t)way * LARGEST;
            if (busy[way]) TRY(b->be->copy(b->lane[way], way == OUT ? h : d, way == OUT ? d : h, bytes));
        }
    TRY(b->be->event_record(b->lane[IN], e->join));
    return b->be->event_wait(b->lane[OUT], e->join);
}

/* Seconds of one copy. Replayed where a run replays its steps; whole NULL: issued. */
static TideStatus time_once(const Bench *b, const Ends *e, size_t bytes, const bool *busy, Capture *whole,
                            double *seconds)
{
    TRY(b->be->event_record(b->lane[OUT], b->from));
    TRY(whole ? b->be->capture_replay(whole, b->lane[OUT]) : issue_copies(b, e, bytes, busy));
    TRY(b->be->event_record(b->lane[OUT], b->to));
    TRY(b->be->event_sync(b->to));
    TRY(b->be->event_seconds(b->from, b->to, seconds));
    *seconds /= chain(bytes);
    if (*seconds < least_seconds) *seconds = least_seconds;
    return TIDE_OK;
}

static TideStatus capture_copies(const Bench *b, const Ends *e, size_t bytes, const bool *busy, Capture **out)
{
    *out = NULL;
    if (!bench_replays(b)) return TIDE_OK;
    TRY(b->be->capture_begin(b->lane[OUT]));
    TideStatus status = issue_copies(b, e, bytes, busy), ended = b->be->capture_end(b->lane[OUT], out);
    if (!status || !*out) return status ? status : ended;
    b->be->capture_free(*out);
    *out = NULL;
    return status;
}

/* The median seconds of a copy; the first ones touch the pages and do not count. */
static TideStatus time_copies(const Bench *b, const Ends *e, size_t bytes, const bool *busy, double *seconds)
{
    double time[ROUNDS], now;
    Capture *whole;
    TideStatus status = capture_copies(b, e, bytes, busy, &whole);

    for (int r = -1; !status && r < ROUNDS; r++) {
        status = time_once(b, e, bytes, busy, whole, &now);
        if (r >= 0) time[r] = now;
    }
    if (whole) b->be->capture_free(whole);
    if (!status) *seconds = median_of(time, ROUNDS);
    return status;
}

static TideStatus measure_size(const Bench *b, const Ends *e, size_t bytes, LinkSpeed *s)
{
    static const bool ways[WAYS + 1][WAYS] = { { true, false }, { false, true }, { true, true } };
    double seconds[WAYS + 1], n = (double)bytes;

    for (int i = 0; i < WAYS + 1; i++) TRY(time_copies(b, e, bytes, ways[i], &seconds[i]));
    *s = (LinkSpeed){ bytes, n / seconds[OUT], n / seconds[IN], n / seconds[WAYS], n / seconds[WAYS] };
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
    if (bench_replays(b)) f->fixed_bytes += graph_bytes;
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
    if (!status) status = b->be->event_new(b->device, &e.fork);
    if (!status) status = b->be->event_new(b->device, &e.join);
    e.device = device;
    e.host = host;
    if (!status) memset(host, 0x5a, bytes);
    if (!status) status = measure_sizes(b, &e, f);
    if (!status) status = measure_fixed(b, bytes, f);
    if (e.fork) b->be->event_free(e.fork);
    if (e.join) b->be->event_free(e.join);
    if (host) b->be->host_free(b->device, host, bytes);
    if (device) b->be->device_free(b->device, device, bytes);
    return status;
}
