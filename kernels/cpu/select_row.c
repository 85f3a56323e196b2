/* select_row.c - copy the row that the step asks for. */
#include <string.h>
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/shape.h"

static TideStatus run(const KernelCall *c)
{
    const float *x = c->in[0]; /* [1, T, C] */
    const TideStepInfo *info = c->in[1];
    int64_t last = shape_rows(c->in_info[0]->shape) - 1, width = shape_width(c->in_info[0]->shape);
    int64_t row = info->row < 0 ? 0 : info->row > last ? last : info->row;

    memcpy(c->out[0], x + row * width, (size_t)width * sizeof *x);
    return TIDE_OK;
}

const Kernel cpu_select_row = { .run = run };
