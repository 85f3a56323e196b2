/* cuda_libs.c - opens and closes cuBLASLt with a device, keeps the record, and times candidates. */
#include "kernels/cuda/cuda_libs.h"
#include <stdlib.h>
#include <string.h>
#include "kernels/cuda/gemm.h"
#include "runtime/base.h"

/* ---- Opening ------------------------------------------------------------------ */

static void append(char *text, size_t size, const char *name, size_t version)
{
    size_t n = strlen(text);

    if (n < size) snprintf(text + n, size - n, ", %s %zu", name, version);
}

void cuda_libs_append_version(Device *d, const char *name, size_t version)
{
    Numerics *n = &cuda_libs(d)->numerics;

    append(n->made_with, sizeof n->made_with, name, version);
    append(d->versions, sizeof d->versions, name, version);
}

TideStatus gemm_open(Device *d)
{
    CudaLibs *libs = calloc(1, sizeof *libs);

    d->gemm = libs;
    if (!libs) return cuda_fail(d, TIDE_NO_MEMORY, "no memory for the libraries' handles");
    cublasStatus_t status = cublasLtCreate(&libs->blaslt);
    if (status) return cuda_fail(d, TIDE_DEVICE, "cublasLtCreate: %s", cublasLtGetStatusString(status));
    /* The driver is left out: a choice stays good under another one. */
    snprintf(libs->numerics.made_with, sizeof libs->numerics.made_with, "%.100s, sm_%d%d, %d SMs", d->name,
             d->major, d->minor, d->sms);
    cuda_libs_append_version(d, "cuBLASLt", cublasLtGetVersion());
    TRY(cuda_check(d, cudaEventCreate(&libs->from), "cudaEventCreate"));
    return cuda_check(d, cudaEventCreate(&libs->to), "cudaEventCreate");
}

void gemm_close(Device *d)
{
    CudaLibs *libs = cuda_libs(d);

    if (!libs) return;
    numerics_cache_write(&libs->numerics);
    gemm_plans_free(libs->gemms);
    if (libs->from) cudaEventDestroy(libs->from);
    if (libs->to) cudaEventDestroy(libs->to);
    if (libs->blaslt) cublasLtDestroy(libs->blaslt);
    numerics_free(&libs->numerics);
    free(libs);
    d->gemm = NULL;
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

static int by_value(const void *a, const void *b)
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
    qsort(time, TIMED_RUNS, sizeof *time, by_value);
    *seconds = time[TIMED_RUNS / 2];
    return TIDE_OK;
}
