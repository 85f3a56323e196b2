/* cudnn_describe.c - causal attention as cuDNN graphs, for its fused engines to recognise.
 *
 * The graphs say what attention is, score by score; an engine never makes the scores. qkv is read and
 * dqkv written where they lie, packed. Backward sums dQ in the output itself instead of an f32 buffer
 * that blocks of keys add to: that is how cuDNN is told to give the same bits on every run, and what
 * its workspace is for. */
#include "kernels/cuda/cudnn/cudnn_describe.h"

/* ---- Tensors ---------------------------------------------------------------------- */

static cudnnDataType_t io_type(const AttentionShape *s)
{
    return s->type == TIDE_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

/* heads of a packed tensor whose rows are `row` elements long: [batch, heads, tokens, head_dim]. */
static CudnnTensor heads_of(const AttentionShape *s, int64_t id, int64_t heads, int64_t row)
{
    return (CudnnTensor){ .id = id,
                          .type = io_type(s),
                          .dim = { s->batch, heads, s->tokens, s->head_dim },
                          .stride = { s->tokens * row, s->head_dim, row, 1 } };
}

static CudnnTensor transposed(CudnnTensor t)
{
    int64_t dim = t.dim[2], stride = t.stride[2];

    t.dim[2] = t.dim[3];
    t.dim[3] = dim;
    t.stride[2] = t.stride[3];
    t.stride[3] = stride;
    return t;
}

static int64_t qkv_row(const AttentionShape *s)
{
    return (int64_t)(s->heads + 2 * s->kv_heads) * s->head_dim;
}

static int64_t o_row(const AttentionShape *s)
{
    return (int64_t)s->heads * s->head_dim;
}

/* One f32 for each row: [batch, heads, tokens, 1]. */
static CudnnTensor rows_of(const AttentionShape *s, int64_t id)
{
    return (CudnnTensor){ .id = id,
                          .type = CUDNN_DATA_FLOAT,
                          .dim = { s->batch, s->heads, s->tokens, 1 },
                          .stride = { s->heads * s->tokens, s->tokens, 1, 1 },
                          .alignment = sizeof(float), /* a block of sequences may start anywhere */
                          .is_virtual = id == ID_NONE };
}

/* One number for each score: [batch, heads, tokens, tokens]; never in memory. */
static CudnnTensor scores_of(const AttentionShape *s, cudnnDataType_t type)
{
    int64_t square = s->tokens * s->tokens;

    return (CudnnTensor){ .type = type,
                          .dim = { s->batch, s->heads, s->tokens, s->tokens },
                          .stride = { s->heads * square, square, s->tokens, 1 },
                          .is_virtual = true };
}

static CudnnDescriptor scalar(CudnnGraph *g, int64_t id)
{
    CudnnTensor t = {
        .id = id, .type = CUDNN_DATA_FLOAT, .dim = { 1, 1, 1, 1 }, .stride = { 1, 1, 1, 1 }, .by_value = true
    };

    return cudnn_tensor(g, &t);
}

static CudnnDescriptor tensor(CudnnGraph *g, CudnnTensor t)
{
    return cudnn_tensor(g, &t);
}

/* ---- Operations --------------------------------------------------------------------- */

/* A new f32 for each score, from two. b may be NULL, one number, or one number a row. */
static CudnnDescriptor on_scores(CudnnGraph *g, const AttentionShape *s, cudnnPointwiseMode_t mode,
                                 const CudnnDescriptor *x)
{
    CudnnDescriptor y = tensor(g, scores_of(s, CUDNN_DATA_FLOAT));

    return cudnn_pointwise(g, (CudnnPointwise){ mode, CUDNN_DATA_FLOAT, x[0], x[1], NULL, y, 0 });
}

/* scores where the key is not after the query, the lowest float elsewhere. */
static CudnnDescriptor causal(CudnnGraph *g, const AttentionShape *s, CudnnDescriptor scores)
{
    CudnnDescriptor index[2];

    for (int i = 0; i < 2; i++)
        index[i] = cudnn_pointwise(g, (CudnnPointwise){ .mode = CUDNN_POINTWISE_GEN_INDEX,
                                                        .math = CUDNN_DATA_INT32,
                                                        .x = scores,
                                                        .y = tensor(g, scores_of(s, CUDNN_DATA_INT32)),
                                                        .axis = 2 + i });
    CudnnDescriptor seen =
        cudnn_pointwise(g, (CudnnPointwise){ .mode = CUDNN_POINTWISE_CMP_GE,
                                             .math = CUDNN_DATA_BOOLEAN,
                                             .x = index[0],
                                             .b = index[1],
                                             .y = tensor(g, scores_of(s, CUDNN_DATA_BOOLEAN)) });
    return cudnn_pointwise(g, (CudnnPointwise){ .mode = CUDNN_POINTWISE_BINARY_SELECT,
                                                .math = CUDNN_DATA_FLOAT,
                                                .x = scores,
                                                .b = scalar(g, ID_LOWEST),
                                                .t = seen,
                                                .y = tensor(g, scores_of(s, CUDNN_DATA_FLOAT)) });
}

static CudnnDescriptor on_rows(CudnnGraph *g, cudnnPointwiseMode_t mode, const CudnnDescriptor *x,
                               CudnnDescriptor y)
{
    return cudnn_pointwise(g, (CudnnPointwise){ mode, CUDNN_DATA_FLOAT, x[0], x[1], NULL, y, 0 });
}

/* ---- Forward ------------------------------------------------------------------------- */

/* Probabilities in the storage type, and the logarithm of each row's sum of exp(score). */
static CudnnDescriptor softmax(CudnnGraph *g, const AttentionShape *s, CudnnDescriptor scores)
{
    CudnnDescriptor most = cudnn_reduce(g, CUDNN_REDUCE_TENSOR_MAX, scores, tensor(g, rows_of(s, ID_NONE)));
    CudnnDescriptor below = on_scores(g, s, CUDNN_POINTWISE_SUB, (CudnnDescriptor[]){ scores, most });
    CudnnDescriptor e = on_scores(g, s, CUDNN_POINTWISE_EXP, (CudnnDescriptor[]){ below, NULL });
    CudnnDescriptor sum = cudnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, e, tensor(g, rows_of(s, ID_NONE)));
    CudnnDescriptor log_sum =
        on_rows(g, CUDNN_POINTWISE_LOG, (CudnnDescriptor[]){ sum, NULL }, tensor(g, rows_of(s, ID_NONE)));
    CudnnDescriptor stats = tensor(g, rows_of(s, ID_STATS)), p = tensor(g, scores_of(s, io_type(s)));

    on_rows(g, CUDNN_POINTWISE_ADD, (CudnnDescriptor[]){ most, log_sum }, stats);
    return on_rows(g, CUDNN_POINTWISE_DIV, (CudnnDescriptor[]){ e, sum }, p);
}

void cudnn_describe_attention(CudnnGraph *g, const AttentionShape *s)
{
    CudnnDescriptor q = tensor(g, heads_of(s, ID_Q, s->heads, qkv_row(s)));
    CudnnDescriptor kt = tensor(g, transposed(heads_of(s, ID_K, s->kv_heads, qkv_row(s))));
    CudnnDescriptor v = tensor(g, heads_of(s, ID_V, s->kv_heads, qkv_row(s)));
    CudnnDescriptor o = tensor(g, heads_of(s, ID_O, s->heads, o_row(s)));

    CudnnDescriptor dots = cudnn_matmul(g, q, kt, tensor(g, scores_of(s, CUDNN_DATA_FLOAT)));
    CudnnDescriptor scores =
        on_scores(g, s, CUDNN_POINTWISE_MUL, (CudnnDescriptor[]){ dots, scalar(g, ID_SCALE) });
    cudnn_matmul(g, softmax(g, s, causal(g, s, scores)), v, o);
}

/* ---- Backward ------------------------------------------------------------------------ */

/* delta = the sum of o * do over a row. */
static CudnnDescriptor describe_delta(CudnnGraph *g, const AttentionShape *s, CudnnDescriptor d_o)
{
    CudnnDescriptor o = tensor(g, heads_of(s, ID_O, s->heads, o_row(s)));
    CudnnTensor product = heads_of(s, ID_NONE, s->heads, o_row(s));

    product.type = CUDNN_DATA_FLOAT;
    product.is_virtual = true;
    CudnnDescriptor both = on_rows(g, CUDNN_POINTWISE_MUL, (CudnnDescriptor[]){ d_o, o }, tensor(g, product));
    CudnnDescriptor sum = cudnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, both, tensor(g, rows_of(s, ID_NONE)));
    return on_rows(g, CUDNN_POINTWISE_MUL, (CudnnDescriptor[]){ sum, scalar(g, ID_ONE) },
                   tensor(g, rows_of(s, ID_DELTA)));
}

/* y = transpose(x) z, where y has a row for each key; heads that share it are added. */
static void describe_key_gradient(CudnnGraph *g, const AttentionShape *s, CudnnDescriptor x,
                                  CudnnDescriptor z, int64_t id)
{
    CudnnDescriptor xt = cudnn_reshape(g, x, tensor(g, transposed(scores_of(s, io_type(s)))));
    CudnnDescriptor y = tensor(g, heads_of(s, id, s->kv_heads, qkv_row(s)));

    if (s->heads == s->kv_heads) {
        cudnn_matmul(g, xt, z, y);
        return;
    }
    CudnnTensor each = heads_of(s, ID_NONE, s->heads, s->head_dim);
    each.stride[0] = s->heads * s->tokens * s->head_dim;
    each.stride[1] = s->tokens * s->head_dim;
    each.is_virtual = true;
    cudnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, cudnn_matmul(g, xt, z, tensor(g, each)), y);
}

void cudnn_describe_attention_grad(CudnnGraph *g, const AttentionShape *s)
{
    CudnnTensor k = heads_of(s, ID_K, s->kv_heads, qkv_row(s)), k_again = k;
    CudnnDescriptor q = tensor(g, heads_of(s, ID_Q, s->heads, qkv_row(s)));
    CudnnDescriptor kt = tensor(g, transposed(k));
    CudnnDescriptor vt = tensor(g, transposed(heads_of(s, ID_V, s->kv_heads, qkv_row(s))));
    CudnnDescriptor d_o = tensor(g, heads_of(s, ID_DO, s->heads, o_row(s)));
    CudnnDescriptor stats = tensor(g, rows_of(s, ID_STATS)), scale = scalar(g, ID_SCALE);

    CudnnDescriptor delta = describe_delta(g, s, d_o);
    CudnnDescriptor dots = cudnn_matmul(g, q, kt, tensor(g, scores_of(s, CUDNN_DATA_FLOAT)));
    CudnnDescriptor scores = on_scores(g, s, CUDNN_POINTWISE_MUL, (CudnnDescriptor[]){ dots, scale });
    CudnnDescriptor logs = on_scores(g, s, CUDNN_POINTWISE_SUB, (CudnnDescriptor[]){ scores, stats });
    CudnnDescriptor p = on_scores(g, s, CUDNN_POINTWISE_EXP, (CudnnDescriptor[]){ causal(g, s, logs), NULL });
    describe_key_gradient(g, s, p, d_o, ID_DV);

    CudnnDescriptor dp = cudnn_matmul(g, d_o, vt, tensor(g, scores_of(s, CUDNN_DATA_FLOAT)));
    CudnnDescriptor above = on_scores(g, s, CUDNN_POINTWISE_SUB, (CudnnDescriptor[]){ dp, delta });
    CudnnDescriptor ds = on_scores(g, s, CUDNN_POINTWISE_MUL, (CudnnDescriptor[]){ above, p });
    CudnnDescriptor d_dots = on_scores(g, s, CUDNN_POINTWISE_MUL, (CudnnDescriptor[]){ ds, scale });
    describe_key_gradient(g, s, d_dots, q, ID_DK);

    k_again.is_virtual = true;
    CudnnDescriptor keys = cudnn_reshape(g, kt, tensor(g, k_again));
    cudnn_matmul(g, d_dots, keys, tensor(g, heads_of(s, ID_DQ, s->heads, qkv_row(s))));
}
