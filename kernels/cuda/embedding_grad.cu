/* embedding_grad.cu - rows of dy added to the rows of their tokens and of their positions.
 *
 * The positions are sorted by token and cut into chunks of equal length, so that a token which is
 * everywhere costs no more than others. A block sums the runs of equal tokens in its chunk: a run
 * that lies inside is added to the table, one that crosses the border leaves a part in scratch, and
 * a second kernel adds the parts in order. */
#include "kernels/cuda/token_sort.cuh"

constexpr int CHUNK = 64, IN_FLIGHT = 8;
constexpr uint32_t NO_KEY = ~0u;

/* T: type of dy, G: of the gradient. */
template <typename T, typename G> struct Job {
    G *table;      /* [V, C] */
    float *parts;  /* [chunks, 2, C]: of the run that came from the chunk before, of the run that goes on */
    const T *dy;   /* [n, C] */
    Sorted sorted; /* [n]   */
    int64_t n, vocab;
    int width;
    bool add;
};

static int64_t n_chunks(int64_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

static size_t scratch(const Node *, const Tensor *const *in, const Tensor *const *)
{
    int64_t n = shape_elements(in[0]->shape);

    return (size_t)(n_chunks(n) * 2 * shape_width(in[1]->shape) + sort_words(n)) * sizeof(float);
}

/* to (+)= sum, N neighbours. */
template <int N, typename G> __device__ __forceinline__ void put(G *to, const float (&sum)[N], bool add)
{
    float value[N] = {};

    if (add) load_floats(value, to);
#pragma unroll
    for (int k = 0; k < N; k++) value[k] += sum[k];
    store_floats(to, value);
}

/* ---- The table ------------------------------------------------------------------------ */

/* A chunk's keys with a neighbour on either side, and where its rows are. */
struct Chunk {
    uint32_t key[CHUNK + 2]; /* key[1 + i] is that of entry i; NO_KEY outside */
    uint32_t row[CHUNK];
};

static __device__ void read_chunk(Chunk &c, const Sorted &sorted, int64_t first, int64_t n)
{
    for (int i = threadIdx.x; i < CHUNK + 2; i += blockDim.x) {
        int64_t at = first + i - 1;
        c.key[i] = at >= 0 && at < n ? sorted.keys[at] : NO_KEY;
    }
    for (int i = threadIdx.x; i < CHUNK; i += blockDim.x)
        c.row[i] = first + i < n ? sorted.order[first + i] : 0;
    __syncthreads();
}

/* The sum of the run that ends with entry i of the chunk, at column `at`. */
template <int N, typename T, typename G>
__device__ __forceinline__ void put_run(const Job<T, G> &j, const Chunk &c, int i, bool came, int at,
                                        const float (&sum)[N])
{
    uint32_t key = c.key[i + 1];
    float *part = j.parts + (int64_t)blockIdx.x * 2 * j.width + at;

    if (key >= j.vocab) return; /* no token of the table */
    if (came)
        store_floats(part, sum);
    else if (c.key[i + 2] == key)
        store_floats(part + j.width, sum);
    else
        put<N>(j.table + (int64_t)key * j.width + at, sum, j.add);
}

template <int N, typename T, typename G> static __global__ void __launch_bounds__(BLOCK) sum_runs(Job<T, G> j)
{
    __shared__ Chunk c;
    int64_t first = (int64_t)blockIdx.x * CHUNK;
    int count = j.n - first < CHUNK ? (int)(j.n - first) : CHUNK;

    read_chunk(c, j.sorted, first, j.n);
    for (int at = threadIdx.x * N; at < j.width; at += blockDim.x * N) {
        float sum[N] = {};
        bool came = c.key[0] == c.key[1];
        for (int begin = 0; begin < count; begin += IN_FLIGHT) {
            Pack<T, N> dy[IN_FLIGHT];
#pragma unroll
            for (int u = 0; u < IN_FLIGHT; u++)
                if (begin + u < count) dy[u] = load<N>(j.dy + (int64_t)c.row[begin + u] * j.width + at);
#pragma unroll
            for (int u = 0; u < IN_FLIGHT; u++) {
                int i = begin + u;
                if (i >= count) continue;
#pragma unroll
                for (int k = 0; k < N; k++) sum[k] += to_float(dy[u].v[k]);
                if (c.key[i + 2] == c.key[i + 1] && i + 1 < count) continue;
                put_run(j, c, i, came, at, sum);
                came = false;
#pragma unroll
                for (int k = 0; k < N; k++) sum[k] = 0;
            }
        }
    }
}

/* How many chunks after this one begin with the key. The same for all threads of the block. */
static __device__ int chunks_that_follow(const Sorted &sorted, uint32_t key, int64_t n)
{
    int64_t chunk = (int64_t)blockIdx.x + 1 + threadIdx.x;
    int sum = 0, found;

    do {
        found = __syncthreads_count(chunk * CHUNK < n && sorted.keys[chunk * CHUNK] == key);
        sum += found;
        chunk += blockDim.x;
    } while (found == (int)blockDim.x);
    return sum;
}

/* Runs that begin in this chunk and go on in the next. */
template <int N, typename T, typename G>
static __global__ void __launch_bounds__(BLOCK) join_runs(Job<T, G> j)
{
    int64_t first = (int64_t)blockIdx.x * CHUNK, last = first + CHUNK - 1;
    const uint32_t *keys = j.sorted.keys;

    if (last + 1 >= j.n || keys[last + 1] != keys[last] || keys[last] >= j.vocab) return;
    if (first > 0 && keys[first - 1] == keys[last]) return; /* it began before */
    int follow = chunks_that_follow(j.sorted, keys[last], j.n);

    for (int at = threadIdx.x * N; at < j.width; at += blockDim.x * N) {
        const float *part = j.parts + (int64_t)blockIdx.x * 2 * j.width + at;
        float sum[N], more[N];
        load_floats(sum, part + j.width);
#pragma unroll 4
        for (int f = 1; f <= follow; f++) {
            load_floats(more, part + (int64_t)f * 2 * j.width);
#pragma unroll
            for (int k = 0; k < N; k++) sum[k] += more[k];
        }
        put<N>(j.table + (int64_t)keys[last] * j.width + at, sum, j.add);
    }
}

/* ---- The positions -------------------------------------------------------------------- */

/* positions [Tmax, C] (+)= the sum over sequences of dy [B, T, C]; rows from T on get nothing. packs
 * [Tmax, C] are a thread each, elements = T * C. */
template <int N, typename T, typename G>
static __global__ void __launch_bounds__(BLOCK)
    sum_positions(G *positions, const T *dy, int B, int64_t elements, int64_t packs, bool add)
{
    int64_t thread = (int64_t)blockIdx.x * BLOCK + threadIdx.x, i = thread * N;
    float sum[N] = {}, more[N];

    if (thread >= packs) return;
    int rows = i < elements ? B : 0;
#pragma unroll 8
    for (int b = 0; b < rows; b++) {
        load_floats(more, dy + b * elements + i);
#pragma unroll
        for (int k = 0; k < N; k++) sum[k] += more[k];
    }
    put<N>(positions + i, sum, add);
}

/* ---- Launching -------------------------------------------------------------------------- */

template <int N, typename T, typename G> static void launch_table(const KernelCall *c)
{
    Job<T, G> j = {};

    j.table = (G *)c->out[0];
    j.dy = (const T *)c->in[1];
    j.n = shape_elements(c->in_info[0]->shape);
    j.vocab = c->out_info[0]->shape.dim[0];
    j.width = (int)shape_width(c->in_info[1]->shape);
    j.add = c->in[2] != NULL;
    j.parts = (float *)c->scratch;
    unsigned chunks = (unsigned)n_chunks(j.n), threads = blocks_for(j.width / N, WARP) * WARP;
    uint32_t *words = (uint32_t *)c->scratch + (int64_t)chunks * 2 * j.width;

    if (threads > BLOCK) threads = BLOCK;
    if (!j.add)
        cudaMemsetAsync(j.table, 0, c->out_info[0]->bytes, cuda_stream(c)); /* rows that no token names */
    j.sorted = sort_tokens(cuda_stream(c), (const int32_t *)c->in[0], j.n, j.vocab, words);
    sum_runs<N><<<chunks, threads, 0, cuda_stream(c)>>>(j);
    join_runs<N><<<chunks, threads, 0, cuda_stream(c)>>>(j);
}

template <int N, typename T, typename G> static void launch_positions(const KernelCall *c)
{
    int sequences = (int)c->in_info[0]->shape.dim[0];
    int64_t elements = shape_elements(c->in_info[1]->shape) / sequences;
    int64_t packs = shape_elements(c->out_info[1]->shape) / N;

    sum_positions<N><<<blocks_for(packs), BLOCK, 0, cuda_stream(c)>>>(
        (G *)c->out[1], (const T *)c->in[1], sequences, elements, packs, c->in[3] != NULL);
}

template <typename T, typename G, int OUTPUT> static void launch(const KernelCall *c)
{
    bool packs = in_packs<T>(shape_width(c->in_info[1]->shape));

    if constexpr (OUTPUT == 0)
        packs ? launch_table<PACK<T>, T, G>(c) : launch_table<1, T, G>(c);
    else
        packs ? launch_positions<PACK<T>, T, G>(c) : launch_positions<1, T, G>(c);
}

/* By type of dy, whether the gradient is f32, and output: a gradient is f32 or of dy's type. */
static void (*const launch_of[3][2][2])(const KernelCall *) = {
    { { launch<float, float, 0>, launch<float, float, 1> },
      { launch<float, float, 0>, launch<float, float, 1> } },
    { { launch<bf16, bf16, 0>, launch<bf16, bf16, 1> }, { launch<bf16, float, 0>, launch<bf16, float, 1> } },
    { { launch<f16, f16, 0>, launch<f16, f16, 1> }, { launch<f16, float, 0>, launch<f16, float, 1> } },
};

static TideStatus run(const KernelCall *c)
{
    for (int i = 0; i < 2; i++)
        if (c->out[i]) launch_of[c->in_info[1]->type][c->out_info[i]->type == TIDE_F32][i](c);
    return cuda_launched(c);
}

const Kernel cuda_embedding_grad = { .run = run, .scratch = scratch };
