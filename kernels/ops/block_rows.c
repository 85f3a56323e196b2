/* block_rows.c - how many rows a tensor is cut into, wherever it is made block by block. */
#include "kernels/ops/shape.h"

enum { BLOCK_STEP = 64 };

/* In multiples of 64 rows and at least so many; the blocks are as equal as that allows. */
int64_t tide_block_rows(int64_t rows, int64_t width, int64_t elements)
{
    int64_t most = elements / width / BLOCK_STEP * BLOCK_STEP;

    if (most < BLOCK_STEP) most = BLOCK_STEP;
    if (rows <= most) return rows;
    int64_t blocks = (rows + most - 1) / most;
    int64_t each = (rows + blocks - 1) / blocks;
    return (each + BLOCK_STEP - 1) / BLOCK_STEP * BLOCK_STEP;
}
