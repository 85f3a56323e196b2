/* layernorm_grad.c - rows in fixed blocks: each block leaves its part of dweight and dbias in
 * scratch, and the parts are added in block order. The column sums of dx, where they are wanted, are a
 * pass of their own. dx may lie in dy. */
#include <string.h>
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/layernorm_row.h"
#include "kernels/ops/shape.h"

enum { MOST_BLOCKS = 32, LEAST_ROWS = 8 };

/* Rows of a block: a function of the shape alone. */
static int64_t rows_per_block(int64_t rows)
{
    int64_t each = (rows + MOST_BLOCKS - 1) / MOST_BLOCKS;
    return each < LEAST_ROWS ? LEAST_ROWS : each;
}

static int64_t n_blocks(int64_t rows)
{
    return (rows + rows_per_block(rows) - 1) / rows_per_block(rows);
}

static size_t scratch(const Node *n, const Tensor *const *in, const Tensor *const *out)
{
    TideShape x = in[0]->shape;
    (void)n;
    (void)out;
    return (size_t)(n_blocks(shape_rows(x)) * 2 * shape_width(x)) * sizeof(float);
}

/* Sums over a row of h and h * xhat, with h = dy * weight; dy * xhat and dy go to dw and db. */
static void sum_row(const float *restrict x, const float *restrict dy, RowMoments m,
                    const float *restrict weight, float *restrict dw, float *restrict db, int64_t width,
                    float *sum_h, float *sum_hx)
{
    float s[LANES] = { 0 }, q[LANES] = { 0 };
    int64_t whole = width - width % LANES;

    for (int64_t i = 0; i < whole; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            float xhat = (x[i + l] - m.mean) * m.rstd, h = dy[i + l] * weight[i + l];
            s[l] += h;
            q[l] += h * xhat;
            dw[i + l] += dy[i + l] * xhat;
            db[i + l] += dy[i + l];
        }
    }
    for (int64_t i = whole; i < width; i++) {
        float xhat = (x[i] - m.mean) * m.rstd, h = dy[i] * weight[i];
        s[i - whole] += h;
        q[i - whole] += h * xhat;
        dw[i] += dy[i] * xhat;
        db[i] += dy[i];
    }
    *sum_h = lanes_total(s);
    *sum_hx = lanes_total(q);
}

typedef struct Job {
    const float *x, *mean, *rstd, *weight, *dy, *residual; /* residual [rows, C] or NULL */
    float *dx;
    int64_t rows, width;
} Job;

static void gradient_row(const Job *j, int64_t r, float *dw, float *db)
{
    int64_t width = j->width;
    RowMoments m = { j->mean[r], j->rstd[r] };
    const float *x = j->x + r * width, *dy = j->dy + r * width, *weight = j->weight;
    const float *residual = j->residual ? j->residual + r * width : NULL;
    float *dx = j->dx + r * width, mean_h, mean_hx;

    sum_row(x, dy, m, weight, dw, db, width, &mean_h, &mean_hx);
    mean_h /= (float)width;
    mean_hx /= (float)width;
    if (residual) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            dx[i] = residual[i] + m.rstd * (dy[i] * weight[i] - mean_h - (x[i] - m.mean) * m.rstd * mean_hx);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            dx[i] = m.rstd * (dy[i] * weight[i] - mean_h - (x[i] - m.mean) * m.rstd * mean_hx);
    }
}

/* to[i] (+)= the sum over blocks of parts[block][i], parts of one block being 2 * width apart. */
static void add_parts(float *to, const float *parts, int64_t blocks, int64_t width, bool add)
{
#pragma omp parallel for if (width > 2048) /* below, less work than waking threads */
    for (int64_t first = 0; first < width; first += LANES) {
        int64_t n = width - first < LANES ? width - first : LANES;
        float sum[LANES] = { 0 };
        for (int64_t b = 0; b < blocks; b++)
            for (int64_t l = 0; l < n; l++) sum[l] += parts[b * 2 * width + first + l];
        for (int64_t l = 0; l < n; l++) to[first + l] = add ? to[first + l] + sum[l] : sum[l];
    }
}

static TideStatus run(const KernelCall *c)
{
    TideShape shape = c->in_info[0]->shape;
    Job j = { c->in[0], c->in[1],  c->in[2],          c->in[3],          c->in[4],
              c->in[5], c->out[0], shape_rows(shape), shape_width(shape) };
    int64_t blocks = n_blocks(j.rows), each = rows_per_block(j.rows);
    float *parts = c->scratch; /* [blocks, 2, C]: dweight, dbias */

#pragma omp parallel for
    for (int64_t b = 0; b < blocks; b++) {
        float *dw = parts + b * 2 * j.width, *db = dw + j.width;
        int64_t last = (b + 1) * each < j.rows ? (b + 1) * each : j.rows;
        memset(dw, 0, (size_t)(2 * j.width) * sizeof *dw);
        for (int64_t r = b * each; r < last; r++) gradient_row(&j, r, dw, db);
    }
    if (c->out[1]) add_parts(c->out[1], parts, blocks, j.width, c->in[6] != NULL);
    if (c->out[2]) add_parts(c->out[2], parts + j.width, blocks, j.width, c->in[7] != NULL);
    if (c->out[3]) column_sums(j.dx, j.rows, j.width, c->out[3], c->in[8] != NULL);
    return TIDE_OK;
}

const Kernel cpu_layernorm_grad = { .run = run, .scratch = scratch };
