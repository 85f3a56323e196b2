/* sample.c - softmax with a temperature, cut to the likeliest tokens, and one draw. */
#include <math.h>
#include <stdlib.h>
#include "models/random.h"
#include "models/text/sample.h"
#include "runtime/op.h"

typedef struct Choice {
    float logit;
    int token;
} Choice;

/* Falling logits; among equals the smaller token first, so that no sort's whim shows. */
static int by_likelihood(const void *a, const void *b)
{
    const Choice *x = a, *y = b;

    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

/* A number in [0, 1) from 53 random bits. */
static double draw(Sampler *s)
{
    uint32_t w[4];

    random_words(random_key(s->seed, "sample"),
                 (uint32_t[4]){ (uint32_t)s->drawn, (uint32_t)(s->drawn >> 32), 0, 0 }, w);
    s->drawn++;
    return (double)(((uint64_t)w[1] << 32 | w[0]) >> 11) * 0x1p-53;
}

static double weight_of(const Sampler *s, Choice c, float most)
{
    return exp(((double)c.logit - (double)most) / (double)s->temperature);
}

/* How many of the likeliest choices have together the share top_p of the whole; at least one. */
static int count_in_share(const Sampler *s, const Choice *order, double whole)
{
    double sum = 0;

    if (s->top_p <= 0 || s->top_p >= 1) return s->vocab;
    for (int i = 0; i < s->vocab; i++) {
        sum += weight_of(s, order[i], order[0].logit);
        if (sum >= (double)s->top_p * whole) return i + 1;
    }
    return s->vocab;
}

static int pick(Sampler *s, const Choice *order)
{
    double whole = 0, share = 0, sum = 0;

    for (int i = 0; i < s->vocab; i++) whole += weight_of(s, order[i], order[0].logit);
    int n = count_in_share(s, order, whole);
    for (int i = 0; i < n; i++) share += weight_of(s, order[i], order[0].logit);
    double at = draw(s) * share;
    for (int i = 0; i < n; i++) {
        sum += weight_of(s, order[i], order[0].logit);
        if (at < sum) return order[i].token;
    }
    return order[0].token; /* rounding left `at` at the very end */
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
        s->order = malloc((size_t)s->vocab * sizeof(Choice));
    }
    if (!s || !s->order) {
        free(s);
        return tide_fail(t, TIDE_NO_MEMORY, "no memory to sample from %d tokens", settings.vocab);
    }
    *out = s;
    return TIDE_OK;
}

void sampler_free(Sampler *s)
{
    if (!s) return;
    free(s->order);
    free(s);
}

int sampler_next(Sampler *s, const float *logits)
{
    Choice *order = s->order;

    for (int i = 0; i < s->vocab; i++) {
        if (isnan(logits[i])) return -1;
        order[i] = (Choice){ logits[i], i };
    }
    qsort(order, (size_t)s->vocab, sizeof *order, by_likelihood);
    if (!isfinite(order[0].logit)) return -1;
    return s->temperature > 0 ? pick(s, order) : order[0].token;
}
