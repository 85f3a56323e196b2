/* column_sums.c - see column_sums.h. */
#include "kernels/cpu/column_sums.h"

enum { ROWS = 64, COLUMNS = 64 }; /* of a block: its sum is a partial sum */

typedef struct Columns {
    const float *a; /* [rows, n] */
    int64_t rows, n;
    float *to; /* [n] */
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
            for (int64_t j = 0; j < n; j++) part[j] += c->a[i * c->n + first + j];
        for (int64_t j = 0; j < n; j++) total[j] += part[j];
    }
    for (int64_t j = 0; j < n; j++) {
        float *to = &c->to[first + j];
        *to = c->add ? *to + total[j] : total[j];
    }
}

void column_sums(const float *a, int64_t rows, int64_t n, float *to, bool add)
{
    Columns c = { a, rows, n, to, add };

#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < n; first += COLUMNS) sum_columns(&c, first);
}
