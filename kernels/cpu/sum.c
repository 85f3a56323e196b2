/* sum.c - the sum of a tensor in double, over fixed blocks added in order. */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

enum { BLOCK = 4096, DOUBLES = 8 };

static int64_t n_blocks(const Tensor *x)
{
    return (shape_elements(x->shape) + BLOCK - 1) / BLOCK;
}

static size_t scratch(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    (void)n;
    (void)out;
    return (size_t)n_blocks(in[0]) * sizeof(double);
}

static double sum_block(const float *x, int64_t n)
{
    double s[DOUBLES] = { 0 }, total = 0;

    for (int64_t i = 0; i + DOUBLES <= n; i += DOUBLES)
        for (int l = 0; l < DOUBLES; l++) s[l] += (double)x[i + l];
    for (int64_t i = n - n % DOUBLES; i < n; i++) total += (double)x[i];
    for (int l = 0; l < DOUBLES; l++) total += s[l];
    return total;
}

static TideStatus run(const KernelCall *c)
{
    const float *x = c->in[0];
    float *total = c->out[0]; /* [1] */
    double *part = c->scratch, sum = 0;
    int64_t n = shape_elements(c->in_info[0]->shape), blocks = n_blocks(c->in_info[0]);

#pragma omp parallel for if (blocks > 4) /* a micro-step's losses are few */
    for (int64_t b = 0; b < blocks; b++)
        part[b] = sum_block(x + b * BLOCK, n - b * BLOCK < BLOCK ? n - b * BLOCK : BLOCK);
    for (int64_t b = 0; b < blocks; b++) sum += part[b];
    total[0] = (float)(c->in[1] ? (double)total[0] + sum : sum);
    return TIDE_OK;
}

const Kernel cpu_sum = { .run = run, .scratch = scratch };
