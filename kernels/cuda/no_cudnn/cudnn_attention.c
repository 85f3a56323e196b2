/* cudnn_attention.c - stands in where cuDNN was not found: no engine serves any shape. */
#include "kernels/cuda/attention_engines.h"

TideStatus cudnn_attention_open(Device *d, void **handle)
{
    (void)d;
    *handle = NULL;
    return TIDE_OK;
}

void cudnn_attention_close(void *handle)
{
    (void)handle;
}

size_t cudnn_attention_version(void)
{
    return 0;
}

size_t cudnn_attention_scratch_bytes(const AttentionShape *s)
{
    (void)s;
    return 0;
}

int cudnn_attention_names(const CudnnTarget *target, const AttentionShape *s, CudnnName *names, int n,
                          char *why)
{
    (void)target;
    (void)s;
    (void)names;
    (void)n;
    snprintf(why, NUMERICS_VALUE_BYTES, "built without cuDNN");
    return 0;
}

CudnnAttention *cudnn_attention_new(const CudnnTarget *target, const AttentionShape *s, const char *name,
                                    char *why)
{
    (void)target;
    (void)s;
    (void)name;
    snprintf(why, NUMERICS_VALUE_BYTES, "built without cuDNN");
    return NULL;
}

size_t cudnn_attention_workspace(const CudnnAttention *a)
{
    (void)a;
    return 0;
}

TideStatus cudnn_attention_run(Device *d, CudnnAttention *a, const AttentionCall *c)
{
    (void)a;
    (void)c;
    return cuda_fail(d, TIDE_DEVICE, "built without cuDNN");
}

void cudnn_attention_free(CudnnAttention *a)
{
    (void)a;
}
