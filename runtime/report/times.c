/* times.c - a profile as tables. */
#include "runtime/report/times.h"

#include <string.h>
#include "runtime/base.h"
#include "runtime/profile.h"
#include "runtime/report/account.h"

/* "1.234 ms" and the like, for columns. */
static void put_seconds(double seconds, FILE *to)
{
    if (seconds < 1e-3)
        fprintf(to, "%10.2f us", seconds * 1e6);
    else
        fprintf(to, "%10.3f ms", seconds * 1e3);
}

/* Shapes come last, since they are as long as they are. */
static void put_entry(const Entry *e, FILE *to)
{
    static const char *const from[] = { [SOURCE_NONE] = "",
                                        [SOURCE_MEASURED] = "",
                                        [SOURCE_SCALED] = "  (scaled)",
                                        [SOURCE_GUESSED] = "  (guessed)" };
    int name = (int)strcspn(e->key, " ");
    char scratch[BYTES_TEXT];

    fprintf(to, "%-20.*s ", name, e->key);
    put_seconds(e->seconds, to);
    fprintf(to, " %10.2f %10.2f %12s %s%s\n", e->flops / e->seconds * 1e-9, e->bytes / e->seconds * 1e-9,
            bytes_text(e->scratch_bytes, scratch), e->key + name, from[e->source]);
}

static void put_links(const TideProfile *f, FILE *to)
{
    char bytes[BYTES_TEXT];

    fprintf(to, "\ncopies, 1e9 bytes/s     out         in   out, both    in, both\n");
    for (int i = 0; i < f->n_sizes; i++) {
        const LinkSpeed *s = &f->by_size[i];
        fprintf(to, "%-16s %10.2f %10.2f  %10.2f  %10.2f\n", bytes_text(s->bytes, bytes), s->out * 1e-9,
                s->in * 1e-9, s->duplex_out * 1e-9, s->duplex_in * 1e-9);
    }
}

void times_print(const TideProfile *f, FILE *to)
{
    fprintf(to, "%-20s %13s %10s %10s %12s  %s\n", "operation", "time", "1e9 flop/s", "1e9 B/s", "scratch",
            "inputs > outputs");
    for (int i = 0; i < f->n_entries; i++) put_entry(&f->entries[i], to);
    put_links(f, to);
    fprintf(to, "\n");
    times_summary(f, to);
}

void times_summary(const TideProfile *f, FILE *to)
{
    char fixed[BYTES_TEXT];

    fprintf(to, "%s: %s\n", f->device, f->versions);
    fprintf(to, "%d operations, %d of them scaled or guessed; outside its arena a process takes %s\n",
            f->n_entries, f->filled, bytes_text(f->fixed_bytes, fixed));
    fprintf(to, "copies: out %.2f, in %.2f, each while both are busy %.2f (1e9 bytes/s), and %.1f us each\n",
            f->link.out * 1e-9, f->link.in * 1e-9, f->link.duplex * 1e-9, f->link.latency * 1e6);
}

void times_json(const TideProfile *f, FILE *to)
{
    profile_write(f, to);
}
