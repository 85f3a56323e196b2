/* reference.c - see reference.h. */
#include "tests/support/reference.h"
#include <math.h>
#include <string.h>
#include "kernels/cpu/philox.h"
#include "kernels/ops/shape.h"

typedef ReferenceCall Call;

static int64_t elements_of(const Tensor *t)
{
    return shape_elements(t->shape);
}

static const TideStepInfo *info_of(const Call *c, int input)
{
    return c->stored[input];
}

/* What x becomes when it is stored. */
static double stored_as(TideType type, double x)
{
    float narrow = (float)x, back;
    unsigned char bytes[sizeof narrow];

    tide_narrow(type, &narrow, 1, bytes);
    tide_widen(type, bytes, 1, &back);
    return (double)back;
}

/* ---- Element by element ------------------------------------------------------------- */

static void add(const Call *c)
{
    for (int64_t i = 0; i < elements_of(c->out_info[0]); i++) c->out[0][i] = c->in[0][i] + c->in[1][i];
}

static void cast(const Call *c)
{
    for (int64_t i = 0; i < elements_of(c->out_info[0]); i++)
        c->out[0][i] = c->in[0][i] + (c->in[1] ? c->in[1][i] : 0);
}

static void fill(const Call *c)
{
    double value = ((const FillAttr *)c->node->attr.bytes)->value;

    for (int64_t i = 0; i < elements_of(c->out_info[0]); i++) c->out[0][i] = value;
}

/* Output `output` (+)= the sums over rows of output 0 as it is stored. */
static void column_sums_of_stored(const Call *c, int output, int before)
{
    int64_t width = shape_width(c->out_info[0]->shape);

    if (!c->in[before]) memset(c->out[output], 0, (size_t)width * sizeof(double));
    for (int64_t i = 0; i < elements_of(c->out_info[0]); i++)
        c->out[output][i % width] += stored_as(c->out_info[0]->type, c->out[0][i]);
}

static const double root_2_over_pi = 0.79788456080286536, root_half = 0.70710678118654752,
                    density_0 = 0.39894228040143268;

static double phi(double x, bool erf_form)
{
    if (erf_form) return 0.5 * (1 + erf(x * root_half));
    return 0.5 * (1 + tanh(root_2_over_pi * (x + 0.044715 * x * x * x)));
}

static double phi_slope(double x, bool erf_form)
{
    double t = tanh(root_2_over_pi * (x + 0.044715 * x * x * x));

    if (erf_form) return density_0 * exp(-0.5 * x * x);
    return 0.5 * (1 - t * t) * root_2_over_pi * (1 + 3 * 0.044715 * x * x);
}

static void gelu(const Call *c)
{
    bool erf_form = ((const GeluAttr *)c->node->attr.bytes)->erf;

    for (int64_t i = 0; i < elements_of(c->out_info[0]); i++)
        c->out[0][i] = c->in[0][i] * phi(c->in[0][i], erf_form);
}

static void gelu_grad(const Call *c)
{
    bool erf_form = ((const GeluAttr *)c->node->attr.bytes)->erf;

    for (int64_t i = 0; i < elements_of(c->out_info[0]); i++) {
        double x = c->in[0][i];
        c->out[0][i] = c->in[1][i] * (phi(x, erf_form) + x * phi_slope(x, erf_form));
    }
    if (c->out[1]) column_sums_of_stored(c, 1, 2);
}

static void dropout(const Call *c)
{
    const DropoutAttr *a = (const DropoutAttr *)c->node->attr.bytes;
    Philox p = philox_of(info_of(c, 1), a->site);
    uint32_t word;

    for (int64_t i = 0; i < elements_of(c->out_info[0]); i++) {
        philox_words(&p, (uint64_t)i, 1, &word);
        c->out[0][i] = word >= philox_threshold(a->p) ? c->in[0][i] / (1 - (double)a->p) : 0;
    }
}

static void select_row(const Call *c)
{
    int64_t rows = c->in_info[0]->shape.dim[1], width = shape_width(c->in_info[0]->shape);
    int64_t row = info_of(c, 1)->row;

    row = row < 0 ? 0 : row >= rows ? rows - 1 : row;
    memcpy(c->out[0], c->in[0] + row * width, (size_t)width * sizeof(double));
}

static void sum(const Call *c)
{
    double total = c->in[1] ? c->in[1][0] : 0;

    for (int64_t i = 0; i < elements_of(c->in_info[0]); i++) total += c->in[0][i];
    c->out[0][0] = total;
}

/* ---- Tables ---------------------------------------------------------------------------- */

static void embedding(const Call *c)
{
    int64_t width = c->in_info[1]->shape.dim[1], vocab = c->in_info[1]->shape.dim[0];
    int64_t time = c->in_info[0]->shape.dim[1];
    const int32_t *tokens = c->stored[0];

    for (int64_t r = 0; r < elements_of(c->in_info[0]); r++)
        for (int64_t i = 0; i < width; i++) {
            bool inside = tokens[r] >= 0 && tokens[r] < vocab;
            double position = c->in[2] ? c->in[2][r % time * width + i] : 0;
            c->out[0][r * width + i] = position + (inside ? c->in[1][tokens[r] * width + i] : 0);
        }
}

static void embedding_grad(const Call *c)
{
    int64_t width = shape_width(c->in_info[1]->shape), time = c->in_info[0]->shape.dim[1];
    const int32_t *tokens = c->stored[0];

    for (int o = 0; o < 2; o++)
        if (c->out[o] && !c->in[2 + o])
            memset(c->out[o], 0, (size_t)elements_of(c->out_info[o]) * sizeof(double));
    for (int64_t r = 0; r < elements_of(c->in_info[0]); r++) {
        bool inside = c->out[0] && tokens[r] >= 0 && tokens[r] < c->out_info[0]->shape.dim[0];
        const double *dy = c->in[1] + r * width;
        for (int64_t i = 0; inside && i < width; i++) c->out[0][tokens[r] * width + i] += dy[i];
        for (int64_t i = 0; c->out[1] && i < width; i++) c->out[1][r % time * width + i] += dy[i];
    }
}

/* ---- Rows ---------------------------------------------------------------------------------- */

/* y of a row; `moments` [2] are the row's mean and rstd. */
static void norm_row(double *y, const double *x, const double *weight, const double *bias,
                     const double *moments, int64_t width)
{
    for (int64_t i = 0; i < width; i++)
        y[i] = (x[i] - moments[0]) * moments[1] * weight[i] + (bias ? bias[i] : 0);
}

/* Row r of x and its moments: y, mean and rstd. */
static void norm(const double *x, const double *weight, const double *bias, int64_t r, int64_t width,
                 double *y, double *mean, double *rstd)
{
    double total = 0, squares = 0;

    for (int64_t i = 0; i < width; i++) total += x[r * width + i];
    for (int64_t i = 0; i < width; i++)
        squares += (x[r * width + i] - total / (double)width) * (x[r * width + i] - total / (double)width);
    mean[r] = total / (double)width;
    rstd[r] = 1 / sqrt(squares / (double)width + 1e-5);
    norm_row(y + r * width, x + r * width, weight, bias, (double[]){ mean[r], rstd[r] }, width);
}

static void layernorm(const Call *c)
{
    int64_t width = shape_width(c->in_info[0]->shape);

    for (int64_t r = 0; r < shape_rows(c->in_info[0]->shape); r++)
        norm(c->in[0], c->in[1], c->in[2], r, width, c->out[0], c->out[1], c->out[2]);
}

static void layernorm_again(const Call *c)
{
    int64_t width = shape_width(c->in_info[0]->shape);

    for (int64_t r = 0; r < shape_rows(c->in_info[0]->shape); r++)
        norm_row(c->out[0] + r * width, c->in[0] + r * width, c->in[3], c->in[4],
                 (double[]){ c->in[1][r], c->in[2][r] }, width);
}

static void add_layernorm(const Call *c)
{
    int64_t width = shape_width(c->in_info[0]->shape);

    for (int64_t i = 0; i < elements_of(c->in_info[0]); i++)
        c->out[0][i] = stored_as(c->out_info[0]->type, c->in[0][i] + c->in[1][i]);
    for (int64_t r = 0; r < shape_rows(c->in_info[0]->shape); r++)
        norm(c->out[0], c->in[2], c->in[3], r, width, c->out[1], c->out[2], c->out[3]);
}

/* Row r of dx, and what it adds to dweight and dbias. */
static void norm_grad_row(const Call *c, int64_t r, int64_t width)
{
    const double *x = c->in[0] + r * width, *dy = c->in[4] + r * width, *weight = c->in[3];
    double mean = c->in[1][r], rstd = c->in[2][r], mean_h = 0, mean_hx = 0;

    for (int64_t i = 0; i < width; i++) {
        double xhat = (x[i] - mean) * rstd;
        mean_h += dy[i] * weight[i] / (double)width;
        mean_hx += dy[i] * weight[i] * xhat / (double)width;
        if (c->out[1]) c->out[1][i] += dy[i] * xhat;
        if (c->out[2]) c->out[2][i] += dy[i];
    }
    for (int64_t i = 0; i < width; i++) {
        double dx = rstd * (dy[i] * weight[i] - mean_h - (x[i] - mean) * rstd * mean_hx);
        c->out[0][r * width + i] = dx + (c->in[5] ? c->in[5][r * width + i] : 0);
    }
}

static void layernorm_grad(const Call *c)
{
    int64_t width = shape_width(c->in_info[0]->shape);

    for (int o = 1; o <= 2; o++)
        if (c->out[o] && !c->in[5 + o]) memset(c->out[o], 0, (size_t)width * sizeof(double));
    for (int64_t r = 0; r < shape_rows(c->in_info[0]->shape); r++) norm_grad_row(c, r, width);
    if (c->out[3]) column_sums_of_stored(c, 3, 8);
}

/* The loss of row r; gradient [width] or NULL. */
static double loss_row(const Call *c, int64_t r, double *gradient, double scale)
{
    const TideClasses *a = (const TideClasses *)c->node->attr.bytes;
    int64_t width = shape_width(c->in_info[0]->shape);
    const double *x = c->in[0] + r * width;
    int32_t target = ((const int32_t *)c->stored[1])[a->first + r];
    bool counts = target != a->ignore && target >= 0 && target < a->vocab;
    double max = -INFINITY, total = 0;

    for (int i = 0; i < a->vocab; i++) max = fmax(max, x[i]);
    for (int i = 0; i < a->vocab; i++) total += exp(x[i] - max);
    for (int64_t i = 0; gradient && i < width; i++) {
        double softmax = i < a->vocab ? exp(x[i] - max) / total : 0;
        gradient[i] = counts ? (softmax - (i == target)) * scale : 0;
    }
    return counts ? log(total) + max - x[target] : 0;
}

static void cross_entropy(const Call *c)
{
    const TideClasses *a = (const TideClasses *)c->node->attr.bytes;

    for (int64_t r = 0; r < shape_rows(c->in_info[0]->shape); r++)
        c->out[0][a->first + r] = loss_row(c, r, NULL, 0);
}

static void cross_entropy_grad(const Call *c)
{
    const TideClasses *a = (const TideClasses *)c->node->attr.bytes;
    int64_t width = shape_width(c->in_info[0]->shape);
    double scale = (double)info_of(c, 3)->loss_scale;

    for (int64_t r = 0; r < shape_rows(c->in_info[0]->shape); r++)
        c->out[0][a->first + r] = loss_row(c, r, c->out[1] + r * width, scale);
}

/* ---- Updates ----------------------------------------------------------------------------------- */

static void grad_norm(const Call *c)
{
    double squares = 0, clip = (double)((const NormAttr *)c->node->attr.bytes)->clip;

    for (int k = 1; k < c->node->n_in; k++)
        for (int64_t i = 0; i < elements_of(c->in_info[k]); i++) squares += c->in[k][i] * c->in[k][i];
    c->out[0][0] = sqrt(squares) * (double)info_of(c, 0)->grad_scale;
    c->out[0][1] = clip > 0 && !(c->out[0][0] <= clip) ? clip / c->out[0][0] : 1;
}

static double gradient_scale(const Call *c)
{
    return (double)info_of(c, 1)->grad_scale * (c->in[2] ? c->in[2][1] : 1);
}

static void sgd(const Call *c)
{
    double rate = (double)info_of(c, 1)->lr * gradient_scale(c);

    for (int64_t i = 0; i < elements_of(c->in_info[0]); i++) c->out[0][i] -= rate * c->in[0][i];
}

static void adamw(const Call *c)
{
    const AdamWAttr *a = (const AdamWAttr *)c->node->attr.bytes;
    const TideStepInfo *s = info_of(c, 1);
    double *m = c->out[1], *v = c->out[2], beta1 = (double)a->beta1, beta2 = (double)a->beta2;
    double lr = (double)s->lr, *w = c->out[3] ? c->out[3] : c->out[0];

    for (int64_t i = 0; i < elements_of(c->in_info[0]); i++) {
        double g = c->in[0][i] * gradient_scale(c);
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        double up = m[i] / (double)s->bias1 / (sqrt(v[i] / (double)s->bias2) + (double)a->eps);
        w[i] -= lr * (up + (double)a->decay * w[i]);
        c->out[0][i] = w[i];
    }
}

/* ---- All of them ------------------------------------------------------------------------------- */

static void (*const reference_of[OP_COUNT])(const ReferenceCall *) = {
    [OP_add] = add,
    [OP_cast] = cast,
    [OP_fill] = fill,
    [OP_embedding] = embedding,
    [OP_embedding_grad] = embedding_grad,
    [OP_layernorm] = layernorm,
    [OP_layernorm_again] = layernorm_again,
    [OP_layernorm_grad] = layernorm_grad,
    [OP_add_layernorm] = add_layernorm,
    [OP_linear] = reference_linear,
    [OP_linear_dx] = reference_linear_dx,
    [OP_linear_dw] = reference_linear_dw,
    [OP_gelu] = gelu,
    [OP_gelu_grad] = gelu_grad,
    [OP_attention] = reference_attention,
    [OP_attention_grad] = reference_attention_grad,
    [OP_dropout] = dropout,
    [OP_cross_entropy] = cross_entropy,
    [OP_cross_entropy_grad] = cross_entropy_grad,
    [OP_sum] = sum,
    [OP_select_row] = select_row,
    [OP_grad_norm] = grad_norm,
    [OP_adamw] = adamw,
    [OP_sgd] = sgd,
};

bool reference_run(const ReferenceCall *c)
{
    if (!reference_of[c->node->op->id]) return false;
    reference_of[c->node->op->id](c);
    return true;
}

double reference_error(const float *a, const double *b, int64_t n)
{
    double worst = 0, largest = 0;

    for (int64_t i = 0; i < n; i++) {
        if (isnan(a[i]) && isnan(b[i])) continue;
        if (!isfinite(a[i]) || !isfinite(b[i])) return INFINITY;
        worst = fmax(worst, fabs((double)a[i] - b[i]));
        largest = fmax(largest, fabs(b[i]));
    }
    return worst / (largest > 0 ? largest : 1);
}
