/* measure_laps.c - runs nodes one behind the other, with and without marks between them. */
#include <stdlib.h>
#include "runtime/measure.h"
#include "runtime/base.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

bool bench_replays(const Bench *b)
{
    return b->be->capture_begin && !b->p->tide->options.no_graph;
}

TideStatus lap_run(const Bench *b, const Lap *lap, Event **marks, double *seconds)
{
    TRY(b->be->event_record(b->lane[0], marks[0]));
    for (int i = 0; i < lap->n; i++) {
        TRY(b->be->launch(lap->nodes[i].kernel, &lap->nodes[i].call));
        TRY(b->be->event_record(b->lane[0], marks[i + 1]));
    }
    TRY(b->be->event_sync(marks[lap->n]));
    for (int i = 0; i < lap->n; i++) TRY(b->be->event_seconds(marks[i], marks[i + 1], &seconds[i]));
    return TIDE_OK;
}

static TideStatus issue(const Bench *b, const Lap *lap)
{
    for (int i = 0; i < lap->n; i++) TRY(b->be->launch(lap->nodes[i].kernel, &lap->nodes[i].call));
    return TIDE_OK;
}

/* *out is NULL where laps are issued. */
static TideStatus capture(const Bench *b, const Lap *lap, Capture **out)
{
    *out = NULL;
    if (!bench_replays(b)) return TIDE_OK;
    TRY(b->be->capture_begin(b->lane[0]));
    TideStatus status = issue(b, lap), ended = b->be->capture_end(b->lane[0], out);
    if (!status || !*out) return status ? status : ended;
    b->be->capture_free(*out);
    *out = NULL;
    return status;
}

/* One lap more goes ahead, so that the device does not wait for the host. */
static TideStatus time_plain(const Bench *b, const Lap *lap, Capture *whole, double *seconds)
{
    for (int i = 0; i < 2; i++) {
        TRY(b->be->event_record(b->lane[0], b->from));
        TRY(whole ? b->be->capture_replay(whole, b->lane[0]) : issue(b, lap));
    }
    TRY(b->be->event_record(b->lane[0], b->to));
    TRY(b->be->event_sync(b->to));
    return b->be->event_seconds(b->from, b->to, seconds);
}

TideStatus lap_plain(const Bench *b, const Lap *lap, int times, double *seconds)
{
    double time[8];
    Capture *whole;
    TideStatus status = capture(b, lap, &whole);

    if (times > 8) times = 8;
    for (int i = 0; !status && i < times; i++) status = time_plain(b, lap, whole, &time[i]);
    if (whole) b->be->capture_free(whole);
    if (!status) *seconds = median_of(time, times);
    return status;
}
