/* test_cpu_stream.c - the rules of streams and events, through the CPU backend. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base.h"
#include "runtime/graph.h"

static const Backend *const be = &cpu_backend;

/* A device with two streams and two events. */
typedef struct Rig {
    Device *d;
    Stream *a, *b;
    Event *e, *f;
} Rig;

static Rig rig(double link)
{
    Rig r = { 0 };

    cr_assert_eq(be->open(0, (TideDeviceOptions){ .link_bytes_per_second = link }, &r.d), TIDE_OK);
    cr_assert_eq(be->stream_new(r.d, 0, &r.a), TIDE_OK);
    cr_assert_eq(be->stream_new(r.d, 0, &r.b), TIDE_OK);
    cr_assert_eq(be->event_new(r.d, &r.e), TIDE_OK);
    cr_assert_eq(be->event_new(r.d, &r.f), TIDE_OK);
    return r;
}

static void rig_free(Rig *r)
{
    be->stream_free(r->a);
    be->stream_free(r->b);
    be->event_free(r->e);
    be->event_free(r->f);
    be->close(r->d);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Kernels to launch ------------------------------------------------------------------------ */

/* *out[0] = the sum of *in[]. */
static TideStatus add_all(const KernelCall *c)
{
    int sum = 0;

    for (int i = 0; i < c->node->n_in; i++) sum += *(int *)c->in[i];
    *(int *)c->out[0] = sum;
    return TIDE_OK;
}

static TideStatus fail(const KernelCall *c)
{
    (void)c;
    return TIDE_DEVICE;
}

static const Kernel adding = { .run = add_all }, failing = { .run = fail };

/* Launch with n inputs; the arrays are wiped on return, which a stream must not notice. */
static TideStatus launch(Stream *s, const Kernel *k, const Node *node, int *values, int *result)
{
    void *in[300], *out[1] = { result };
    const Tensor *info[300] = { NULL };
    KernelCall c = { .node = node, .in_info = info, .out_info = info, .in = in, .out = out, .stream = s };

    cr_assert(node->n_in <= 300);
    for (int i = 0; i < node->n_in; i++) in[i] = &values[i];
    TideStatus status = be->launch(k, &c);
    memset(in, 0xff, sizeof in);
    memset(out, 0xff, sizeof out);
    memset(&c, 0xff, sizeof c);
    return status;
}

/* ---- Order ------------------------------------------------------------------------------------ */

Test(cpu_stream, work_is_done_in_order)
{
    Rig r = rig(0);
    int n = 5000, *log = calloc((size_t)n + 1, sizeof *log); /* more than the ring holds */

    log[0] = 7;
    for (int i = 0; i < n; i++) be->copy(r.a, &log[i + 1], &log[i], sizeof *log);
    cr_assert_eq(be->stream_sync(r.a), TIDE_OK);
    for (int i = 0; i <= n; i++) cr_assert_eq(log[i], 7, "copy %d ran before the one it depends on", i);
    free(log);
    rig_free(&r);
}

Test(cpu_stream, a_wait_holds_later_work_until_the_record)
{
    Rig r = rig(0);
    int x = 1, y = 0;

    be->delay(r.a, 0.05);
    be->fill(r.a, &x, 2, sizeof x);
    be->event_record(r.a, r.e);
    be->event_wait(r.b, r.e);
    be->copy(r.b, &y, &x, sizeof x);
    cr_assert_eq(be->stream_sync(r.b), TIDE_OK);
    cr_expect_eq(y, 0x02020202);
    rig_free(&r);
}

Test(cpu_stream, a_wait_means_the_newest_record_before_it)
{
    Rig r = rig(0);
    double began = now();

    be->event_wait(r.b, r.e); /* nothing was recorded: no wait */
    be->event_record(r.a, r.e);
    be->event_wait(r.b, r.e);
    be->delay(r.a, 0.5);
    be->event_record(r.a, r.e); /* later than the wait of b, which must not wait for it */
    cr_assert_eq(be->stream_sync(r.b), TIDE_OK);
    cr_expect(now() - began < 0.4, "waited %g s for a record that was issued after the wait", now() - began);
    cr_assert_eq(be->event_sync(r.e), TIDE_OK);
    cr_expect(now() - began >= 0.5, "the host must wait for the newest record");
    rig_free(&r);
}

Test(cpu_stream, an_event_measures_time)
{
    Rig r = rig(0);
    double seconds = 0;

    be->event_record(r.a, r.e);
    be->delay(r.a, 0.05);
    be->event_record(r.a, r.f);
    cr_assert_eq(be->stream_sync(r.a), TIDE_OK);
    cr_assert_eq(be->event_seconds(r.e, r.f, &seconds), TIDE_OK);
    cr_expect(seconds >= 0.05 && seconds < 1, "a delay of 0.05 s measures as %g s", seconds);
    rig_free(&r);
}

/* ---- Launches --------------------------------------------------------------------------------- */

Test(cpu_stream, a_launch_keeps_copies_of_its_arrays)
{
    Rig r = rig(0);
    int values[300], results[64] = { 0 };
    const Node few = { .n_in = 2, .n_out = 1 }, many = { .n_in = 300, .n_out = 1 };

    for (int i = 0; i < 300; i++) values[i] = i + 1;
    be->delay(r.a, 0.02); /* so that launches pile up while room for more inputs is made */
    for (int i = 0; i < 64; i++) {
        const Node *node = i < 32 ? &few : &many;
        cr_assert_eq(launch(r.a, &adding, node, values, &results[i]), TIDE_OK);
    }
    cr_assert_eq(be->stream_sync(r.a), TIDE_OK);
    for (int i = 0; i < 64; i++) cr_expect_eq(results[i], i < 32 ? 3 : 300 * 301 / 2, "launch %d", i);
    rig_free(&r);
}

Test(cpu_stream, a_failure_stays_and_spreads_to_those_who_wait)
{
    Rig r = rig(0);
    int value = 1, result = 0;
    Node node = { .n_in = 1, .n_out = 1 };

    be->event_record(r.a, r.e);
    cr_assert_eq(be->event_sync(r.e), TIDE_OK);
    launch(r.a, &failing, &node, &value, &result);
    launch(r.a, &adding, &node, &value, &result);
    be->event_record(r.a, r.e);
    be->event_wait(r.b, r.e);
    be->copy(r.b, &result, &value, sizeof value);
    cr_expect_eq(be->event_sync(r.e), TIDE_DEVICE);
    cr_expect_eq(be->stream_sync(r.a), TIDE_DEVICE);
    cr_expect_eq(be->stream_sync(r.a), TIDE_DEVICE, "a failure must not be forgotten");
    cr_expect_eq(be->stream_sync(r.b), TIDE_DEVICE);
    cr_expect_eq(result, 0, "work behind a failure ran");
    rig_free(&r);
}

/* ---- The link --------------------------------------------------------------------------------- */

Test(cpu_stream, a_slow_link_takes_bytes_over_bandwidth)
{
    enum { COPIES = 50, BYTES = 10000 };
    Rig r = rig(1e7); /* 1 ms a copy */
    static char from[BYTES], to[BYTES];
    double seconds = 0;

    be->event_record(r.a, r.e);
    for (int i = 0; i < COPIES; i++) be->copy(r.a, to, from, BYTES);
    be->event_record(r.a, r.f);
    cr_assert_eq(be->event_seconds(r.e, r.f, &seconds), TIDE_OK);
    cr_expect(seconds >= 0.9999e-3 * COPIES, "%d copies of 1 ms took %g s", COPIES, seconds);
    cr_expect(seconds < 3e-3 * COPIES, "%d copies of 1 ms took %g s", COPIES, seconds);
    rig_free(&r);
}

Test(cpu_stream, lanes_are_slow_independently)
{
    Rig r = rig(1e6);
    static char from[50000], to_a[50000], to_b[50000];
    double began = now();

    be->copy(r.a, to_a, from, sizeof from);
    be->copy(r.b, to_b, from, sizeof from);
    be->stream_sync(r.a);
    be->stream_sync(r.b);
    cr_expect(now() - began < 0.09, "two lanes of 50 ms each took %g s together", now() - began);
    rig_free(&r);
}

/* ---- Memory ----------------------------------------------------------------------------------- */

Test(cpu_stream, arenas_are_aligned_zero_and_counted)
{
    Rig r = rig(0);
    MemoryInfo before, during, after;
    size_t sizes[] = { 256, 4096, 4352, (size_t)1 << 20 };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *p = NULL;
        be->memory(r.d, &before);
        cr_assert_eq(be->device_alloc(r.d, sizes[i], &p), TIDE_OK);
        be->memory(r.d, &during);
        cr_expect_eq((uintptr_t)p % be->alignment, 0);
        cr_expect_eq(during.process, before.process + sizes[i]);
        cr_expect_eq(((char *)p)[sizes[i] - 1], 0);
        memset(p, 1, sizes[i]);
        be->device_free(r.d, p, sizes[i]);
        be->memory(r.d, &after);
        cr_expect_eq(after.process, before.process);
    }
    cr_expect(before.total > 0 && before.free > 0 && before.free <= before.total);
    rig_free(&r);
}

/* A handler of our own, because sanitizers have one too. */
static void trapped(int number)
{
    (void)number;
    _exit(42);
}

Test(cpu_stream, a_byte_past_the_arena_traps, .exit_code = 42)
{
    Rig r = rig(0);
    void *p = NULL;

    cr_assert_eq(be->device_alloc(r.d, 512, &p), TIDE_OK);
    sigaction(SIGSEGV, &(struct sigaction){ .sa_handler = trapped }, NULL);
    ((volatile char *)p)[511] = 1;
    ((volatile char *)p)[512] = 1;
}

Test(cpu_stream, too_much_memory_is_refused_with_its_size)
{
    Rig r = rig(0);
    void *p = &p;

    cr_expect_eq(be->device_alloc(r.d, (size_t)1 << 62, &p), TIDE_NO_MEMORY);
    cr_expect_null(p);
    cr_expect(strstr(be->message(r.d), "4611686018427387904"), "the message is: %s", be->message(r.d));
    rig_free(&r);
}

Test(cpu_stream, there_is_one_cpu)
{
    Device *d = NULL;

    cr_expect_eq(be->open(1, (TideDeviceOptions){ 0 }, &d), TIDE_DEVICE);
    cr_expect_null(d);
    cr_expect(strlen(be->message(NULL)) > 0);
}
