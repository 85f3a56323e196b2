/* column_sums.c - a thread takes 64 columns: partial sums over 64 rows each, added in their order. */
#include "kernels/cpu/column_sums.h"

enum { ROWS = 64, COLUMNS = 64 };

/* Columns [first, first + COLUMNS). */
static void sum_some(const Columns *c, int64_t first)
{
    float total[COLUMNS] = { 0 };
    int64_t n = c->n - first < COLUMNS ? c->n - first : COLUMNS;

    for (int64_t row = 0; row < c->rows; row += ROWS) {
        int64_t end = row + ROWS < c->rows ? row + ROWS : c->rows;
        float part[COLUMNS] = { 0 };
        for (int64_t i = row; i < end; i++)
            for (int64_t j = 0; j < n; j++) part[j] += c->from[i * c->n + first + j];
        for (int64_t j = 0; j < n; j++) total[j] += part[j];
    }
    for (int64_t j = 0; j < n; j++) {
        float *to = &c->sums[first + j];
        *to = c->add ? *to + total[j] : total[j];
    }
}

void column_sums(Columns c)
{
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < c.n; first += COLUMNS) sum_some(&c, first);
}
