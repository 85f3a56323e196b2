/* embedding_grad.cu - rows of dy added to the rows of their tokens and of their positions.
 *
 * The positions are sorted by token and cut into chunks of equal length, so that a token which is
 * everywhere costs no more than others. A block sums the runs of equal tokens in its chunk: a run
 * that lies inside is added to the table, one that crosses the border leaves a part in scratch, and
 * a second kernel adds the parts in order. */
#include "kernels/cuda/token_sort.cuh"

constexpr int CHUNK = 32, IN_FLIGHT = 8, JOIN = 8;
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

static size_t scratch(const Node *, const Tensor *const *in, const Tensor *const *out)
{
    int64_t n = shape_elements(in[0]->shape);

    if (!out[0]) return 0;
    return (size_t)(n_chunks(n) * 2 * shape_width(in[1]->shape) + sort_words(n, out[0]->shape.dim[0])) *
           sizeof(float);
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

template <int N, typename T, typename G>
static __global__ void __launch_bounds__(BLOCK) sum_runs(Job<T, G> j)
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

/* Runs that begin in this chunk and go on in the next. Warp w of JOIN sums every JOIN-th part for a
 * warp's columns, then the warps' sums are added in order. */
template <int N, typename T, typename G>
static __global__ void __launch_bounds__(JOIN *WARP) join_runs(Job<T, G> j)
{
    __shared__ float shared[JOIN][WARP * N];
    int64_t first = (int64_t)blockIdx.x * CHUNK, last = first + CHUNK - 1;
    const uint32_t *keys = j.sorted.keys;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;

    if (last + 1 >= j.n || keys[last + 1] != keys[last] || keys[last] >= j.vocab) return;
    if (first > 0 && keys[first - 1] == keys[last]) return; /* it began before */
    int follow = chunks_that_follow(j.sorted, keys[last], j.n);

    for (int start = 0; start < j.width; start += WARP * N) {
        int at = start + lane * N;
        const float *part = j.parts + (int64_t)blockIdx.x * 2 * j.width + at;
        float sum[N] = {}, more[N];
#pragma unroll 4
        for (int f = warp; f <= follow && at < j.width; f += JOIN) { /* 0: what this chunk left */
            load_floats(more, part + (f ? (int64_t)f * 2 : 1) * j.width);
#pragma unroll
            for (int k = 0; k < N; k++) sum[k] += more[k];
        }
        store_floats(&shared[warp][lane * N], sum);
        __syncthreads();
        if (warp == 0 && at < j.width) {
            for (int w = 1; w < JOIN; w++) {
#pragma unroll
                for (int k = 0; k < N; k++) sum[k] += shared[w][lane * N + k];
            }
            put<N>(j.table + (int64_t)keys[last] * j.width + at, sum, j.add);
        }
        __syncthreads();
    }
}

/* ---- The positions, and rows that no token names ------------------------------------------ */

constexpr int CLEAR = 8; /* packs of 16 bytes that a thread clears */

/* Work for blocks of SORT_BLOCK: first positions [Tmax, C] (+)= the sum over sequences of dy [B, T, C],
 * where rows from T on get nothing and each pack of N is a thread's; then zeros for the table. */
template <int N, typename T, typename P> struct Beside {
    P *positions; /* NULL: none */
    const T *dy;
    int64_t elements, packs; /* T * C, Tmax * C / N */
    int sequences;
    bool add;
    uint4 *table;  /* NULL: nothing to clear      */
    int64_t clear; /* whole packs of 16 bytes     */
    int tail;      /* bytes of its end behind them */

    int64_t position_blocks() const { return positions ? (packs + SORT_BLOCK - 1) / SORT_BLOCK : 0; }
    int64_t blocks() const { return position_blocks() + (table ? clear / (SORT_BLOCK * CLEAR) + 1 : 0); }

    __device__ void sum_positions(int64_t thread) const
    {
        int64_t i = thread * N;
        float sum[N] = {};
        int rows = i < elements ? sequences : 0;

        if (thread >= packs) return;
#pragma unroll 8
        for (int b = 0; b < rows; b++) {
            Pack<T, N> more = load<N>(dy + b * elements + i);
#pragma unroll
            for (int k = 0; k < N; k++) sum[k] += to_float(more.v[k]);
        }
        put<N>(positions + i, sum, add);
    }

    __device__ void operator()(int64_t block) const
    {
        int64_t before = positions ? (packs + SORT_BLOCK - 1) / SORT_BLOCK : 0;

        if (block < before) {
            sum_positions(block * SORT_BLOCK + threadIdx.x);
            return;
        }
#pragma unroll
        for (int k = 0; k < CLEAR; k++) {
            int64_t i = ((block - before) * CLEAR + k) * SORT_BLOCK + threadIdx.x;
            if (i < clear) table[i] = make_uint4(0, 0, 0, 0);
            for (int b = 0; i == clear && b < tail; b++) ((char *)(table + i))[b] = 0;
        }
    }
};

/* ---- Launching -------------------------------------------------------------------------- */

template <int N, typename T, typename P> static Beside<N, T, P> beside(const KernelCall *c)
{
    Beside<N, T, P> w = {};

    w.dy = (const T *)c->in[1];
    w.sequences = (int)c->in_info[0]->shape.dim[0];
    w.elements = shape_elements(c->in_info[1]->shape) / w.sequences;
    w.add = c->in[3] != NULL;
    if (c->out[1]) {
        w.positions = (P *)c->out[1];
        w.packs = shape_elements(c->out_info[1]->shape) / N;
    }
    if (c->out[0] && !c->in[2]) {
        w.table = (uint4 *)c->out[0];
        w.clear = (int64_t)(c->out_info[0]->bytes / sizeof(uint4));
        w.tail = (int)(c->out_info[0]->bytes % sizeof(uint4));
    }
    return w;
}

/* Without a table there is nothing to sort. */
template <int N, typename T, typename P>
static __global__ void __launch_bounds__(SORT_BLOCK) positions_alone(Beside<N, T, P> work)
{
    work(blockIdx.x);
}

template <int N, typename T, typename G, typename P> static void launch_packs(const KernelCall *c)
{
    Beside<N, T, P> work = beside<N, T, P>(c);
    Job<T, G> j = {};

    if (!c->out[0]) {
        positions_alone<<<(unsigned)work.blocks(), SORT_BLOCK, 0, cuda_stream(c)>>>(work);
        return;
    }
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
    j.sorted =
        sort_tokens(cuda_stream(c), (const int32_t *)c->in[0], j.n, j.vocab, words, work, work.blocks());
    sum_runs<N><<<chunks, threads, 0, cuda_stream(c)>>>(j);
    join_runs<N><<<chunks, JOIN * WARP, 0, cuda_stream(c)>>>(j);
}

template <typename T, typename G, typename P> static void launch(const KernelCall *c)
{
    if (in_packs<T>(shape_width(c->in_info[1]->shape)))
        launch_packs<PACK<T>, T, G, P>(c);
    else
        launch_packs<1, T, G, P>(c);
}

/* By type of dy, and whether the gradients of the table and of the positions are f32 or of dy's type. */
static void (*const launch_of[3][2][2])(const KernelCall *) = {
    { { launch<float, float, float>, launch<float, float, float> },
      { launch<float, float, float>, launch<float, float, float> } },
    { { launch<bf16, bf16, bf16>, launch<bf16, bf16, float> },
      { launch<bf16, float, bf16>, launch<bf16, float, float> } },
    { { launch<f16, f16, f16>, launch<f16, f16, float> },
      { launch<f16, float, f16>, launch<f16, float, float> } },
};

static bool is_f32(const KernelCall *c, int output)
{
    return c->out[output] && c->out_info[output]->type == TIDE_F32;
}

static TideStatus run(const KernelCall *c)
{
    if (c->out[0] || c->out[1]) launch_of[c->in_info[1]->type][is_f32(c, 0)][is_f32(c, 1)](c);
    return cuda_launched(c);
}

const Kernel cuda_embedding_grad = { .run = run, .scratch = scratch };
