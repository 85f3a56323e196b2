/* cuda_libs.c - opens and closes the libraries with a device, keeps the record, times candidates. */
#include "kernels/cuda/cuda_libs.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/cuda/attention_engines.h"
#include "kernels/cuda/gemm.h"
#include "runtime/base.h"

/* ---- Opening ------------------------------------------------------------------ */

static void append(char *text, size_t size, const char *name, size_t version)
{
    size_t n = strlen(text);

    if (n < size) snprintf(text + n, size - n, ", %s %zu", name, version);
}

static void add_version(Device *d, const char *name, size_t version)
{
    Numerics *n = &cuda_libs(d)->numerics;

    append(n->made_with, sizeof n->made_with, name, version);
    append(d->versions, sizeof d->versions, name, version);
}

/* The driver is left out of what a record holds for: a choice stays good under another one. */
static TideStatus open_all(Device *d, CudaLibs *libs)
{
    cublasStatus_t status = cublasLtCreate(&libs->blaslt);

    if (status) return cuda_fail(d, TIDE_DEVICE, "cublasLtCreate: %s", cublasLtGetStatusString(status));
    TRY(cuda_check(d, cudaEventCreate(&libs->from), "cudaEventCreate"));
    TRY(cuda_check(d, cudaEventCreate(&libs->to), "cudaEventCreate"));
    TRY(cudnn_attention_open(d, &libs->cudnn));
    snprintf(libs->numerics.made_with, sizeof libs->numerics.made_with, "%.100s, sm_%d%d, %d SMs", d->name,
             d->major, d->minor, d->sms);
    add_version(d, "cuBLASLt", cublasLtGetVersion());
    if (libs->cudnn) add_version(d, "cuDNN", cudnn_attention_version());
    numerics_cache_read(&libs->numerics);
    return TIDE_OK;
}

TideStatus cuda_libs_open(Device *d)
{
    d->libs = calloc(1, sizeof(CudaLibs));
    if (!d->libs) return cuda_fail(d, TIDE_NO_MEMORY, "no memory for the libraries' handles");
    return open_all(d, cuda_libs(d));
}

void cuda_libs_close(Device *d)
{
    CudaLibs *libs = cuda_libs(d);

    if (!libs) return;
    numerics_cache_write(&libs->numerics);
    gemm_plans_free(libs->gemms);
    attention_plans_free(libs->attentions);
    cudnn_attention_close(libs->cudnn);
    if (libs->from) cudaEventDestroy(libs->from);
    if (libs->to) cudaEventDestroy(libs->to);
    if (libs->blaslt) cublasLtDestroy(libs->blaslt);
    numerics_free(&libs->numerics);
    free(libs);
    d->libs = NULL;
}

/* ---- The numerics record -------------------------------------------------------- */

char *cuda_numerics_save(Device *d)
{
    return numerics_text(&cuda_libs(d)->numerics);
}

TideStatus cuda_numerics_load(Device *d, const char *json)
{
    char why[NUMERICS_VALUE_BYTES];
    TideStatus status = numerics_adopt(&cuda_libs(d)->numerics, json, CHOICE_GIVEN, why, sizeof why);

    return status ? cuda_fail(d, status, "%s", why) : TIDE_OK;
}

/* ---- Timing --------------------------------------------------------------------- */

enum { WARM_RUNS = 2, TIMED_RUNS = 7 };
static const double hopeless = 1.3; /* one run this many times slower than the limit ends the matter */

static TideStatus time_once(Device *d, const CudaCandidate *c, double *seconds)
{
    CudaLibs *libs = cuda_libs(d);
    float ms = 0;

    TRY(cuda_check(d, cudaEventRecord(libs->from, c->stream), "cudaEventRecord"));
    TRY(c->run(c->what));
    TRY(cuda_check(d, cudaEventRecord(libs->to, c->stream), "cudaEventRecord"));
    TRY(cuda_check(d, cudaEventSynchronize(libs->to), "timing a candidate"));
    TRY(cuda_check(d, cudaEventElapsedTime(&ms, libs->from, libs->to), "cudaEventElapsedTime"));
    *seconds = ms * 1e-3;
    return TIDE_OK;
}

int cuda_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

TideStatus cuda_time(Device *d, const CudaCandidate *c, double *seconds)
{
    double time[TIMED_RUNS];

    for (int i = 0; i < WARM_RUNS; i++) TRY(time_once(d, c, seconds));
    if (c->give_up > 0 && *seconds > hopeless * c->give_up) return TIDE_OK;
    for (int i = 0; i < TIMED_RUNS; i++) TRY(time_once(d, c, &time[i]));
    qsort(time, TIMED_RUNS, sizeof *time, cuda_by_value);
    *seconds = time[TIMED_RUNS / 2];
    return TIDE_OK;
}

/* ---- Races ---------------------------------------------------------------------- */

/* A race's events: two for each candidate in each round. */
typedef struct Clock {
    cudaEvent_t *at; /* [2 * n * rounds] */
    int n;
    bool *out; /* [n]: dropped out */
} Clock;

static TideStatus clock_new(Device *d, const CudaRace *r, Clock *c)
{
    int n = 2 * r->n * r->rounds;

    c->at = calloc((size_t)n + 1, sizeof *c->at);
    c->out = calloc((size_t)r->n + 1, sizeof *c->out);
    if (!c->at || !c->out) return cuda_fail(d, TIDE_NO_MEMORY, "no memory to time %d candidates", r->n);
    for (; c->n < n; c->n++) TRY(cuda_check(d, cudaEventCreate(&c->at[c->n]), "cudaEventCreate"));
    return TIDE_OK;
}

static void clock_free(Clock *c)
{
    for (int i = 0; i < c->n; i++) cudaEventDestroy(c->at[i]);
    free(c->at);
    free(c->out);
}

static bool run_burst(const CudaRace *r, int i)
{
    for (int k = 0; k < r->burst; k++)
        if (r->run(r->what, i)) return false;
    return true;
}

static TideStatus enqueue_race(Device *d, const CudaRace *r, const Clock *c)
{
    for (int round = 0; round < r->rounds; round++)
        for (int i = 0; i < r->n; i++) {
            const cudaEvent_t *at = &c->at[2 * (round * r->n + i)];
            if (c->out[i]) continue;
            TRY(r->between(r->what));
            TRY(cuda_check(d, cudaEventRecord(at[0], r->stream), "cudaEventRecord"));
            if (!run_burst(r, i)) { /* proposed, but refused */
                (void)cudaGetLastError();
                c->out[i] = true;
                continue;
            }
            TRY(cuda_check(d, cudaEventRecord(at[1], r->stream), "cudaEventRecord"));
        }
    return cuda_check(d, cudaStreamSynchronize(r->stream), "timing candidates");
}

static TideStatus read_clock(Device *d, const CudaRace *r, const Clock *c, double *seconds)
{
    double time[r->rounds];

    for (int i = 0; i < r->n; i++) {
        seconds[i] = INFINITY;
        if (c->out[i]) continue;
        for (int round = 0; round < r->rounds; round++) {
            const cudaEvent_t *at = &c->at[2 * (round * r->n + i)];
            float ms = 0;
            TRY(cuda_check(d, cudaEventElapsedTime(&ms, at[0], at[1]), "cudaEventElapsedTime"));
            time[round] = ms * 1e-3 / r->burst;
        }
        qsort(time, (size_t)r->rounds, sizeof *time, cuda_by_value);
        seconds[i] = time[r->rounds / 2];
    }
    return TIDE_OK;
}

TideStatus cuda_race(Device *d, const CudaRace *r, double *seconds)
{
    Clock c = { 0 };
    TideStatus status = clock_new(d, r, &c);

    if (!status) status = enqueue_race(d, r, &c);
    if (!status) status = read_clock(d, r, &c, seconds);
    clock_free(&c);
    return status;
}
