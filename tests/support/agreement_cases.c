/* agreement_cases.c - the programs, sizes and types of the agreement tests and of the benchmark.
 *
 * Sizes are B, T, C, V. Odd ones are there on purpose: rows that are no whole packs, blocks that
 * are not full, tokens of one class, rows longer than a block's registers. */
#include "kernels/ops/shape.h"
#include "tests/support/agreement.h"

static const TideTensor none = { 0 };

static TideShape activations(const Side *s)
{
    return (TideShape){ 3, { s->size[0], s->size[1], s->size[2] } };
}

static TideShape vector(int64_t n)
{
    return (TideShape){ 1, { n } };
}

static void build_add(Side *s)
{
    TideTensor a = side_input(s, "a", activations(s)), b = side_input(s, "b", activations(s));

    tide_add(s->g, a, b);
}

static void build_fill(Side *s)
{
    tide_fill(s->g, side_persistent(s, "x", TIDE_STATE, s->type, activations(s)), 0.375);
}

/* Where few tokens look rows up, a large table proves no more than a small one. */
static int64_t table_rows(const Side *s)
{
    int64_t rows = s->size[3];

    while (s->size[0] * s->size[1] < 8192 && rows * s->size[2] > 1 << 23) rows /= 2;
    return rows;
}

static void build_embedding(Side *s)
{
    TideTensor table = side_parameter(s, "table", (TideShape){ 2, { table_rows(s), s->size[2] } });
    TideTensor positions = side_parameter(s, "positions", (TideShape){ 2, { s->size[1] + 3, s->size[2] } });
    TideTensor tokens = side_ints(s, "tokens", (TideShape){ 2, { s->size[0], s->size[1] } });
    TideTensor y = tide_embedding(s->g, tokens, table, positions);

    tide_backward(s->g, y, side_input(s, "dy", activations(s)));
}

static void build_embedding_alone(Side *s)
{
    TideTensor table = side_parameter(s, "table", (TideShape){ 2, { table_rows(s), s->size[2] } });
    TideTensor tokens = side_ints(s, "tokens", (TideShape){ 2, { s->size[0], s->size[1] } });
    TideTensor y = tide_embedding(s->g, tokens, table, none);

    tide_backward(s->g, y, side_input(s, "dy", activations(s)));
}

/* One table looked up three times: narrow gradients are summed in f32. */
static void build_embedding_shared(Side *s)
{
    TideTensor table = side_parameter(s, "table", (TideShape){ 2, { table_rows(s), s->size[2] } });
    TideTensor y = { 0 };
    char name[16];

    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "tokens%d", i);
        TideTensor tokens = side_ints(s, name, (TideShape){ 2, { s->size[0], s->size[1] } });
        TideTensor x = tide_embedding(s->g, tokens, table, none);
        y = i ? tide_add(s->g, y, x) : x;
    }
    tide_backward(s->g, y, side_input(s, "dy", activations(s)));
}

static void build_cast(Side *s)
{
    TideTensor x = side_input(s, "x", activations(s));
    TideTensor y = side_persistent(s, "y", TIDE_STATE, s->grad, activations(s));

    tide_cast(s->g, tide_cast(s->g, x, none, TIDE_F32, false), y, s->grad, true);
    tide_cast(s->g, x, none, s->type, false);
}

static void build_layernorm(Side *s)
{
    TideTensor weight = side_parameter(s, "weight", vector(s->size[2]));
    TideTensor bias = side_parameter(s, "bias", vector(s->size[2]));
    TideTensor y = tide_layernorm(s->g, side_input(s, "x", activations(s)), weight, bias);

    tide_backward(s->g, y, side_input(s, "dy", activations(s)));
}

/* Without a bias, and with what else came for the sum as the residual of its gradient. */
static void build_add_layernorm(Side *s)
{
    TideTensor weight = side_parameter(s, "weight", vector(s->size[2]));
    TideTensor a = side_input(s, "a", activations(s)), b = side_input(s, "b", activations(s));
    TideTensor sum = tide_add_layernorm(s->g, a, b, weight, none);
    TideTensor dy = side_input(s, "dy", activations(s)), dsum = side_input(s, "dsum", activations(s));

    if (!sum.id) return;
    graph_phase(s->g, PHASE_BACKWARD);
    tide_layernorm_grad(s->g, sum, graph_sibling(s->g, sum, 2), graph_sibling(s->g, sum, 3), weight, none, dy,
                        dsum);
}

/* Gradients whose column sums are wanted, of a tensor with a bias; B > 1: added to what is there. */
static void build_column_sums(Side *s)
{
    TideTensor a = side_input(s, "a", activations(s)), dy = side_input(s, "dy", activations(s));
    TideTensor weight = side_parameter(s, "weight", vector(s->size[2]));
    TideTensor y = tide_layernorm(s->g, a, weight, none);
    TideTensor norm = side_persistent(s, "norm", TIDE_GRADIENT, s->grad, vector(s->size[2]));
    TideTensor gelu = side_persistent(s, "gelu", TIDE_GRADIENT, s->grad, vector(s->size[2]));
    GeluAttr attr = { false };
    TideTensor norm_in[] = {
        a,    graph_sibling(s->g, y, 1),  graph_sibling(s->g, y, 2), weight, dy, none, none,
        none, s->accumulate ? norm : none
    };
    TideTensor gelu_in[] = { a, dy, s->accumulate ? gelu : none };

    graph_phase(s->g, PHASE_BACKWARD);
    graph_append(
        s->g,
        (NodeSpec){ .op = &op_layernorm_grad, .in = norm_in, .n_in = 9, .out = { none, none, none, norm } });
    graph_append(s->g, (NodeSpec){ .op = &op_gelu_grad,
                                   .in = gelu_in,
                                   .n_in = 3,
                                   .out = { none, gelu },
                                   .attr = &attr,
                                   .attr_bytes = sizeof attr });
}

static void build_gelu(Side *s, bool erf)
{
    TideTensor x = side_input(s, "x", activations(s)), dy = side_input(s, "dy", activations(s));

    tide_gelu(s->g, x, erf);
    tide_gelu_grad(s->g, x, dy, erf);
}

static void build_gelu_tanh(Side *s)
{
    build_gelu(s, false);
}

static void build_gelu_erf(Side *s)
{
    build_gelu(s, true);
}

static void build_dropout(Side *s)
{
    tide_dropout(s->g, side_input(s, "x", activations(s)), side_info(s), 0.3f, 5);
}

/* The last rows of the batch, 64 at most, or a chunk where the batch is large; padded where B > 1. */
static void build_cross_entropy(Side *s)
{
    int64_t all = s->size[0] * s->size[1], rows = all > 8192 ? 4096 : all < 64 ? all : 64, V = s->size[3];
    int64_t padded = s->size[0] > 1 ? (V + 127) / 128 * 128 : V;
    TideClasses c = { .vocab = (int)V, .ignore = 0, .first = all - rows };
    TideTensor targets = side_ints(s, "targets", (TideShape){ 2, { s->size[0], s->size[1] } });
    TideTensor losses = side_persistent(s, "losses", TIDE_STATE, TIDE_F32, vector(all));
    TideTensor logits = side_input(s, "logits", (TideShape){ 2, { rows, padded } });
    TideTensor again = side_input(s, "logits again", (TideShape){ 2, { rows, padded } });

    tide_cross_entropy(s->g, logits, targets, losses, c);
    tide_cross_entropy_grad(s->g, again, targets, losses, side_info(s), c);
}

static void build_sums(Side *s)
{
    TideTensor x = side_persistent(s, "x", TIDE_STATE, TIDE_F32, vector(s->size[0] * s->size[1]));
    TideTensor total = side_persistent(s, "total", TIDE_STATE, TIDE_F32, vector(1));
    TideTensor other = side_persistent(s, "other", TIDE_STATE, TIDE_F32, vector(1));

    tide_sum(s->g, x, total, true);
    tide_sum(s->g, x, other, false);
}

static void build_select_row(Side *s)
{
    TideTensor x = side_input(s, "x", (TideShape){ 3, { 1, s->size[0] * s->size[1], s->size[2] } });

    tide_select_row(s->g, x, side_info(s));
}

/* A flat of all elements and a short one, their norm, and one update of each kind. */
static void build_update(Side *s, bool master, bool sgd)
{
    TideShape shape = vector(s->size[0] * s->size[1] * s->size[2]);
    TideTensor info = side_info(s), p = side_persistent(s, "p", TIDE_PARAMETER, s->type, shape);
    TideTensor gradient = side_persistent(s, "g", TIDE_GRADIENT, s->grad, shape);
    TideTensor grads[] = { gradient, side_persistent(s, "short", TIDE_GRADIENT, s->grad, vector(77)) };
    TideAdamW a = { .parameter = p,
                    .gradient = gradient,
                    .norm = tide_grad_norm(s->g, grads, 2, info, 1.0f),
                    .info = info,
                    .beta1 = 0.9f,
                    .beta2 = 0.95f,
                    .eps = 1e-8f,
                    .decay = 0.1f };

    graph_phase(s->g, PHASE_UPDATE);
    if (sgd) {
        tide_sgd(s->g, p, gradient, a.norm, info);
        return;
    }
    a.m = side_persistent(s, "m", TIDE_STATE, s->state, shape);
    a.v = side_persistent(s, "v", TIDE_STATE, s->state, shape);
    if (master) a.master = side_persistent(s, "master", TIDE_STATE, TIDE_F32, shape);
    tide_adamw(s->g, a);
}

static void build_adamw(Side *s)
{
    build_update(s, false, false);
}

static void build_adamw_master(Side *s)
{
    build_update(s, true, false);
}

static void build_sgd(Side *s)
{
    build_update(s, false, true);
}

static const AgreeCase cases[] = {
    { "add", build_add, 1 },
    { "fill", build_fill, 1 },
    { "embedding", build_embedding, 1 },
    { "embedding_alone", build_embedding_alone, 1 },
    { "embedding_shared", build_embedding_shared, 1 },
    { "cast", build_cast, 1 },
    { "layernorm", build_layernorm, 1 },
    { "add_layernorm", build_add_layernorm, 1 },
    { "column_sums", build_column_sums, 1 },
    { "gelu_tanh", build_gelu_tanh, 6 },
    { "gelu_erf", build_gelu_erf, 6 },
    { "dropout", build_dropout, 1 },
    { "cross_entropy", build_cross_entropy, 4 },
    { "sum", build_sums, 1 },
    { "select_row", build_select_row, 1 },
    { "adamw", build_adamw, 1 },
    { "adamw_master", build_adamw_master, 1 },
    { "sgd", build_sgd, 1 },
};
enum { N_CASES = sizeof cases / sizeof *cases };

const AgreeCase *agree_case(int i)
{
    return i >= 0 && i < N_CASES ? &cases[i] : NULL;
}

static const int64_t sizes[][SIDE_SIZES] = {
    { 2, 1, 8, 1 },        { 1, 2, 16, 2 },         { 3, 17, 24, 7 },        { 1, 63, 64, 7 },
    { 3, 64, 80, 50257 },  { 1, 65, 96, 257 },      { 3, 127, 128, 1000 },   { 1, 129, 1600, 511 },
    { 3, 1025, 400, 512 }, { 1, 1025, 768, 50257 }, { 3, 65, 3200, 128256 }, { 1, 17, 75, 50304 },
    { 3, 129, 1, 7 },      { 1, 5, 8200, 3 },       { 1, 63, 2056, 3 },      { 3, 3, 4999, 50304 },
};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

const int64_t *agree_sizes(int i)
{
    return i >= 0 && i < N_SIZES ? sizes[i] : NULL;
}

static const AgreeDrawn drawn[] = {
    { 3, 1, 1, 8, 1 },          { 3, 2, 3, 16, 2 },         { 1, 17, 25, 64, 7 },    { 3, 63, 1, 80, 50257 },
    { 1, 64, 3, 96, 50304 },    { 3, 65, 25, 128, 128256 }, { 1, 127, 1, 16, 2 },    { 3, 129, 3, 8, 7 },
    { 1, 1025, 25, 64, 50257 }, { 3, 1, 25, 96, 128256 },   { 1, 2, 1, 128, 50304 }, { 3, 17, 3, 80, 1 },
    { 1, 63, 25, 8, 50257 },    { 3, 64, 1, 64, 7 },        { 1, 65, 3, 16, 50304 }, { 3, 127, 25, 80, 2 },
    { 1, 129, 1, 96, 128256 },  { 3, 1025, 3, 128, 7 },
};
enum { N_DRAWN = sizeof drawn / sizeof *drawn };

const AgreeDrawn *agree_drawn(int i)
{
    return i >= 0 && i < N_DRAWN ? &drawn[i] : NULL;
}

static const AgreeTypes types[] = {
    { "f32", TIDE_F32, TIDE_F32, TIDE_F32, 1e-3 },
    { "bf16", TIDE_BF16, TIDE_BF16, TIDE_F32, 1e-2 },
    { "bf16, f32 gradients, bf16 moments", TIDE_BF16, TIDE_F32, TIDE_BF16, 1e-2 },
    { "f16", TIDE_F16, TIDE_F16, TIDE_F32, 1e-2 },
};
enum { N_TYPES = sizeof types / sizeof *types };

const AgreeTypes *agree_types(int i)
{
    return i >= 0 && i < N_TYPES ? &types[i] : NULL;
}
