/* linear_dw.c - dweight = transpose(dy) * x and dbias = the sum of the rows of dy. */
#include "kernels/cpu/cpu_gemm.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

enum { ROWS = 64, COLUMNS = 64 }; /* of a block of dy: its sum is a partial sum */

/* dy, and where its column sums go. */
typedef struct Columns {
    const float *dy; /* [rows, n] */
    int64_t rows, n;
    float *dbias; /* [n] */
    bool add;
} Columns;

/* Columns [first, first + COLUMNS), block by block of rows. */
static void sum_columns(const Columns *c, int64_t first)
{
    float total[COLUMNS] = { 0 };
    int64_t n = c->n - first < COLUMNS ? c->n - first : COLUMNS;

    for (int64_t row = 0; row < c->rows; row += ROWS) {
        int64_t end = row + ROWS < c->rows ? row + ROWS : c->rows;
        float part[COLUMNS] = { 0 };
        for (int64_t i = row; i < end; i++)
            for (int64_t j = 0; j < n; j++) part[j] += c->dy[i * c->n + first + j];
        for (int64_t j = 0; j < n; j++) total[j] += part[j];
    }
    for (int64_t j = 0; j < n; j++) {
        float *to = &c->dbias[first + j];
        *to = c->add ? *to + total[j] : total[j];
    }
}

static void bias_gradient(Columns c)
{
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < c.n; first += COLUMNS) sum_columns(&c, first);
}

static TideStatus run(const KernelCall *c)
{
    const TideRows *r = (const TideRows *)c->node->attr.bytes;
    int64_t rows = r->count ? r->count : shape_rows(c->in_info[0]->shape);
    int64_t k = shape_width(c->in_info[0]->shape), n = shape_width(c->in_info[1]->shape);
    const float *x = (const float *)c->in[0] + r->x_first * k;
    const float *dy = (const float *)c->in[1] + r->y_first * n;

    if (c->out_info[1]) bias_gradient((Columns){ dy, rows, n, c->out[1], c->in_info[3] != NULL });
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
