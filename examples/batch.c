/* batch.c - the largest batch whose whole step fits a budget. */
#include "examples/batch.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "models/text/loader.h"
#include "runtime/base.h"
#include "runtime/report/account.h"

enum { MOST_BATCH = 1 << 20, ROUNDS = 4 };

/* What is asked, and what is known so far. */
typedef struct Search {
    Session *session;
    ModelConfig config;
    TideProfile *base; /* of some batch; others are scaled from it. NULL: guess */
    int most;          /* more the data does not hold                           */
    size_t least;      /* arena bytes that the newest batch that does not fit takes at least */
} Search;

/* The times of a batch, near enough to plan: what fits does not depend on them. */
static TideStatus profile_for(const Search *b, const TideProgram *p, TideProfile **out)
{
    const char *file = b->session->options->profile;

    if (b->base) return tide_profile_scale(p, b->base, out);
    if (file && strcmp(file, "guess")) return tide_profile_load(p, file, out);
    return tide_profile_guess(p, out);
}

/* Does a plan fit? Most batches are far from the edge: then two numbers tell without planning. */
static TideStatus plan_fits(Search *b, const TideProgram *p, const TideProfile *f, bool *fits)
{
    TideBudget budget = session_arena(b->session, tide_profile_fixed(f));
    TidePlan *plan = NULL;
    size_t bound;

    TideStatus status = tide_plan_least(p, f, budget, &b->least, &bound);
    *fits = !status && (!budget.device_bytes || b->least <= budget.device_bytes);
    if (status || *fits || bound > budget.device_bytes) return status == TIDE_NO_PLAN ? TIDE_OK : status;
    status = tide_plan_make(p, f, budget, &plan, &b->least);
    tide_plan_free(plan);
    *fits = status == TIDE_OK;
    return status == TIDE_NO_PLAN ? TIDE_OK : status;
}

/* Does this batch fit? One that cannot even be declared, since its tensors are too large, does not. */
static TideStatus try_batch(Search *b, int batch, bool *fits)
{
    ModelConfig config = b->config;
    TideProfile *f = NULL;
    Model *m;

    *fits = false;
    config.batch = batch;
    TideStatus status = model_new(b->session->tide, &config, &m);
    if (status == TIDE_BAD_GRAPH && batch > 1) return TIDE_OK;
    if (!status) status = profile_for(b, m->program, &f);
    if (!status) status = plan_fits(b, m->program, f, fits);
    tide_profile_free(f);
    model_free(m);
    return status;
}

/* The largest that fits; 0 if 1 does not. What fits must fit less, too. */
static TideStatus find_batch(Search *b, int *best)
{
    int fits = 0, above = b->most + 1;
    bool yes;

    for (int next = 1; next<above; next = next> b->most / 2 ? b->most : 2 * next) {
        TRY(try_batch(b, next, &yes));
        if (!yes) above = next;
        if (yes) fits = next;
        if (next == b->most) break;
    }
    while (above - fits > 1) {
        int middle = fits + (above - fits) / 2;
        TRY(try_batch(b, middle, &yes));
        *(yes ? &fits : &above) = middle;
    }
    *best = fits;
    return TIDE_OK;
}

/* Measure the model of a batch; the search goes on from its profile. */
static TideStatus measure(Search *b, int batch)
{
    ModelConfig config = b->config;
    Model *m;

    config.batch = batch;
    TRY(model_new(b->session->tide, &config, &m));
    tide_profile_free(b->base);
    b->base = NULL;
    TideStatus status = session_measure(m->program, &b->base);
    model_free(m);
    return status;
}

/* What a process takes outside its arena is known once its kernels ran, so a measured batch may turn out too
 * large, or smaller than it could be: then the search is done again with what was measured. */
static TideStatus search(Search *b, int *best)
{
    TRY(find_batch(b, best));
    if (b->session->options->profile) return TIDE_OK;
    for (int round = 0, again; round < ROUNDS && *best; round++) {
        TRY(measure(b, *best));
        TRY(find_batch(b, &again));
        if (again == *best) return TIDE_OK;
        if (round == ROUNDS - 1 && again > *best) return TIDE_OK; /* the measured one fits */
        *best = again;
    }
    return *best ? measure(b, *best) : TIDE_OK;
}

/* Sequences that lie side by side in the data; no limit where that is not known. */
static int most_of(const Options *o, const ModelConfig *c)
{
    struct stat data;

    if (!o->data || stat(o->data, &data) || !S_ISREG(data.st_mode)) return MOST_BATCH;
    int64_t windows = (int64_t)data.st_size / config_window(c);
    return windows < 1 ? 1 : windows > MOST_BATCH ? MOST_BATCH : (int)windows;
}

static int refuse_all(const Search *b)
{
    const Session *s = b->session;
    char budget[BYTES_TEXT], least[BYTES_TEXT];

    refuse(s->options,
           "--batch auto: not even a batch of 1 fits %s of device memory; its arena takes at least %s",
           bytes_text(s->budget_bytes, budget), bytes_text(b->least, least));
    return EXIT_NO_PLAN;
}

static int check_request(const Options *o)
{
    if (o->plan) return refuse(o, "--batch auto: --plan %s is for one batch; give that", o->plan);
    if (o->budget.kind == SIZE_PERCENT || o->budget.kind == SIZE_LEAST)
        return refuse(o, "--batch auto: --budget %s depends on the batch; give bytes, such as 16GiB",
                      o->budget.text);
    return EXIT_DONE;
}

int batch_choose(Session *s, ModelConfig *config)
{
    Search b = { .session = s, .config = *config, .most = most_of(s->options, config) };
    int best = 0, rc = check_request(s->options);

    if (rc) return rc;
    TideStatus status = search(&b, &best);
    s->profile = b.base;
    if (status) return session_fail(s, status);
    if (!best) return refuse_all(&b);
    config->batch = best;
    return EXIT_DONE;
}
