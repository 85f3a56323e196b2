/* attention.c - causal attention without the matrix of probabilities.
 *
 *     in   qkv [B, T, (heads + 2 kv_heads) * head_dim], info or left out (no dropout)
 *     out  o [B, T, heads * head_dim], lse f32 [B, heads, T]
 *
 * lse is log(sum of exp(score)) of each row: with it backward makes any part of the
 * probabilities again, so that T * T numbers never exist. */
#include "kernels/ops/shape.h"

enum { MOST_HEAD_DIM = 256 };

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const TideAttention *a = (const TideAttention *)n->attr.bytes;
    const Tensor *qkv = in[0];

    if (!is_float(qkv) || qkv->shape.n != 3) return false;
    if (a->heads < 1 || a->kv_heads < 1 || a->head_dim < 1 || a->heads % a->kv_heads) return false;
    if (a->dropout < 0 || a->dropout >= 1 || (a->dropout > 0 && (!in[1] || !is_info(in[1])))) return false;
    if (qkv->shape.dim[2] != ((int64_t)a->heads + 2 * (int64_t)a->kv_heads) * a->head_dim) return false;
    infer_like(&out[0], qkv);
    out[0].shape.dim[2] = (int64_t)a->heads * a->head_dim;
    out[1].type = TIDE_F32;
    out[1].shape = (TideShape){ 3, { qkv->shape.dim[0], a->heads, qkv->shape.dim[1] } };
    return true;
}

static void grad(TideGraph *g, const Node *n, const TideTensor *dout, TideTensor *din)
{
    const TideAttention *a = (const TideAttention *)n->attr.bytes;

    if (!dout[0].id) return;
    din[0] = tide_attention_grad(g, n->in[0], n->out[0], n->out[1], n->in[1], dout[0], *a);
}

/* Half of the scores are masked, and no time is spent on them. */
static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    const TideAttention *a = (const TideAttention *)n->attr.bytes;
    double batch = (double)in[0]->shape.dim[0], length = (double)in[0]->shape.dim[1];

    (void)out;
    return 2.0 * batch * a->heads * a->head_dim * length * (length + 1);
}

const OpDesc op_attention = { .name = "attention",
                              .id = OP_attention,
                              .n_out = 2,
                              .infer = infer,
                              .grad = grad,
                              .flops = flops,
                              .timed_bytes = offsetof(TideAttention, site) };

_Static_assert(sizeof(TideAttention) == 4 * sizeof(int) + 3 * sizeof(int64_t), "padding would be hashed");

TideTensor tide_attention(TideGraph *g, TideTensor qkv, TideTensor info, TideAttention a)
{
    TideTensor in[] = { qkv, { a.dropout > 0 ? info.id : 0 } };

    if (a.head_dim > MOST_HEAD_DIM) {
        graph_refuse(g, "op attention: head_dim %d is more than %d", a.head_dim, (int)MOST_HEAD_DIM);
        return (TideTensor){ 0 };
    }
    return graph_append(
        g, (NodeSpec){ .op = &op_attention, .in = in, .n_in = 2, .attr = &a, .attr_bytes = sizeof a });
}
