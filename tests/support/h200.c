/* h200.c - a profile as of an H200. */
#include <string.h>
#include "tests/support/h200.h"

Tide *h200_open(void)
{
    static Backend backend;
    Tide *t = NULL;

    if (tide_open("cpu", (TideDeviceOptions){ 0 }, &t)) return NULL;
    backend = *t->backend;
    backend.types |= 1u << TIDE_BF16;
    t->backend = &backend;
    return t;
}

static double speed_of(const char *key)
{
    if (strncmp(key, "attention", 9) == 0) return 450e12;
    return strstr(key, "linear") ? 600e12 : 0;
}

void h200_times(TideProfile *f, double slower)
{
    for (int i = 0; i < f->n_entries; i++) {
        Entry *e = &f->entries[i];
        double by_bytes = e->bytes / 4.2e12, speed = speed_of(e->key),
               by_flops = speed > 0 ? e->flops / speed : 0;
        e->seconds = 2e-6 + (by_flops > by_bytes ? by_flops : by_bytes);
    }
    f->link = (Link){ .out = 55e9 / slower, .in = 55e9 / slower, .duplex = 51e9 / slower, .latency = 3e-6 };
}
