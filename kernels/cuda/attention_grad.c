/* attention_grad.c - the gradient of causal attention, for all sequences or a block of them. */
#include "kernels/cuda/attention_engines.h"
#include "kernels/cuda/cuda_kernels.h"

enum { QKV, O, LSE, INFO, DO };

static AttentionShape shape_of(const Node *n, const Tensor *qkv)
{
    const TideAttention *a = (const TideAttention *)n->attr.bytes;

    return (AttentionShape){ .batch = a->count ? a->count : qkv->shape.dim[0],
                             .tokens = qkv->shape.dim[1],
                             .heads = a->heads,
                             .kv_heads = a->kv_heads,
                             .head_dim = a->head_dim,
                             .type = (int32_t)qkv->type,
                             .backward = 1,
                             .dropout = a->dropout > 0 };
}

/* Where the block's first sequence starts in a tensor that has so many numbers for each sequence. */
static char *start(const void *at, const Tensor *t, int64_t first, int64_t per_sequence)
{
    return (char *)(uintptr_t)at + first * per_sequence * (int64_t)type_bytes(t->type);
}

static AttentionCall describe(const KernelCall *c)
{
    const TideAttention *a = (const TideAttention *)c->node->attr.bytes;
    AttentionShape s = shape_of(c->node, c->in_info[QKV]);
    int64_t o = s.tokens * s.heads * s.head_dim, first = a->first;
    int64_t qkv = s.tokens * (s.heads + 2 * s.kv_heads) * s.head_dim;

    return (AttentionCall){ .s = s,
                            .qkv = start(c->in[QKV], c->in_info[QKV], first, qkv),
                            .o = start(c->in[O], c->in_info[O], first, o),
                            .lse = (const float *)c->in[LSE] + first * s.heads * s.tokens,
                            .d_o = start(c->in[DO], c->in_info[DO], first, o),
                            .out = start(c->out[0], c->out_info[0], first, qkv),
                            .info = a->dropout > 0 ? c->in[INFO] : NULL,
                            .dropout = a->dropout,
                            .site = a->site,
                            .first = first,
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

const Kernel cuda_attention_grad = { .run = run, .scratch = scratch, .prepare = prepare };
