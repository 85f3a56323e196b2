/* attention_grad.c - the gradient of causal attention, from what its forward kept.
 *
 *     in   qkv [B, T, (heads + 2 kv_heads) * head_dim], o [B, T, heads * head_dim],
 *          lse f32 [B, heads, T], info or left out, do like o,
 *          dqkv of the sequences before this block, or left out
 *     out  dqkv like qkv: sequences [first, first + count); count 0: all
 *
 * With a count the builder appends one node for each block of so many sequences, a chain that
 * writes one tensor. No sum crosses sequences, so the bits are those of the whole. */
#include "kernels/ops/shape.h"

enum { LSE = 2, INFO = 3, DO = 4, BEFORE = 5, N_IN = 6 };

static bool infer(const Node *n, const Tensor *const *in, Tensor *out)
{
    const TideAttention *a = (const TideAttention *)n->attr.bytes;
    const Tensor *qkv = in[0], *o = in[1], *lse = in[LSE];

    infer_like(&out[0], qkv);
    if (!is_float(qkv) || qkv->shape.n != 3 || !shape_equal(o->shape, in[DO]->shape)) return false;
    if (qkv->shape.dim[2] != ((int64_t)a->heads + 2 * (int64_t)a->kv_heads) * a->head_dim) return false;
    if (o->shape.n != 3 || o->shape.dim[2] != (int64_t)a->heads * a->head_dim) return false;
    if (shape_elements(lse->shape) != qkv->shape.dim[0] * qkv->shape.dim[1] * a->heads) return false;
    if (a->dropout > 0 && (!in[INFO] || !is_info(in[INFO]))) return false;
    return a->first >= 0 && a->count >= 0 && a->first + a->count <= qkv->shape.dim[0];
}

/* Five products for each score where forward has two. */
static double flops(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    const TideAttention *a = (const TideAttention *)n->attr.bytes;
    double batch = (double)(a->count ? a->count : in[0]->shape.dim[0]), length = (double)in[0]->shape.dim[1];

    (void)out;
    return 5.0 * batch * a->heads * a->head_dim * length * (length + 1);
}

static double bytes(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    const TideAttention *a = (const TideAttention *)n->attr.bytes;
    double batch = (double)in[0]->shape.dim[0], share = a->count ? (double)a->count / batch : 1;

    return share * (double)(in[0]->bytes + out[0]->bytes + in[1]->bytes + in[DO]->bytes + in[LSE]->bytes);
}

const OpDesc op_attention_grad = { .name = "attention_grad",
                                   .id = OP_attention_grad,
                                   .n_out = 1,
                                   .infer = infer,
                                   .flops = flops,
                                   .bytes = bytes,
                                   .timed_bytes = offsetof(TideAttention, site) };

TideTensor tide_attention_grad(TideGraph *g, TideTensor qkv, TideTensor o, TideTensor lse, TideTensor info,
                               TideTensor d_o, TideAttention a)
{
    const Tensor *t = graph_tensor(g, qkv);
    TideTensor in[N_IN] = { qkv, o, lse, { a.dropout > 0 ? info.id : 0 }, d_o };
    TideTensor dqkv = { 0 };

    if (!t || t->shape.n != 3) return dqkv;
    int64_t batch = t->shape.dim[0], step = a.count > 0 && a.count < batch ? a.count : batch;

    for (int64_t first = 0; first < batch; first += step) {
        a.first = first;
        a.count = first + step < batch ? step : batch - first;
        in[BEFORE] = dqkv;
        dqkv = graph_append(g, (NodeSpec){ .op = &op_attention_grad,
                                           .in = in,
                                           .n_in = N_IN,
                                           .out = { dqkv },
                                           .attr = &a,
                                           .attr_bytes = sizeof a });
        if (!dqkv.id) break;
    }
    return dqkv;
}
