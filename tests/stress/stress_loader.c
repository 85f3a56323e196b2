/* stress_loader.c - the loader's thread against a caller that is now slow, now in a hurry, and loaders
 * that are freed at any moment. A plain main(), for ThreadSanitizer. */
#include <stdlib.h>
#include <time.h>
#include "models/text/loader.h"

enum { TOKENS = 20000, STEPS = 500, LOADERS = 100 };

static void pause_for(long nanoseconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = nanoseconds }, NULL);
}

/* The sum of all tokens and targets of some steps, read while the thread fills the next. */
static uint64_t sum_of(Tide *t, const ModelConfig *c, Part part, long pause)
{
    Loader *l = NULL;
    uint64_t sum = 0;

    if (loader_new(t, c, (LoaderStart){ part, { .seed = 11 } }, &l)) {
        fprintf(stderr, "stress_loader: %s\n", tide_message(t));
        return 0;
    }
    for (int i = 0; i < STEPS; i++) {
        const StepData *d = loader_next(l);
        for (int micro = 0; micro < c->accum; micro++) {
            const int32_t *x = step_tokens(d, micro), *y = step_targets(d, micro);
            for (size_t j = 0; j < d->target_bytes / sizeof *y; j++)
                sum = sum * 31 + (uint64_t)x[j] * 257 + (uint64_t)y[j];
        }
        if (pause && i % 16 == 0) pause_for(pause);
    }
    loader_free(l);
    return sum;
}

static bool same_in_any_hurry(Tide *t, const ModelConfig *c, Part part)
{
    uint64_t hurried = sum_of(t, c, part, 0);

    return hurried && hurried == sum_of(t, c, part, 100000);
}

static bool free_at_any_time(Tide *t, const ModelConfig *c, Part part)
{
    for (int i = 0; i < LOADERS; i++) {
        Loader *l = NULL;
        if (loader_new(t, c, (LoaderStart){ part, { .seed = 11, .step = i } }, &l)) return false;
        for (int j = 0; j < i % 5; j++)
            if (loader_next(l)->step != i + j) return false;
        loader_free(l);
    }
    return true;
}

int main(void)
{
    static uint16_t storage[TOKENS];
    Part windows = { &(Tokens){ storage, TOKENS, 2 }, 1, false }, samples = windows;
    ModelConfig c = { 0 };
    Tide *t = NULL;

    for (int i = 0; i < TOKENS; i++) storage[i] = (uint16_t)(i * 7 % 256);
    if (!model_preset("gpt-char", &c) || tide_open("cpu", (TideDeviceOptions){ 0 }, &t)) return 1;
    c.accum = 2;
    samples.by_sample = true;
    bool ok = same_in_any_hurry(t, &c, windows) && same_in_any_hurry(t, &c, samples);
    ok = ok && free_at_any_time(t, &c, windows) && free_at_any_time(t, &c, samples);
    printf("stress_loader: %d steps four times, %d loaders twice: %s\n", STEPS, LOADERS,
           ok ? "ok" : "FAILED");
    tide_close(t);
    return !ok;
}
