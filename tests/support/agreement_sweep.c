/* agreement_sweep.c - see agreement_sweep.h. */
#include "tests/support/agreement_sweep.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/ops.h"
#include "tests/support/agreement.h"

/* One case at one size in one type; jobs with one wish stand together. */
typedef struct Job {
    AgreeCase agree;
    const AgreeTypes *types;
    const char *what, *wish;
    int64_t size[SIDE_SIZES];
} Job;

typedef struct Sweep {
    const char *device;
    FILE *out;
    Job *jobs; /* [n] */
    int n, room, bad;
    bool failed;                         /* no memory, or no device */
    AgreeErrors errors[TIDE_TYPE_COUNT]; /* by type of the activations */
} Sweep;

/* ---- What is to be done ---------------------------------------------------------------- */

static void append(Sweep *s, Job job, const int64_t *size)
{
    for (int k = 0; agree_types(k); k++) {
        if (s->n == s->room) {
            Job *more = realloc(s->jobs, (size_t)(s->room = 2 * s->room + 64) * sizeof *more);
            s->failed = s->failed || !more;
            if (!more) return;
            s->jobs = more;
        }
        job.types = agree_types(k);
        memcpy(job.size, size, sizeof job.size);
        s->jobs[s->n++] = job;
    }
}

static void list_memory_bound(Sweep *s)
{
    for (int c = 0; agree_case(c); c++) {
        Job job = { .agree = *agree_case(c) };
        for (int i = 0; agree_sizes(i); i++) append(s, job, agree_sizes(i));
        for (int i = 0; agree_drawn(i); i++) {
            const AgreeDrawn *d = agree_drawn(i);
            append(s, job, (int64_t[]){ d->B, d->T, d->heads * d->head_dim, d->V });
        }
    }
}

/* Layers between two widths that were drawn, of this row and of the next; the cases' own sizes belong to the
 * tests, for the definition takes seconds where the lengths are squared. */
static void list_dense(Sweep *s, const AgreeDense *c)
{
    Job job = { .agree = c->agree, .what = c->what, .wish = c->wish };

    for (int i = 0; agree_drawn(i); i++) {
        const AgreeDrawn *d = agree_drawn(i),
                         *next = agree_drawn(i + 1) ? agree_drawn(i + 1) : agree_drawn(0);
        int64_t width = d->heads * d->head_dim, other = next->heads * next->head_dim;
        if (c->attention)
            append(s, job, (int64_t[]){ d->B, d->T, d->heads, d->head_dim });
        else
            append(s, job, (int64_t[]){ d->B, d->T, width, other });
    }
}

/* ---- Doing it ------------------------------------------------------------------------------ */

/* A thread's device: opened anew where another wish begins. */
typedef struct Worker {
    Tide *tide;
    const char *what, *wish;
    AgreeErrors errors[TIDE_TYPE_COUNT];
} Worker;

static bool ready_for(Worker *w, const Sweep *s, const Job *job)
{
    if (w->tide && w->wish == job->wish && w->what == job->what) return true;
    tide_close(w->tide);
    w->what = job->what;
    w->wish = job->wish;
    if (tide_open(s->device, (TideDeviceOptions){ 0 }, &w->tide)) return false;
    return !job->wish || !w->tide->backend->numerics_load || agree_wish(w->tide, job->what, job->wish);
}

static void run_job(Worker *w, Sweep *s, const Job *job)
{
    char why[512] = "";
    bool good = ready_for(w, s, job);

    if (!good)
        snprintf(why, sizeof why, "%s", tide_message(w->tide));
    else if (w->tide->backend->types & 1u << job->types->type)
        good = agree(w->tide, &job->agree, job->types, job->size, &w->errors[job->types->type], why);
    if (good) return;
#pragma omp critical(agreement)
    {
        s->bad++;
        fprintf(s->out, "%s, %s, sizes %d %d %d %d: %s\n", job->agree.name, job->types->name,
                (int)job->size[0], (int)job->size[1], (int)job->size[2], (int)job->size[3], why);
    }
}

/* Less than any error: no case has come to that op. */
static void forget(AgreeErrors *errors)
{
    for (int t = 0; t < TIDE_TYPE_COUNT; t++)
        for (int op = 0; op < AGREE_OPS; op++) errors[t].cpu[op] = errors[t].reference[op] = -1;
}

static void keep_worst(AgreeErrors *worst, const AgreeErrors *seen)
{
    for (int t = 0; t < TIDE_TYPE_COUNT; t++)
        for (int op = 0; op < AGREE_OPS; op++) {
            worst[t].cpu[op] = fmax(worst[t].cpu[op], seen[t].cpu[op]);
            worst[t].reference[op] = fmax(worst[t].reference[op], seen[t].reference[op]);
        }
}

/* The largest first would be better still, but wishes must stay together. */
static void run_jobs(Sweep *s)
{
#pragma omp parallel
    {
        Worker w = { .tide = NULL };
        for (int t = 0; t < TIDE_TYPE_COUNT; t++)
            w.errors[t].quick = true; /* times would mean nothing here */
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < s->n; i++) run_job(&w, s, &s->jobs[i]);
#pragma omp critical(agreement)
        keep_worst(s->errors, w.errors);
        tide_close(w.tide);
    }
}

/* ---- Telling it ---------------------------------------------------------------------------- */

#define TIDE_OP(name, ...) #name,
static const char *const op_names[] = {
#include "kernels/ops.def"
};
#undef TIDE_OP

static void print_errors(const Sweep *s)
{
    fprintf(s->out, "largest error   f32: CPU   float64   bf16: CPU   float64   f16: CPU   float64\n");
    for (int op = 0; op < OP_COUNT; op++) {
        bool seen = false;
        fprintf(s->out, "%-20s", op_names[op]);
        for (int t = 0; t < TIDE_TYPE_COUNT; t++) {
            double cpu = s->errors[t].cpu[op], reference = s->errors[t].reference[op];
            seen = seen || reference >= 0;
            if (reference >= 0) fprintf(s->out, "%.1e   %.1e     ", fmax(cpu, 0), reference);
        }
        fprintf(s->out, "%s\n", seen ? "" : "no case here: integers and structs have tests of their own");
    }
}

int agree_sweep(const char *device, FILE *out)
{
    Sweep s = { .device = device, .out = out };

    forget(s.errors);
    list_memory_bound(&s);
    for (int i = 0; agree_dense(i); i++) list_dense(&s, agree_dense(i));
    if (s.failed) fprintf(out, "no memory for the list of cases\n");
    if (!s.failed) run_jobs(&s);
    print_errors(&s);
    fprintf(out, "agreement: %d of %d cases good\n", s.n - s.bad, s.n);
    fflush(out);
    free(s.jobs);
    return s.bad + s.failed;
}
