/* cudnn_describe.h - causal attention and its gradient as cuDNN graphs. */
#ifndef TIDE_CUDNN_DESCRIBE_H
#define TIDE_CUDNN_DESCRIBE_H
#include "kernels/cuda/attention_engines.h"
#include "kernels/cuda/cudnn/cudnn_graph.h"

/* What an address of a call is for; the last three are single numbers on the host. */
enum {
    ID_NONE,
    ID_Q,
    ID_K,
    ID_V,
    ID_O,
    ID_STATS,
    ID_DO,
    ID_DQ,
    ID_DK,
    ID_DV,
    ID_DELTA,
    ID_SCALE,
    ID_LOWEST,
    ID_ONE
};

void cudnn_describe_attention(CudnnGraph *g, const AttentionShape *s);
void cudnn_describe_attention_grad(CudnnGraph *g, const AttentionShape *s);
#endif
