/* cuda_host.c - the host arena: mapped, touched by several threads, then registered.
 *
 * cudaHostAlloc() touches its pages on one thread and takes about 0.5 s a GiB; registering pages
 * that exist takes about 0.05. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kernels/cuda/cuda_host.h"
#include "runtime/base.h"

enum { MOST_THREADS = 16, THREAD_BYTES = 64 << 20 }; /* a thread for each so many bytes */

static size_t whole_pages(size_t bytes)
{
    return align_up(bytes ? bytes : 1, (size_t)sysconf(_SC_PAGESIZE));
}

typedef struct Part {
    char *from;
    size_t bytes;
    pthread_t thread;
    bool started;
} Part;

static void *touch(void *arg)
{
    const Part *part = arg;

    memset(part->from, 0, part->bytes);
    return NULL;
}

/* A part whose thread does not start is touched here. */
static void touch_all(char *base, size_t bytes)
{
    Part parts[MOST_THREADS] = { { 0 } };
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = 1 + bytes / THREAD_BYTES, most = cores < MOST_THREADS ? (size_t)cores : MOST_THREADS;

    if (n > most) n = most ? most : 1;
    size_t each = whole_pages(bytes / n);
    for (size_t i = 0; i < n && i * each < bytes; i++) {
        size_t left = bytes - i * each;
        parts[i] = (Part){ .from = base + i * each, .bytes = left < each || i == n - 1 ? left : each };
        parts[i].started = pthread_create(&parts[i].thread, NULL, touch, &parts[i]) == 0;
        if (!parts[i].started) touch(&parts[i]);
    }
    for (size_t i = 0; i < n; i++)
        if (parts[i].started) pthread_join(parts[i].thread, NULL);
}

static TideStatus pin(Device *d, void *p, size_t bytes)
{
    cudaError_t error = cudaHostRegister(p, bytes, cudaHostRegisterDefault);

    if (!error) return TIDE_OK;
    cudaGetLastError(); /* or the next launch would report it once more */
    return cuda_fail(
        d, TIDE_NO_MEMORY,
        "host pinned memory: cudaHostRegister of %zu bytes: %s; give a smaller host budget, raise "
        "the limit of locked memory (ulimit -l), or use --no-pin",
        bytes, cudaGetErrorString(error));
}

TideStatus host_arena_new(Device *d, size_t bytes, void **out)
{
    size_t whole = whole_pages(bytes);
    void *p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    *out = NULL;
    if (p == MAP_FAILED)
        return cuda_fail(d, TIDE_NO_MEMORY, "host memory: the system refused to map %zu bytes", whole);
    madvise(p, whole, MADV_HUGEPAGE); /* a wish: fewer pages to register */
    touch_all(p, whole);
    TideStatus status = d->options.no_pin ? TIDE_OK : pin(d, p, whole);
    if (status)
        munmap(p, whole);
    else
        *out = p;
    return status;
}

void host_arena_free(Device *d, void *p, size_t bytes)
{
    if (!p) return;
    if (!d->options.no_pin) cudaHostUnregister(p);
    munmap(p, whole_pages(bytes));
}
