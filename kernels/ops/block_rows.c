/* block_rows.c - how many rows a tensor is cut into, wherever it is made block by block. */
#include "kernels/ops/shape.h"

enum { FINE_STEP = 64, COARSE_STEP = 256, COARSE_FROM = 16 };

/* In multiples of 64 rows and at least so many, or of 256 where that leaves a choice: these are whole tiles
 * of a GPU's products, which take as long for 5504 rows as for 5632. The blocks are as equal as that
 * allows. */
int64_t tide_block_rows(int64_t rows, int64_t width, int64_t elements)
{
    int64_t most = elements / width;
    int64_t step = most < COARSE_FROM * COARSE_STEP ? FINE_STEP : COARSE_STEP;

    most = most < step ? step : most / step * step;
    if (rows <= most) return rows;
    int64_t blocks = (rows + most - 1) / most;
    int64_t each = (rows + blocks - 1) / blocks;
    return (each + step - 1) / step * step;
}
