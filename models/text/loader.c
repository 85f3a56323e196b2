/* loader.c - one thread, two buffers, one lock.
 *
 * The thread fills step `filled` into buffer `filled` % 2 once the caller is done with what lay there;
 * the caller holds step `taken` - 1. Only the counters are shared under the lock; a buffer
 * belongs to the thread until `filled` passes it, then to the caller. */
#include <pthread.h>
#include <stdlib.h>
#include "models/family.h"
#include "models/text/loader.h"
#include "runtime/base.h"
#include "runtime/op.h"

struct Loader {
    ModelConfig config;
    Part part;
    DataPosition at; /* of the next step to fill; the thread's own */
    int64_t epoch;   /* steps of one, or 0 */
    StepData data[2];
    void *x[2];          /* what data[i].tokens points to, owned  */
    int32_t *targets[2]; /* what data[i].targets points to, owned */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t filled, taken; /* steps, from the start */
    bool closing;
};

/* ---- Rows ----------------------------------------------------------------- */

typedef struct Row {
    int64_t window;    /* tokens it needs                              */
    size_t x_bytes;    /* of one row of x                              */
    int64_t n_targets; /* of one row                                   */
    void (*fill)(const ModelConfig *c, Tokens s, int64_t start, void *x, int32_t *targets);
} Row;

static void fill_sequence(const ModelConfig *c, Tokens s, int64_t start, void *x, int32_t *targets)
{
    tokens_window(s, start, c->seq, x, targets);
}

static void fill_features(const ModelConfig *c, Tokens s, int64_t start, void *x, int32_t *targets)
{
    tokens_features(s, start, c->width, x, targets);
}

/* A gpt sees a sequence and is asked about each position, an mlp sees numbers and is asked once. */
static Row row_of(const ModelConfig *c)
{
    const Family *f = family_find(c->family);

    if (f && f->features) return (Row){ c->width + 1, (size_t)c->width * sizeof(float), 1, fill_features };
    return (Row){ c->seq + 1, (size_t)c->seq * sizeof(int32_t), c->seq, fill_sequence };
}

int64_t config_window(const ModelConfig *config)
{
    return row_of(config).window;
}

/* Tokens of a sample: the rows of an update side by side, as llm.c's processes have theirs. However an update
 * is cut into micro-steps, it sees the same. */
static int64_t sample_tokens(const ModelConfig *c)
{
    return (int64_t)c->accum * c->batch * (row_of(c).window - 1);
}

int64_t config_epoch(const ModelConfig *config, Part part)
{
    return part.by_sample ? part_samples(part, sample_tokens(config)) : 0;
}

void batch_even(const ModelConfig *config, Part part, int64_t i, int64_t count, void *x, int32_t *targets)
{
    Row row = row_of(config);

    for (int64_t b = 0; b < config->batch; b++) {
        Place p = part_even(part, row.window, i * config->batch + b, count * config->batch);
        row.fill(config, p.shard, p.start, (char *)x + (size_t)b * row.x_bytes, targets + b * row.n_targets);
    }
}

/* ---- The thread ----------------------------------------------------------- */

static int64_t count_valid(const int32_t *targets, int64_t n)
{
    int64_t valid = 0;

    for (int64_t i = 0; i < n; i++) valid += targets[i] >= 0;
    return valid;
}

/* Where a row of the next step begins. */
static Place place_of(const Loader *l, Row row, int64_t r)
{
    if (!l->part.by_sample) return part_random(l->part, row.window, l->at.seed, l->at.step, r);
    Place p = part_sample(l->part, sample_tokens(&l->config), l->at.seed, l->at.epoch, l->at.sample);
    p.start += r * (row.window - 1);
    return p;
}

static void fill_step(Loader *l, int buffer)
{
    Row row = row_of(&l->config);
    int64_t rows = (int64_t)l->config.accum * l->config.batch;

    for (int64_t r = 0; r < rows; r++) {
        Place p = place_of(l, row, r);
        row.fill(&l->config, p.shard, p.start, (char *)l->x[buffer] + (size_t)r * row.x_bytes,
                 l->targets[buffer] + r * row.n_targets);
    }
    l->data[buffer].step = l->at.step;
    l->data[buffer].valid = count_valid(l->targets[buffer], rows * row.n_targets);
    l->at = l->data[buffer].next = position_next(l->at, l->epoch);
}

/* True when buffer `filled` % 2 is free: the caller holds step taken - 1, so step taken - 2 is over. */
static bool wait_for_room(Loader *l)
{
    pthread_mutex_lock(&l->lock);
    while (!l->closing && l->filled - l->taken >= 1) pthread_cond_wait(&l->changed, &l->lock);
    bool go_on = !l->closing;
    pthread_mutex_unlock(&l->lock);
    return go_on;
}

static void *work(void *arg)
{
    Loader *l = arg;

    for (int64_t i = 0; wait_for_room(l); i++) {
        fill_step(l, (int)(i % 2));
        pthread_mutex_lock(&l->lock);
        l->filled = i + 1;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
    }
    return NULL;
}

/* ---- Life ----------------------------------------------------------------- */

static bool allocate(Loader *l)
{
    Row row = row_of(&l->config);
    size_t batch = (size_t)l->config.batch, accum = (size_t)l->config.accum;

    for (int i = 0; i < 2; i++) {
        StepData *d = &l->data[i];
        d->token_bytes = batch * row.x_bytes;
        d->target_bytes = batch * (size_t)row.n_targets * sizeof(int32_t);
        l->x[i] = malloc(accum * d->token_bytes);
        l->targets[i] = malloc(accum * d->target_bytes);
        d->tokens = l->x[i];
        d->targets = l->targets[i];
    }
    return l->x[0] && l->x[1] && l->targets[0] && l->targets[1];
}

static void release(Loader *l)
{
    for (int i = 0; i < 2; i++) {
        free(l->x[i]);
        free(l->targets[i]);
    }
    free(l);
}

static bool begin(Loader *l)
{
    if (pthread_mutex_init(&l->lock, NULL)) return false;
    if (pthread_cond_init(&l->changed, NULL)) {
        pthread_mutex_destroy(&l->lock);
        return false;
    }
    if (pthread_create(&l->thread, NULL, work, l)) {
        pthread_cond_destroy(&l->changed);
        pthread_mutex_destroy(&l->lock);
        return false;
    }
    return true;
}

static TideStatus check_samples(Tide *t, const ModelConfig *c, LoaderStart start)
{
    int64_t epoch = config_epoch(c, start.part), sample = sample_tokens(c);

    if (!epoch)
        return tide_fail(
            t, TIDE_BAD_FILE,
            "%d files have %lld tokens, but %d x %d rows of %s need %lld in one of them; give more "
            "data, or a smaller --batch, --accum or --seq",
            start.part.n, (long long)part_tokens(start.part), c->accum, c->batch, c->name,
            (long long)sample + 1);
    if (start.at.epoch >= 0 && start.at.sample >= 0 && start.at.sample < epoch) return TIDE_OK;
    return tide_fail(
        t, TIDE_BAD_FILE,
        "sample %lld of epoch %lld is outside of the data, where %d x %d rows of %s make %lld samples "
        "an epoch; go on with the data, --batch and --accum of before",
        (long long)start.at.sample, (long long)start.at.epoch, c->accum, c->batch, c->name, (long long)epoch);
}

TideStatus loader_check(Tide *t, const ModelConfig *config, LoaderStart start)
{
    int64_t window = config_window(config);

    if (start.at.step < 0)
        return tide_fail(t, TIDE_BAD_FILE, "a run cannot go on at step %lld", (long long)start.at.step);
    if (!part_windows(start.part, window))
        return tide_fail(t, TIDE_BAD_FILE, "the text has %lld tokens, but a row of %s needs %lld",
                         (long long)part_tokens(start.part), config->name, (long long)window);
    return start.part.by_sample ? check_samples(t, config, start) : TIDE_OK;
}

TideStatus loader_new(Tide *t, const ModelConfig *config, LoaderStart start, Loader **out)
{
    Loader *l = NULL;

    *out = NULL;
    TRY(loader_check(t, config, start));
    l = calloc(1, sizeof *l);
    if (l) {
        l->config = *config;
        l->part = start.part;
        l->at = start.at;
        l->epoch = config_epoch(config, start.part);
    }
    if (!l || !allocate(l) || !begin(l)) {
        if (l) release(l);
        return tide_fail(t, TIDE_NO_MEMORY, "no memory or no thread to prepare %d x %d rows of %s",
                         config->accum, config->batch, config->name);
    }
    *out = l;
    return TIDE_OK;
}

void loader_free(Loader *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    release(l);
}

const StepData *loader_next(Loader *l)
{
    pthread_mutex_lock(&l->lock);
    int64_t step = l->taken++;
    pthread_cond_broadcast(&l->changed);
    while (l->filled <= step) pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
    return &l->data[step % 2];
}

const void *step_tokens(const StepData *d, int micro)
{
    return (const char *)d->tokens + (size_t)micro * d->token_bytes;
}

const int32_t *step_targets(const StepData *d, int micro)
{
    return d->targets + (size_t)micro * d->target_bytes / sizeof(int32_t);
}
