/* linear_dw.c - dweight = transpose(dy) * x and dbias = the sum of the rows of dy. */
#include "kernels/cpu/cpu_gemm.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

enum { ROWS = 64, COLUMNS = 64 }; /* of a block of dy: its sum is a partial sum */

/* dbias[0 .. n) (+)= the sums of n <= COLUMNS columns of dy [rows, ld], block by block of rows. */
static void sum_columns(float *dbias, bool add, const float *dy, int64_t rows, int64_t n, int64_t ld)
{
    float total[COLUMNS] = { 0 };

    for (int64_t first = 0; first < rows; first += ROWS) {
        int64_t end = first + ROWS < rows ? first + ROWS : rows;
        float part[COLUMNS] = { 0 };
        for (int64_t i = first; i < end; i++)
            for (int64_t j = 0; j < n; j++) part[j] += dy[i * ld + j];
        for (int64_t j = 0; j < n; j++) total[j] += part[j];
    }
    for (int64_t j = 0; j < n; j++) dbias[j] = add ? dbias[j] + total[j] : total[j];
}

static void bias_gradient(float *dbias, bool add, const float *dy, int64_t rows, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t j = 0; j < n; j += COLUMNS)
        sum_columns(dbias + j, add, dy + j, rows, n - j < COLUMNS ? n - j : COLUMNS, n);
}

static TideStatus run(const KernelCall *c)
{
    const TideRows *r = (const TideRows *)c->node->attr.bytes;
    int64_t rows = r->count ? r->count : shape_rows(c->in_info[0]->shape);
    int64_t k = shape_width(c->in_info[0]->shape), n = shape_width(c->in_info[1]->shape);
    const float *x = (const float *)c->in[0] + r->x_first * k;
    const float *dy = (const float *)c->in[1] + r->y_first * n;

    if (c->out_info[1]) bias_gradient(c->out[1], c->in_info[3] != NULL, dy, rows, n);
    if (!c->out_info[0]) return TIDE_OK;
    gemm(&(Gemm){ .a_transposed = true,
                  .add = c->in_info[2] != NULL,
                  .m = n,
                  .n = k,
                  .k = rows,
                  .a = dy,
                  .lda = n,
                  .b = x,
                  .ldb = k,
                  .c = c->out[0],
                  .ldc = k });
    return TIDE_OK;
}

const Kernel cpu_linear_dw = { .run = run };
