/* sample.c - softmax with a temperature, cut to the likeliest tokens, and one draw.
 *
 * The order of all sums, and the generator (xorshift64*, Vigna 2016), are llama2.c's (run.c), so that its
 * published samples can be reproduced. */
#include <math.h>
#include <stdlib.h>
#include "models/text/sample.h"
#include "runtime/op.h"

typedef struct Choice {
    float share;
    int token;
} Choice;

/* Falling shares; among equals the smaller token first, so that no sort's whim shows. */
static int by_share(const void *a, const void *b)
{
    const Choice *x = a, *y = b;

    if (x->share != y->share) return x->share > y->share ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

/* A number in [0, 1) from 24 random bits. */
static float draw(Sampler *s)
{
    s->state ^= s->state >> 12;
    s->state ^= s->state << 25;
    s->state ^= s->state >> 27;
    return (float)((s->state * 0x2545F4914F6CDD1Du) >> 40) * 0x1p-24f;
}

static int likeliest(const Sampler *s, const float *logits)
{
    int best = 0;

    for (int i = 1; i < s->vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Softmax of logits / temperature, whose maximum is most. */
static void find_shares(const Sampler *s, const float *logits, float most)
{
    Choice *c = s->choices;
    float sum = 0;

    most /= s->temperature;
    for (int i = 0; i < s->vocab; i++) {
        c[i] = (Choice){ expf(logits[i] / s->temperature - most), i };
        sum += c[i].share;
    }
    for (int i = 0; i < s->vocab; i++) c[i].share /= sum;
}

/* Put the likeliest choices that have together more than the share top_p in front, and return how many they
 * are, and their share. Those so rare that they cannot be among them are not sorted. */
static int cut(const Sampler *s, float *whole)
{
    float rare = (1.0f - s->top_p) / (float)(s->vocab - 1), sum = 0;
    Choice *c = s->choices;
    int n = 0;

    for (int i = 0; i < s->vocab; i++)
        if (c[i].share >= rare) c[n++] = c[i];
    qsort(c, (size_t)n, sizeof *c, by_share);
    for (int i = 0; i < n; i++) {
        sum += c[i].share;
        *whole = sum;
        if (sum > s->top_p) return i + 1;
    }
    return n;
}

static int pick(Sampler *s, const float *logits, float most)
{
    const Choice *c = s->choices;
    float coin = draw(s), whole = 1, sum = 0;
    int n = s->vocab;

    find_shares(s, logits, most);
    if (s->top_p > 0 && s->top_p < 1 && s->vocab > 1) n = cut(s, &whole);
    for (int i = 0; i < n; i++) {
        sum += c[i].share;
        if (coin * whole < sum) return c[i].token;
    }
    return c[n - 1].token; /* rounding left the coin at the very end */
}

TideStatus sampler_new(Tide *t, Sampler settings, Sampler **out)
{
    *out = NULL;
    if (!(settings.temperature >= 0 && settings.temperature <= 1e6f))
        return tide_fail(t, TIDE_BAD_GRAPH, "temperature is %g; it must be from 0 to 1e6",
                         (double)settings.temperature);
    if (!(settings.top_p >= 0 && settings.top_p <= 1))
        return tide_fail(t, TIDE_BAD_GRAPH, "top-p is %g; it must be from 0 to 1", (double)settings.top_p);
    if (settings.vocab < 1)
        return tide_fail(t, TIDE_BAD_GRAPH, "vocab is %d; it must be at least 1", settings.vocab);
    Sampler *s = malloc(sizeof *s);
    if (s) {
        *s = settings;
        if (!s->state) s->state = 0x9E3779B97F4A7C15u;
        s->choices = malloc((size_t)s->vocab * sizeof(Choice));
    }
    if (!s || !s->choices) {
        free(s);
        return tide_fail(t, TIDE_NO_MEMORY, "no memory to sample from %d tokens", settings.vocab);
    }
    *out = s;
    return TIDE_OK;
}

void sampler_free(Sampler *s)
{
    if (!s) return;
    free(s->choices);
    free(s);
}

int sampler_next(Sampler *s, const float *logits)
{
    for (int i = 0; i < s->vocab; i++)
        if (isnan(logits[i])) return -1;
    int best = likeliest(s, logits);
    if (!isfinite(logits[best])) return -1;
    return s->temperature > 0 ? pick(s, logits, logits[best]) : best;
}
