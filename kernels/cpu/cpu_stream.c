/* cpu_stream.c - CUDA's streams and events, with one worker thread a stream.
 *
 * A stream is a ring of tasks that its worker runs in order. An event counts tickets: a record
 * takes the next one when it is issued, and is over when the worker passes it; a wait asks for
 * the newest ticket taken so far, never for a later one. These are CUDA's rules, events reused
 * from step to step included, so a plan that is wrong there is wrong here, where sanitizers see
 * it. A wait can only name a record that was issued before it: workers cannot wait in a circle. */
#include "kernels/cpu/cpu_stream.h"
#include "runtime/base.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RING = 1024, FIRST_POINTERS = 32 };

struct Event {
    pthread_mutex_t lock;
    pthread_cond_t passed;
    long issued, done; /* tickets                                            */
    double when;       /* seconds of the monotonic clock at ticket `done`    */
    TideStatus status; /* of the work before ticket `done`                   */
};

typedef enum TaskKind { TASK_LAUNCH, TASK_COPY, TASK_FILL, TASK_DELAY, TASK_RECORD, TASK_WAIT } TaskKind;

typedef struct Task {
    TaskKind kind;
    union {
        struct {
            const Kernel *kernel;
            KernelCall call;
        } launch;
        struct {
            void *to;
            const void *from;
            size_t bytes;
            int byte;
        } memory;
        struct {
            Event *event;
            long ticket;
        } sync;
        double seconds;
    } u;
} Task;

struct Stream {
    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t more; /* the worker waits for tasks                        */
    pthread_cond_t less; /* the host waits for room, or for the end           */
    Task *ring;          /* [RING]                                            */
    long head, tail;     /* tasks finished, tasks issued                      */
    bool closing;
    TideStatus status; /* of the first failure                              */

    /* Copies of what a KernelCall points to: n_pointers for each place of the ring, moved only
     * while the ring is empty. They grow when a call with more inputs comes for the first time, so
     * the second step of a program finds room for all of its calls. */
    const void **pointers; /* [RING * n_pointers] */
    int n_pointers;

    /* The worker's own. */
    double link; /* bytes per second of copies, 0: no limit                     */
    int threads; /* of a kernel, 0: as OpenMP chooses                           */
    double late; /* seconds that the last copy overslept, if work was waiting   */
};

/* ---- Time ------------------------------------------------------------------------------------ */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_until(double when)
{
    struct timespec t = { .tv_sec = (time_t)when };
    t.tv_nsec = (long)((when - (double)t.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}

/* ---- The worker ------------------------------------------------------------------------------ */

/* Over a slow link a copy ends bytes / link after it began. Sleeping is late by some tens of
 * microseconds; a copy that was already waiting starts as if it had not been. */
static void copy(Stream *s, const Task *t)
{
    double began = now() - s->late;

    memcpy(t->u.memory.to, t->u.memory.from, t->u.memory.bytes);
    if (s->link <= 0) return;
    double due = began + (double)t->u.memory.bytes / s->link;
    if (due > now()) sleep_until(due);
    s->late = now() - due;
}

static void pass_record(const Stream *s, const Task *t)
{
    Event *e = t->u.sync.event;

    pthread_mutex_lock(&e->lock);
    e->done = t->u.sync.ticket;
    e->when = now();
    e->status = s->status;
    pthread_cond_broadcast(&e->passed);
    pthread_mutex_unlock(&e->lock);
}

/* Returns the status of the work before the ticket; *blocked tells whether it had to wait. */
static TideStatus await_ticket(Event *e, long ticket, bool *blocked)
{
    pthread_mutex_lock(&e->lock);
    *blocked = e->done < ticket;
    while (e->done < ticket) pthread_cond_wait(&e->passed, &e->lock);
    TideStatus status = ticket ? e->status : TIDE_OK;
    pthread_mutex_unlock(&e->lock);
    return status;
}

static TideStatus run_task(Stream *s, const Task *t)
{
    bool blocked = true; /* everything but records and waits that are over takes time of its own */
    TideStatus status = TIDE_OK;

    switch (t->kind) {
    case TASK_RECORD: pass_record(s, t); return TIDE_OK;
    case TASK_COPY:
        if (!s->status) copy(s, t);
        return TIDE_OK;
    case TASK_LAUNCH:
        if (!s->status) status = t->u.launch.kernel->run(&t->u.launch.call);
        break;
    case TASK_FILL:
        if (!s->status) memset(t->u.memory.to, t->u.memory.byte, t->u.memory.bytes);
        break;
    case TASK_DELAY: sleep_until(now() + t->u.seconds); break;
    case TASK_WAIT: status = await_ticket(t->u.sync.event, t->u.sync.ticket, &blocked); break;
    }
    if (blocked) s->late = 0;
    return status;
}

/* The next task, or NULL at the end. It stays in the ring until finish(). */
static const Task *next_task(Stream *s)
{
    pthread_mutex_lock(&s->lock);
    if (s->head == s->tail) s->late = 0;
    while (s->head == s->tail && !s->closing) pthread_cond_wait(&s->more, &s->lock);
    const Task *t = s->head == s->tail ? NULL : &s->ring[s->head % RING];
    pthread_mutex_unlock(&s->lock);
    return t;
}

/* The host is woken when there is half a ring of room or nothing left, not after every task. */
static void finish(Stream *s, TideStatus status)
{
    pthread_mutex_lock(&s->lock);
    if (!s->status) s->status = status;
    long left = s->tail - ++s->head;
    if (left == 0 || left == RING / 2) pthread_cond_broadcast(&s->less);
    pthread_mutex_unlock(&s->lock);
}

/* OpenMP counts threads for each thread that starts a team. Not there in a build without it. */
extern void omp_set_num_threads(int n) __attribute__((weak));

static void *work(void *arg)
{
    Stream *s = arg;

    if (s->threads > 0 && omp_set_num_threads) omp_set_num_threads(s->threads);
    for (const Task *t; (t = next_task(s));) finish(s, run_task(s, t));
    return NULL;
}

/* ---- Issuing --------------------------------------------------------------------------------- */

/* Take the lock and wait for room in the ring. */
static void begin_issue(Stream *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->tail - s->head == RING) pthread_cond_wait(&s->less, &s->lock);
}

static void end_issue(Stream *s, Task task)
{
    s->ring[s->tail % RING] = task;
    if (s->tail++ == s->head) pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}

static TideStatus issue(Stream *s, Task task)
{
    begin_issue(s);
    end_issue(s, task);
    return TIDE_OK;
}

/* Room for n pointers in each place of the ring. The lock is held. */
static TideStatus reserve_pointers(Stream *s, int n)
{
    if (n <= s->n_pointers) return TIDE_OK;
    while (s->head != s->tail) pthread_cond_wait(&s->less, &s->lock);
    const void **larger = realloc(s->pointers, (size_t)n * RING * sizeof *larger);
    if (!larger) return TIDE_NO_MEMORY;
    s->pointers = larger;
    s->n_pointers = n;
    return TIDE_OK;
}

/* Copy the arrays of a call to `to` and let the call point there. */
static void keep_arrays(KernelCall *c, const void **to)
{
    size_t n_in = (size_t)c->node->n_in, n_out = (size_t)c->node->n_out;
    const void **in_info = to, **out_info = in_info + n_in, **in = out_info + n_out, **out = in + n_in;

    if (n_in) memcpy(in_info, c->in_info, n_in * sizeof *to);
    if (n_in) memcpy(in, c->in, n_in * sizeof *to);
    if (n_out) memcpy(out_info, c->out_info, n_out * sizeof *to);
    if (n_out) memcpy(out, c->out, n_out * sizeof *to);
    c->in_info = (const Tensor *const *)in_info;
    c->out_info = (const Tensor *const *)out_info;
    c->in = (void *const *)in;
    c->out = (void *const *)out;
}

TideStatus stream_launch(const Kernel *k, const KernelCall *c)
{
    Stream *s = c->stream;
    Task task = { .kind = TASK_LAUNCH, .u.launch = { k, *c } };

    begin_issue(s);
    TideStatus status = reserve_pointers(s, 2 * (c->node->n_in + c->node->n_out));
    if (status) {
        pthread_mutex_unlock(&s->lock);
        return status;
    }
    keep_arrays(&task.u.launch.call, &s->pointers[(s->tail % RING) * s->n_pointers]);
    end_issue(s, task);
    return TIDE_OK;
}

TideStatus stream_copy(Stream *s, void *to, const void *from, size_t bytes)
{
    return issue(s, (Task){ .kind = TASK_COPY, .u.memory = { .to = to, .from = from, .bytes = bytes } });
}

TideStatus stream_fill(Stream *s, void *to, int byte, size_t bytes)
{
    return issue(s, (Task){ .kind = TASK_FILL, .u.memory = { .to = to, .bytes = bytes, .byte = byte } });
}

TideStatus stream_delay(Stream *s, double seconds)
{
    return issue(s, (Task){ .kind = TASK_DELAY, .u.seconds = seconds });
}

TideStatus event_record(Stream *s, Event *e)
{
    pthread_mutex_lock(&e->lock);
    long ticket = ++e->issued;
    pthread_mutex_unlock(&e->lock);
    return issue(s, (Task){ .kind = TASK_RECORD, .u.sync = { e, ticket } });
}

static long newest_ticket(Event *e)
{
    pthread_mutex_lock(&e->lock);
    long ticket = e->issued;
    pthread_mutex_unlock(&e->lock);
    return ticket;
}

TideStatus event_wait(Stream *s, Event *e)
{
    return issue(s, (Task){ .kind = TASK_WAIT, .u.sync = { e, newest_ticket(e) } });
}

/* ---- Waiting, making, freeing ---------------------------------------------------------------- */

TideStatus event_sync(Event *e)
{
    bool blocked;
    return await_ticket(e, newest_ticket(e), &blocked);
}

TideStatus event_seconds(Event *from, Event *to, double *out)
{
    TRY(event_sync(from));
    TRY(event_sync(to));
    *out = to->when - from->when;
    return TIDE_OK;
}

TideStatus event_new(Device *d, Event **out)
{
    Event *e = calloc(1, sizeof *e);

    (void)d;
    *out = NULL;
    if (!e) return TIDE_NO_MEMORY;
    if (pthread_mutex_init(&e->lock, NULL)) goto no_lock;
    if (pthread_cond_init(&e->passed, NULL)) goto no_cond;
    *out = e;
    return TIDE_OK;
no_cond:
    pthread_mutex_destroy(&e->lock);
no_lock:
    free(e);
    return TIDE_NO_MEMORY;
}

void event_free(Event *e)
{
    if (!e) return;
    pthread_cond_destroy(&e->passed);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

TideStatus stream_sync(Stream *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->head != s->tail) pthread_cond_wait(&s->less, &s->lock);
    TideStatus status = s->status;
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void free_memory(Stream *s)
{
    free(s->pointers);
    free(s->ring);
    free(s);
}

/* The locks of a stream and its worker; on failure nothing is left of them. */
static TideStatus start_worker(Stream *s)
{
    if (pthread_mutex_init(&s->lock, NULL)) return TIDE_NO_MEMORY;
    if (pthread_cond_init(&s->more, NULL)) goto no_more;
    if (pthread_cond_init(&s->less, NULL)) goto no_less;
    if (pthread_create(&s->worker, NULL, work, s)) goto no_worker;
    return TIDE_OK;
no_worker:
    pthread_cond_destroy(&s->less);
no_less:
    pthread_cond_destroy(&s->more);
no_more:
    pthread_mutex_destroy(&s->lock);
    return TIDE_NO_MEMORY;
}

TideStatus stream_new(Device *d, const TideDeviceOptions *options, Stream **out)
{
    Stream *s = calloc(1, sizeof *s);

    (void)d;
    *out = NULL;
    if (!s) return TIDE_NO_MEMORY;
    s->link = options->link_bytes_per_second;
    s->threads = options->threads;
    s->ring = calloc(RING, sizeof *s->ring);
    s->n_pointers = FIRST_POINTERS;
    s->pointers = malloc((size_t)s->n_pointers * RING * sizeof *s->pointers);
    TideStatus status = s->ring && s->pointers ? start_worker(s) : TIDE_NO_MEMORY;
    if (status) {
        free_memory(s);
        return status;
    }
    *out = s;
    return TIDE_OK;
}

void stream_free(Stream *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->worker, NULL);
    pthread_cond_destroy(&s->less);
    pthread_cond_destroy(&s->more);
    pthread_mutex_destroy(&s->lock);
    free_memory(s);
}
