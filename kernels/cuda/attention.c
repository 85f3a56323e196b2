/* attention.c - causal attention: o and lse from packed queries, keys and values. */
#include "kernels/cuda/attention_engines.h"
#include "kernels/cuda/cuda_kernels.h"

enum { QKV, INFO };

static AttentionShape shape_of(const Node *n, const Tensor *qkv)
{
    const TideAttention *a = (const TideAttention *)n->attr.bytes;

    return (AttentionShape){ .batch = qkv->shape.dim[0],
                             .tokens = qkv->shape.dim[1],
                             .heads = a->heads,
                             .kv_heads = a->kv_heads,
                             .head_dim = a->head_dim,
                             .type = (int32_t)qkv->type,
                             .dropout = a->dropout > 0 };
}

static AttentionCall describe(const KernelCall *c)
{
    const TideAttention *a = (const TideAttention *)c->node->attr.bytes;

    return (AttentionCall){ .s = shape_of(c->node, c->in_info[QKV]),
                            .qkv = c->in[QKV],
                            .out = c->out[0],
                            .lse_out = c->out[1],
                            .info = a->dropout > 0 ? c->in[INFO] : NULL,
                            .dropout = a->dropout,
                            .site = a->site,
                            .scratch = c->scratch,
                            .stream = cuda_stream(c) };
}

static TideStatus run(const KernelCall *c)
{
    AttentionCall call = describe(c);

    return attention_run(c->device, &call);
}

static TideStatus prepare(const KernelCall *c)
{
    AttentionCall call = describe(c);

    return attention_prepare(c->device, &call);
}

static size_t scratch(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    AttentionShape s = shape_of(n, in[QKV]);

    (void)out;
    return attention_scratch_bytes(&s);
}

const Kernel cuda_attention = { .run = run, .scratch = scratch, .prepare = prepare };
