/* stress_streams.c - thousands of round trips over three lanes, for ThreadSanitizer.
 *
 *     stress_streams [rounds] [leave out a wait, 1 to 4]
 *
 * A round makes a block on the compute lane, copies it out, overwrites it, copies it back in and
 * checks it, with four events that every round uses anew, the way a plan does. The compute lane runs
 * up to a ring ahead. With one of the waits left out the same program races: ThreadSanitizer says so,
 * and mostly the numbers do. */
#include <stdio.h>
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/graph.h"

enum { FLOATS = 1024 };

typedef struct Lanes {
    const Backend *be;
    Device *d;
    Stream *compute, *out, *in;
    Event *made, *left, *free_again, *back; /* the block is made; copied out; overwritten; copied in */
    float *device, *host;                   /* [2 * FLOATS]: the block and where it comes back; [FLOATS] */
    long wrong;                             /* floats that were not as expected; compute's worker counts   */
    int without;
} Lanes;

/* in[0] holds the number of the round; out[0] is filled with it. */
static TideStatus make(const KernelCall *c)
{
    float value = (float)*(const int *)c->in[0], *out = c->out[0];
    for (int i = 0; i < FLOATS; i++) out[i] = value + (float)i;
    return TIDE_OK;
}

/* in[0] holds the number of the round, in[1] the floats, in[2] the counter. */
static TideStatus check(const KernelCall *c)
{
    float value = (float)*(const int *)c->in[0];
    const float *x = c->in[1];
    long *wrong = c->in[2];
    for (int i = 0; i < FLOATS; i++) *wrong += x[i] != value + (float)i;
    return TIDE_OK;
}

static const Kernel making = { .run = make }, checking = { .run = check };

static TideStatus wait_for(const Lanes *l, int number, Stream *s, Event *e)
{
    return number == l->without ? TIDE_OK : l->be->event_wait(s, e);
}

static TideStatus round_trip(Lanes *l, int *number)
{
    static const Node node1 = { .n_in = 1, .n_out = 1 }, node3 = { .n_in = 3 };
    const Backend *be = l->be;
    const Tensor *info[3] = { NULL };
    void *in[3] = { number, l->device + FLOATS, &l->wrong }, *out[1] = { l->device };
    KernelCall c = {
        .node = &node1, .in_info = info, .out_info = info, .in = in, .out = out, .stream = l->compute
    };

    TRY(be->launch(&making, &c));
    TRY(be->event_record(l->compute, l->made));
    TRY(wait_for(l, 1, l->out, l->made));
    TRY(be->copy(l->out, l->host, l->device, FLOATS * sizeof(float)));
    TRY(be->event_record(l->out, l->left));
    TRY(wait_for(l, 2, l->compute, l->left));
    TRY(be->fill(l->compute, l->device, 0, FLOATS * sizeof(float)));
    TRY(be->event_record(l->compute, l->free_again));
    TRY(wait_for(l, 3, l->in, l->free_again));
    TRY(be->copy(l->in, l->device + FLOATS, l->host, FLOATS * sizeof(float)));
    TRY(be->event_record(l->in, l->back));
    TRY(wait_for(l, 4, l->compute, l->back));
    c.node = &node3;
    return be->launch(&checking, &c);
}

static TideStatus open_lanes(Lanes *l)
{
    const Backend *be = l->be;

    TRY(be->open(0, (TideDeviceOptions){ 0 }, &l->d));
    TRY(be->stream_new(l->d, 0, &l->compute));
    TRY(be->stream_new(l->d, 0, &l->out));
    TRY(be->stream_new(l->d, 0, &l->in));
    TRY(be->event_new(l->d, &l->made));
    TRY(be->event_new(l->d, &l->left));
    TRY(be->event_new(l->d, &l->free_again));
    TRY(be->event_new(l->d, &l->back));
    TRY(be->device_alloc(l->d, 2 * FLOATS * sizeof(float), (void **)&l->device));
    return be->host_alloc(l->d, FLOATS * sizeof(float), (void **)&l->host);
}

static void close_lanes(Lanes *l)
{
    const Backend *be = l->be;

    be->stream_free(l->compute);
    be->stream_free(l->out);
    be->stream_free(l->in);
    be->event_free(l->made);
    be->event_free(l->left);
    be->event_free(l->free_again);
    be->event_free(l->back);
    be->device_free(l->d, l->device, 2 * FLOATS * sizeof(float));
    be->host_free(l->d, l->host, FLOATS * sizeof(float));
    be->close(l->d);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 5000;
    int *numbers = malloc((size_t)(rounds > 0 ? rounds : 1) * sizeof *numbers);
    Lanes l = { .be = &cpu_backend, .without = argc > 2 ? atoi(argv[2]) : 0 };
    TideStatus status = numbers ? open_lanes(&l) : TIDE_NO_MEMORY;

    for (int i = 0; !status && i < rounds; i++) {
        numbers[i] = i;
        status = round_trip(&l, &numbers[i]);
        if (!status && i % 1000 == 999) status = l.be->event_sync(l.back);
    }
    if (!status) status = l.be->stream_sync(l.compute);
    if (!status)
        printf("%d round trips, %ld wrong numbers\n", rounds, l.wrong);
    else
        printf("status %d\n", status);
    bool bad = status || l.wrong;
    close_lanes(&l);
    free(numbers);
    return bad;
}
