/* attention_engines.h - the engines that compute attention, and the choice between them.
 *
 * A shape is served by cuDNN's fused kernels or by our own flash kernels; the numerics record says by
 * which. Both keep lse = log(sum of exp(score)), so forward and backward choose apart. */
#ifndef TIDE_CUDA_ATTENTION_ENGINES_H
#define TIDE_CUDA_ATTENTION_ENGINES_H
#include "kernels/cuda/cuda_libs.h"
#include "kernels/ops.h"
#ifdef __cplusplus
extern "C" {
#endif

/* What decides how long it takes and which engines can. Compared as bytes. */
typedef struct AttentionShape {
    int64_t batch, tokens; /* sequences of this call, positions of each */
    int32_t heads, kv_heads, head_dim;
    int32_t type; /* TideType                                  */
    int32_t backward, dropout;
} AttentionShape;

/* Addresses are those of the first sequence of the call. */
typedef struct AttentionCall {
    AttentionShape s;
    const void *qkv, *o, *d_o; /* backward reads all three */
    const float *lse;
    void *out;                /* o, or dqkv                             */
    float *lse_out;           /* forward                                */
    const TideStepInfo *info; /* on the device; NULL without dropout    */
    float dropout;            /* probability                            */
    int32_t site;
    int64_t first; /* number of the first sequence: dropout is keyed by it */
    void *scratch;
    cudaStream_t stream;
} AttentionCall;

/* attention_engines.c */
size_t attention_scratch_bytes(const AttentionShape *s);
TideStatus attention_prepare(Device *d, const AttentionCall *c);
TideStatus attention_run(Device *d, const AttentionCall *c);
void attention_plans_free(AttentionPlan *list);
/* Seconds that preparing measured, of the choice and of our own kernels; 0: not timed. */
bool attention_times(Device *d, const AttentionShape *s, double *chosen, double *flash);

/* ---- Ours: attention_flash*.cu, attention_plain.cu ------------------------------------ */

/* Serves every shape. Backward takes attention_delta_bytes() of scratch. */
TideStatus flash_attention(Device *d, const AttentionCall *c);
TideStatus flash_attention_grad(Device *d, const AttentionCall *c);
TideStatus plain_attention(Device *d, const AttentionCall *c);
TideStatus plain_attention_grad(Device *d, const AttentionCall *c);
/* Tensor cores: 16-bit types, whole packs of 16 bytes in a head. */
bool flash_attention_serves(const AttentionShape *s);

/* scratch gets the sum of o * do for each row: f32 [batch, heads, tokens]. */
TideStatus attention_delta(Device *d, const AttentionCall *c);
size_t attention_delta_bytes(const AttentionShape *s);

/* ---- cuDNN: cudnn/cudnn_attention.c, or no_cudnn/ where it was not found -------------- */

typedef struct CudnnAttention CudnnAttention; /* an execution plan for one shape */

TideStatus cudnn_attention_open(Device *d, void **handle); /* *handle NULL: not there */
void cudnn_attention_close(void *handle);
size_t cudnn_attention_version(void);

/* Scratch that its engines may take for a shape; 0: they do not serve it. */
size_t cudnn_attention_scratch_bytes(const AttentionShape *s);

/* Where an engine is to run: the device of a handle, or one that is only described (a
 * CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR), to see what cuDNN would do there. */
typedef struct CudnnTarget {
    void *handle, *properties;
} CudnnTarget;

/* The names of engines for a shape, cuDNN's first choice first, only those with the same bits on every
 * run: at most n. Returns how many; why [NUMERICS_VALUE_BYTES] says why there is none. */
typedef char CudnnName[NUMERICS_VALUE_BYTES];
int cudnn_attention_names(const CudnnTarget *target, const AttentionShape *s, CudnnName *names, int n,
                          char *why);

/* Build the engine of that name; NULL: it does not serve this shape here, and why says so. */
CudnnAttention *cudnn_attention_new(const CudnnTarget *target, const AttentionShape *s, const char *name,
                                    char *why);
size_t cudnn_attention_workspace(const CudnnAttention *a); /* bytes of scratch that it takes */
TideStatus cudnn_attention_run(Device *d, CudnnAttention *a, const AttentionCall *c);
void cudnn_attention_free(CudnnAttention *a);

#ifdef __cplusplus
}
#endif
#endif
