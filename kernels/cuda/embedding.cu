/* embedding.cu - y[b, t] = table[tokens[b, t]] + positions[t], a thread for each pack. */
#include "kernels/cuda/cuda_common.cuh"

template <typename T> struct Embedding {
    T *y;                       /* [B, T, C]            */
    const int32_t *tokens;      /* [B, T]               */
    const T *table, *positions; /* [V, C]; [Tmax, C] or NULL */
    int64_t rows, vocab;
    int time, width; /* T, C */
};

/* A token outside the table reads no memory: its row counts as 0. */
template <typename T, int N>
static __global__ void __launch_bounds__(BLOCK) embedding(Embedding<T> j, unsigned packs)
{
    /* Below 2^32 on every GPU: that many packs are 64 GiB of y. 64-bit divisions would cost more
     * than the memory does. */
    unsigned thread = blockIdx.x * BLOCK + threadIdx.x, r = thread / packs, t = r % (unsigned)j.time;
    int at = (int)(thread - r * packs) * N;
    float y[N] = {}, position[N] = {};

    if (r >= j.rows) return;
    int32_t token = j.tokens[r];
    if (j.positions) load_floats(position, j.positions + (int64_t)t * j.width + at);
    if (token >= 0 && token < j.vocab) load_floats(y, j.table + (int64_t)token * j.width + at);
#pragma unroll
    for (int k = 0; k < N; k++) y[k] += position[k];
    store_floats(j.y + (int64_t)r * j.width + at, y);
}

template <typename T, int N> static void launch_packs(const KernelCall *c, const Embedding<T> &j)
{
    unsigned packs = (unsigned)(j.width / N);

    embedding<T, N><<<blocks_for(j.rows * packs), BLOCK, 0, cuda_stream(c)>>>(j, packs);
}

template <typename T> static void launch(const KernelCall *c)
{
    TideShape tokens = c->in_info[0]->shape, table = c->in_info[1]->shape;
    Embedding<T> j = { (T *)c->out[0],      (const int32_t *)c->in[0], (const T *)c->in[1],
                       (const T *)c->in[2], shape_elements(tokens),    table.dim[0],
                       (int)tokens.dim[1],  (int)table.dim[1] };

    if (in_packs<T>(j.width))
        launch_packs<T, PACK<T>>(c, j);
    else
        launch_packs<T, 1>(c, j);
}

static void (*const launch_of[])(const KernelCall *) = { launch<float>, launch<bf16>, launch<f16> };

static TideStatus run(const KernelCall *c)
{
    launch_of[c->out_info[0]->type](c);
    return cuda_launched(c);
}

const Kernel cuda_embedding = { .run = run };
