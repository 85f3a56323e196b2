/* backend.h - all that a device must be able to do. */
#ifndef TIDE_BACKEND_H
#define TIDE_BACKEND_H
#include "runtime/op.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct Device  Device;  /* private to each backend */
typedef struct Stream  Stream;
typedef struct Event   Event;
typedef struct Capture Capture; /* a recorded sequence of work that can be replayed */

/* One launch. Pointers are addresses inside the device arena. Scratch bytes come
 * from Kernel.scratch; in[i] and in_info[i] are NULL where an input is left out. */
typedef struct KernelCall {
    const Node          *node;
    const Tensor *const *in_info, *const *out_info;
    void *const         *in;
    void *const         *out;
    void                *scratch;
    Stream              *stream;
    Device              *device;
} KernelCall;

typedef struct Kernel {
    /* Enqueue only: no allocation, no synchronization. A failure leaves its text with
     * the device (Backend.message). */
    TideStatus (*run)(const KernelCall *c);
    /* Bytes of scratch, a function of shapes and attributes alone. NULL: none. */
    size_t     (*scratch)(const Node *n, const Tensor *const *in, const Tensor *const *out);
    /* Choose and build, before the first step, what calls of these shapes need: a library's algorithm,
     * timed against others unless the numerics record names one. Called for each launch of a plan, so
     * several times for one shape, with addresses as run() will get them, whose bytes it may overwrite,
     * scratch included; may allocate on the host and waits for its work. NULL: nothing to prepare. A
     * run() that was not prepared builds what it lacks without timing. */
    TideStatus (*prepare)(const KernelCall *c);
} Kernel;

typedef struct MemoryInfo {
    size_t total, free; /* of the device                                        */
    size_t process;     /* taken by this process; 0 if the device cannot tell   */
} MemoryInfo;

/* What such a device roughly does, to guess times before any was measured. */
typedef struct Rough {
    double flops_per_second, bytes_per_second, link_bytes_per_second;
    double launch_seconds; /* of a node, and of a copy */
    size_t fixed_bytes;    /* of a process outside the arena: context, code, handles; 0: none */
} Rough;

typedef struct Backend {
    const char          *name;
    Rough                rough;
    size_t               alignment; /* of every slot, a power of two */
    const Kernel *const *kernels;   /* indexed by OpDesc.id          */
    unsigned             types;     /* bit 1 << TideType: dtypes that its kernels have */
    /* Scratch bytes of a node on a device that has no kernels, only a description; else NULL. */
    size_t             (*scratch)(const Device *d, const Node *n, const Tensor *const *in,
                                  const Tensor *const *out);
    int64_t              block_elements; /* of a block of rows that is worth a node: fewer waste time, more
                                          * only memory */

    TideStatus (*open)(int ordinal, TideDeviceOptions options, Device **out);
    void       (*close)(Device *d);
    /* Text of the last failure of this device; d NULL: of open(). Never NULL. */
    const char *(*message)(const Device *d);
    /* Device, driver and library versions on one line: part of the numerics record. */
    const char *(*versions)(const Device *d);
    TideStatus (*memory)(Device *d, MemoryInfo *out);

    TideStatus (*device_alloc)(Device *d, size_t bytes, void **out);
    void       (*device_free)(Device *d, void *p, size_t bytes);
    TideStatus (*host_alloc)(Device *d, size_t bytes, void **out); /* pinned */
    void       (*host_free)(Device *d, void *p, size_t bytes);

    /* Larger priority runs first when the device has to choose. */
    TideStatus (*stream_new)(Device *d, int priority, Stream **out);
    void       (*stream_free)(Stream *s);
    TideStatus (*stream_sync)(Stream *s);
    /* Async; addresses tell the direction. The source must stay valid. */
    TideStatus (*copy)(Stream *s, void *to, const void *from, size_t bytes);
    TideStatus (*fill)(Stream *s, void *to, int byte, size_t bytes);
    /* Do nothing for a while, in order: for tests of races and profiles. */
    TideStatus (*delay)(Stream *s, double seconds);
    /* Let kernel k run call c in the order of c->stream. What c points to, the node and the
     * tensors' facts excepted, may change on return. */
    TideStatus (*launch)(const Kernel *k, const KernelCall *c);

    TideStatus (*event_new)(Device *d, Event **out);
    void       (*event_free)(Event *e);
    TideStatus (*event_record)(Stream *s, Event *e);
    TideStatus (*event_wait)(Stream *s, Event *e); /* the newest record issued so far */
    TideStatus (*event_sync)(Event *e);            /* the host waits                 */
    /* Seconds between two events that are over. */
    TideStatus (*event_seconds)(Event *from, Event *to, double *out);

    /* Record what is issued between begin and end on streams that fork from s and join
     * it again. A backend that cannot: capture_begin is NULL and work is issued anew. */
    TideStatus (*capture_begin)(Stream *s);
    TideStatus (*capture_end)(Stream *s, Capture **out);
    TideStatus (*capture_replay)(Capture *c, Stream *s);
    void       (*capture_free)(Capture *c);

    /* The numerics record: which algorithms the libraries use for which shape, chosen or given so far, as
     * JSON text that the caller frees; NULL without memory. Load adopts a record before anything is
     * prepared: TIDE_BAD_FILE if it is malformed or disagrees with what is in use or was given before.
     * One that was made with another kind of device or other versions is left aside. Both NULL: this
     * device makes no choices. */
    char      *(*numerics_save)(Device *d);
    TideStatus (*numerics_load)(Device *d, const char *json);
} Backend;

/* For a device that lives in the machine's own memory: bytes of the machine, or of the memory cgroup of this
 * process (v1 or v2) where that is tighter; 0 where it is not known. */
void machine_memory(size_t *total, size_t *free);

extern const Backend cpu_backend;
extern const Backend cuda_backend; /* only where it was built: see device.c */
#ifdef __cplusplus
}
#endif
#endif
