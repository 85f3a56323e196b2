/* cpu_stream.h - CUDA's streams and events, with one worker thread a stream.
 *
 * Everything but the waits of the host is enqueued and returns at once. One thread issues to all
 * streams of a device; the workers run what was issued, each in order. */
#ifndef TIDE_CPU_STREAM_H
#define TIDE_CPU_STREAM_H
#include "runtime/backend.h"

/* With options->link_bytes_per_second copies take at least bytes over this long; 0: as fast as memory.
 * Kernels run on options->threads threads; 0: as OpenMP chooses. */
TideStatus stream_new(Device *d, const TideDeviceOptions *options, Stream **out);
/* Finish what was issued, end the worker. */
void stream_free(Stream *s);
/* Wait until all that was issued is over; the first failure in it. */
TideStatus stream_sync(Stream *s);

TideStatus stream_launch(const Kernel *k, const KernelCall *c);
TideStatus stream_copy(Stream *s, void *to, const void *from, size_t bytes);
TideStatus stream_fill(Stream *s, void *to, int byte, size_t bytes);
TideStatus stream_delay(Stream *s, double seconds);

TideStatus event_new(Device *d, Event **out);
/* No stream may still have a record of e or a wait for it ahead. */
void event_free(Event *e);
TideStatus event_record(Stream *s, Event *e);
/* Later work of s starts after the newest record issued so far; none: at once. A failure before
 * that record stops s too. */
TideStatus event_wait(Stream *s, Event *e);
TideStatus event_sync(Event *e);
TideStatus event_seconds(Event *from, Event *to, double *out);

#endif
