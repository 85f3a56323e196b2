/* column_sums.h - sums over the rows of a matrix, block by block of rows. */
#ifndef TIDE_CPU_COLUMN_SUMS_H
#define TIDE_CPU_COLUMN_SUMS_H
#include <stdbool.h>
#include <stdint.h>

/* A matrix f32 [rows, n], and where the sums of its columns go. */
typedef struct Columns {
    const float *from; /* [rows, n] */
    int64_t rows, n;
    float *sums; /* [n] */
    bool add;    /* to what is there */
} Columns;

/* Cannot fail. */
void column_sums(Columns c);
#endif
