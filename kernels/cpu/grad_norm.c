/* grad_norm.c - the global norm: sums of squares in double over fixed blocks, added in order. */
#include <math.h>
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

enum { BLOCK = 1 << 15, DOUBLES = 8 };

static int64_t n_blocks(const Tensor *x)
{
    return (shape_elements(x->shape) + BLOCK - 1) / BLOCK;
}

static size_t scratch(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    int64_t most = 0;

    (void)out;
    for (int i = 1; i < n->n_in; i++)
        if (n_blocks(in[i]) > most) most = n_blocks(in[i]);
    return (size_t)most * sizeof(double);
}

static double squares_of_block(const float *x, int64_t n)
{
    double s[DOUBLES] = { 0 }, total = 0;

    for (int64_t i = 0; i + DOUBLES <= n; i += DOUBLES)
        for (int l = 0; l < DOUBLES; l++) s[l] += (double)x[i + l] * (double)x[i + l];
    for (int64_t i = n - n % DOUBLES; i < n; i++) total += (double)x[i] * (double)x[i];
    for (int l = 0; l < DOUBLES; l++) total += s[l];
    return total;
}

static double squares(const float *x, const Tensor *info, double *part)
{
    int64_t n = shape_elements(info->shape), blocks = n_blocks(info);
    double sum = 0;

#pragma omp parallel for if (blocks > 1)
    for (int64_t b = 0; b < blocks; b++)
        part[b] = squares_of_block(x + b * BLOCK, n - b * BLOCK < BLOCK ? n - b * BLOCK : BLOCK);
    for (int64_t b = 0; b < blocks; b++) sum += part[b];
    return sum;
}

static TideStatus run(const KernelCall *c)
{
    const TideStepInfo *info = c->in[0];
    const NormAttr *a = (const void *)c->node->attr.bytes;
    float *out = c->out[0]; /* [2]: norm, factor */
    double sum = 0;

    for (int i = 1; i < c->node->n_in; i++) sum += squares(c->in[i], c->in_info[i], c->scratch);
    double norm = sqrt(sum) * (double)info->grad_scale;

    out[0] = (float)norm;
    out[1] = 1.0f;
    if (a->clip > 0 && !(norm <= (double)a->clip)) /* also where norm is not a number */
        out[1] = (float)((double)a->clip / norm);
    return TIDE_OK;
}

const Kernel cpu_grad_norm = { .run = run, .scratch = scratch };
