/* cuda_libs.h - what GEMM and attention keep with a device: library handles, plans built once for a
 * shape, and the numerics record. */
#ifndef TIDE_CUDA_LIBS_H
#define TIDE_CUDA_LIBS_H
#include <cublasLt.h>
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/numerics.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct GemmPlan GemmPlan;
typedef struct AttentionPlan AttentionPlan;

typedef struct CudaLibs {
    cublasLtHandle_t blaslt;
    void *cudnn;          /* cudnnHandle_t; NULL: not built in, or too old         */
    cudaEvent_t from, to; /* around candidates that are timed                       */
    Numerics numerics;
    GemmPlan *gemms; /* lists, the newest first; freed with the device */
    AttentionPlan *attentions;
} CudaLibs;

static inline CudaLibs *cuda_libs(const Device *d)
{
    return (CudaLibs *)d->libs;
}

/* Backend.numerics_save and Backend.numerics_load. */
char *cuda_numerics_save(Device *d);
TideStatus cuda_numerics_load(Device *d, const char *json);

/* One candidate for a place in the numerics record: run() enqueues it on stream. */
typedef struct CudaCandidate {
    TideStatus (*run)(void *what);
    void *what;
    cudaStream_t stream;
    double give_up; /* seconds beyond which its median no longer matters; 0: always matters */
} CudaCandidate;

/* The median seconds of a candidate after a run to warm up. Waits. */
TideStatus cuda_time(Device *d, const CudaCandidate *c, double *seconds);

/* Candidates that race for a place in the record, under the conditions of a step: all are enqueued
 * without a pause, so that the device is busy throughout, round after round, each for a burst of runs
 * behind a pass over memory that is not timed. run(what, i) enqueues candidate i; one that fails drops
 * out. */
typedef struct CudaRace {
    int n, rounds, burst;
    TideStatus (*run)(void *what, int i);
    TideStatus (*between)(void *what);
    void *what;
    cudaStream_t stream;
} CudaRace;

/* The median seconds of a run of each candidate [n], infinite for one that dropped out. Waits. */
TideStatus cuda_race(Device *d, const CudaRace *r, double *seconds);

/* For qsort(): doubles in ascending order. */
int cuda_by_value(const void *a, const void *b);

/* gemm_bias.cu: random numbers in [-1/2, 1/2); zeros would flatter a candidate. */
typedef struct CudaArray {
    void *at;
    int64_t n;
    TideType type; /* not i32 */
} CudaArray;
TideStatus cuda_random(Device *d, cudaStream_t stream, CudaArray to);

#ifdef __cplusplus
}
#endif
#endif
