/* gemm_search.c - which algorithms there are for a product, and which of them is fastest in a step.
 *
 * Candidates are algorithms with the same bits on every run and all sums in f32: where the reduction is
 * split, its parts go to workspace in f32 and a kernel adds them in fixed order. The library proposes up
 * to eight. For a large product more are made from those: other tiles, clusters and splits of the same
 * kernels, the most promising by a model of what an algorithm takes. On an H200 the best is often among
 * them, up to 20 % faster than what was proposed.
 *
 * They are timed against each other as they would run in a step: see cuda_race(). A device at its limit
 * of power slows some algorithms more than others, so that what is fastest after a rest is often not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/cuda/gemm_plan.h"
#include "runtime/base.h"

enum { PROPOSED = 16, VARIED = 56 };

/* Operations from which on the search for more than what is proposed pays. */
static const double large = 2e9;

/* Two medians this close are equal: the one that was proposed earlier is taken, so that noise changes
 * choices less often. */
static const double equal = 1.004;

typedef struct Candidate {
    cublasLtMatmulAlgo_t algo;
    bool apart;
    double seconds;
} Candidate;

enum { MOST_CANDIDATES = 2 * PROPOSED + VARIED };

typedef struct Search {
    Device *d;
    GemmPlan *p;
    const GemmCall *c;
    Candidate all[MOST_CANDIDATES];
    int n;
} Search;

/* ---- What the library proposes ---------------------------------------------------- */

static cublasStatus_t prefer(cublasLtMatmulPreference_t preference, const Gemm *g)
{
    uint64_t workspace = GEMM_SCRATCH_BYTES;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t align_a = (uint32_t)g->align_b, align_b = (uint32_t)g->align_a, align_d = (uint32_t)g->align_d;
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        const void *value;
        size_t bytes;
    } all[] = {
        { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace },
        { CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align_a, sizeof align_a },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align_b, sizeof align_b },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align_d, sizeof align_d },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align_d, sizeof align_d },
    };
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

    for (size_t i = 0; !status && i < sizeof all / sizeof *all; i++)
        status = cublasLtMatmulPreferenceSetAttribute(preference, all[i].what, all[i].value, all[i].bytes);
    return status;
}

/* What the library proposes for the plan's epilogue, best guess first; none where it has no kernel. */
static TideStatus heuristics(Device *d, GemmPlan *p, cublasLtMatmulHeuristicResult_t *out, int *n)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);

    *n = 0;
    if (!status) status = prefer(preference, &p->g);
    if (!status)
        status = cublasLtMatmulAlgoGetHeuristic(cuda_libs(d)->blaslt, p->op, p->a, p->b, p->d, p->d,
                                                preference, PROPOSED, out, n);
    if (preference) cublasLtMatmulPreferenceDestroy(preference);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
        *n = 0;
        return TIDE_OK;
    }
    return gemm_check(d, status, "heuristics", &p->g);
}

/* Add what is proposed with the library's own epilogue, or with ours apart from it. */
static TideStatus propose(Search *s, bool apart)
{
    cublasLtMatmulHeuristicResult_t found[PROPOSED];
    int n = 0;

    s->p->apart = apart;
    TRY(gemm_set_epilogue(s->d, s->p, s->c));
    TRY(heuristics(s->d, s->p, found, &n));
    for (int i = 0; i < n; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS)
            s->all[s->n++] = (Candidate){ .algo = found[i].algo, .apart = apart };
    return TIDE_OK;
}

/* ---- More of the same kernels ---------------------------------------------------------- */

/* Tiles of D as the library's header numbers them, in its order: columns of ours, then rows. Those that
 * were within 5 % of the best for some product of GPT-2 on an H200. */
typedef struct Tile {
    uint32_t id;
    int m, n;
} Tile;
static const Tile tiles[] = {
    { 20, 128, 128 },  { 405, 128, 136 }, { 406, 128, 144 }, { 407, 128, 152 }, { 29, 128, 160 },
    { 408, 128, 168 }, { 409, 128, 176 }, { 32, 128, 192 },  { 23, 128, 256 },  { 33, 128, 96 },
    { 402, 128, 104 }, { 403, 128, 112 }, { 404, 128, 120 }, { 28, 96, 128 },   { 165, 112, 128 },
    { 184, 144, 128 }, { 189, 152, 128 }, { 30, 160, 128 },  { 197, 168, 128 }, { 201, 176, 128 },
    { 31, 192, 128 },  { 24, 256, 128 },  { 248, 320, 128 }, { 208, 192, 64 },  { 456, 192, 80 },
    { 457, 192, 88 },  { 458, 192, 96 },  { 459, 192, 104 }, { 460, 192, 112 }, { 209, 192, 192 },
    { 151, 96, 192 },  { 495, 256, 96 },  { 21, 256, 64 },   { 247, 320, 64 },  { 19, 64, 256 },
    { 117, 64, 320 },  { 345, 64, 336 },  { 346, 64, 344 },
};
enum { TILES = sizeof tiles / sizeof *tiles };

/* Clusters of blocks that read each other's shared memory: 1x1, 2x1, 1x2, 2x2. */
typedef struct Cluster {
    uint16_t id;
    int m, n;
} Cluster;
static const Cluster clusters[] = { { 2, 1, 1 }, { 3, 2, 1 }, { 5, 1, 2 }, { 6, 2, 2 } };
enum { CLUSTERS = sizeof clusters / sizeof *clusters };

enum { MOST_SPLITS = 8, CUSTOM_OPTIONS = 8 };

typedef struct Shape {
    const Tile *tile;
    const Cluster *cluster;
    int splits; /* of the reduction */
    double cost;
} Shape;

static int64_t in_units(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit;
}

/* Proportional to the time: whole waves of blocks, each of which multiplies a tile and loads two strips
 * that do the more work the larger they are. The constants fit what was measured on an H200: the best of
 * 400 candidates, drawn for each of 46 products, was among the first tenth by this. */
static double cost_of(const Device *d, const Gemm *g, const Shape *s)
{
    const double strip = 28, start = 128;
    int64_t block = s->cluster->m * s->cluster->n;
    int64_t blocks = in_units(g->cols, (int64_t)s->tile->m * s->cluster->m) *
                     in_units(g->rows, (int64_t)s->tile->n * s->cluster->n) * block * s->splits;
    int64_t at_once = d->sms / block * block;
    double per_step = (double)s->tile->m * s->tile->n + strip * (s->tile->m + s->tile->n);

    return (double)in_units(blocks, at_once) * per_step * ((double)g->inner / s->splits + start);
}

static int by_cost(const void *a, const void *b)
{
    const Shape *x = a, *y = b;

    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    if (x->tile != y->tile) return x->tile < y->tile ? -1 : 1;
    if (x->cluster != y->cluster) return x->cluster < y->cluster ? -1 : 1;
    return x->splits - y->splits;
}

/* All shapes whose split parts fit the workspace, cheapest first. */
static int rank(const Search *s, Shape *out)
{
    const Gemm *g = &s->p->g;
    double parts = GEMM_SCRATCH_BYTES / ((double)g->rows * (double)g->cols * sizeof(float));
    int n = 0;

    for (int t = 0; t < TILES; t++)
        for (int c = 0; c < CLUSTERS; c++)
            for (int split = 1; split <= MOST_SPLITS && (split == 1 || split <= parts); split++) {
                out[n] = (Shape){ &tiles[t], &clusters[c], split, 0 };
                out[n].cost = cost_of(s->d, g, &out[n]);
                n++;
            }
    qsort(out, (size_t)n, sizeof *out, by_cost);
    return n;
}

static bool is_known(const Search *s, const Candidate *new)
{
    for (int i = 0; i < s->n; i++)
        if (s->all[i].apart == new->apart && memcmp(&s->all[i].algo, &new->algo, sizeof new->algo) == 0)
            return true;
    return false;
}

/* Add the variants of an algorithm with this shape that the library accepts. */
static void vary(Search *s, const Candidate *from, const Shape *shape, int most)
{
    const GemmPlan *p = s->p;
    uint32_t scheme =
        shape->splits > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
    cublasLtMatmulHeuristicResult_t facts;

    for (uint32_t option = 0; option < CUSTOM_OPTIONS && s->n < most; option++) {
        Candidate c = *from;
        const struct {
            cublasLtMatmulAlgoConfigAttributes_t what;
            const void *value;
            size_t bytes;
        } all[] = {
            { CUBLASLT_ALGO_CONFIG_TILE_ID, &shape->tile->id, sizeof shape->tile->id },
            { CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &shape->cluster->id, sizeof shape->cluster->id },
            { CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &shape->splits, sizeof shape->splits },
            { CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme },
            { CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, &option, sizeof option },
        };
        bool good = true;
        for (size_t i = 0; good && i < sizeof all / sizeof *all; i++)
            good = !cublasLtMatmulAlgoConfigSetAttribute(&c.algo, all[i].what, all[i].value, all[i].bytes);
        if (good &&
            !cublasLtMatmulAlgoCheck(cuda_libs(s->d)->blaslt, p->op, p->a, p->b, p->d, p->d, &c.algo,
                                     &facts) &&
            facts.workspaceSize <= GEMM_SCRATCH_BYTES && !is_known(s, &c))
            s->all[s->n++] = c;
    }
}

/* Add variants of what was proposed first for an epilogue: its kernels, other shapes. */
static TideStatus explore(Search *s, bool apart)
{
    int first = 0, most = s->n + VARIED;

    while (first < s->n && s->all[first].apart != apart) first++;
    if (first == s->n) return TIDE_OK;
    Shape *shapes = malloc((size_t)TILES * CLUSTERS * MOST_SPLITS * sizeof *shapes);
    if (!shapes) return cuda_fail(s->d, TIDE_NO_MEMORY, "no memory to choose a GEMM algorithm");
    s->p->apart = apart;
    TideStatus status = gemm_set_epilogue(s->d, s->p, s->c);
    int n = rank(s, shapes);
    for (int i = 0; !status && i < n && s->n < most; i++) vary(s, &s->all[first], &shapes[i], most);
    free(shapes);
    return status;
}

/* ---- The race ----------------------------------------------------------------------------- */

static TideStatus run_candidate(void *what, int i)
{
    Search *s = what;

    s->p->algo = s->all[i].algo;
    s->p->apart = s->all[i].apart;
    return gemm_enqueue(s->d, s->p, s->c);
}

/* What a step does between two products: it passes over memory. A is what it was before. */
static TideStatus pass_over_memory(void *what)
{
    const Search *s = what;
    const Gemm *g = &s->p->g;
    int64_t n = g->rows * g->inner, most = (int64_t)s->d->l2 / (int64_t)type_bytes((TideType)g->in);

    return cuda_random(s->d, s->c->stream,
                       (CudaArray){ (void *)(uintptr_t)s->c->a, n < most ? n : most, (TideType)g->in });
}

/* Heats with ever fewer candidates and ever longer bursts: only over some runs does it show how much power
 * an algorithm takes, and with it how far the device slows down. */
typedef struct Heat {
    int rounds, burst, keep;
} Heat;
static const Heat heats[] = { { 3, 1, 24 }, { 3, 3, 8 }, { 3, 6, 8 } };

/* A burst need not last longer: the limit of power is felt within a millisecond. */
static const double long_enough = 1e-3;

/* Runs of a burst, as far as it is known how long one takes. */
static int burst_of(const Search *s, const Heat *h)
{
    double shortest = INFINITY;

    for (int i = 0; i < s->n; i++) shortest = fmin(shortest, s->all[i].seconds);
    return shortest > 0 && shortest * h->burst > long_enough ? (int)ceil(long_enough / shortest) : h->burst;
}

/* Time all of the candidates; keep the fastest, in the order they had. */
static TideStatus run_heat(Search *s, const Heat *h)
{
    CudaRace r = { s->n, h->rounds, burst_of(s, h), run_candidate, pass_over_memory, s, s->c->stream };
    double seconds[MOST_CANDIDATES], sorted[MOST_CANDIDATES];
    int kept = 0;

    TRY(cuda_race(s->d, &r, seconds));
    memcpy(sorted, seconds, (size_t)s->n * sizeof *sorted);
    qsort(sorted, (size_t)s->n, sizeof *sorted, cuda_by_value);
    double limit = sorted[h->keep < s->n ? h->keep - 1 : s->n - 1];
    for (int i = 0; i < s->n && kept < h->keep; i++) {
        if (seconds[i] > limit || !isfinite(seconds[i])) continue;
        s->all[kept] = s->all[i];
        s->all[kept++].seconds = seconds[i];
    }
    s->n = kept;
    return TIDE_OK;
}

static TideStatus pick_fastest(Search *s)
{
    double best = INFINITY;
    int i = 0;

    for (size_t h = 0; s->n && h < sizeof heats / sizeof *heats; h++) TRY(run_heat(s, &heats[h]));
    for (int k = 0; k < s->n; k++) best = fmin(best, s->all[k].seconds);
    while (i < s->n && s->all[i].seconds > best * equal) i++;
    if (i < s->n) s->all[0] = s->all[i];
    return TIDE_OK;
}

/* ---- The choice --------------------------------------------------------------------------- */

/* Everything that may be chosen from. Bias gradients are summed apart unless the user wishes otherwise:
 * the library does no more in its epilogue than start a kernel for it, which takes twice as long as ours. */
static TideStatus find_candidates(Search *s, const char *wish, bool timing)
{
    const Gemm *g = &s->p->g;
    bool gradient = g->epilogue == GEMM_BIAS_GRAD, fused = !gradient || (wish && strcmp(wish, "fused") == 0);

    if (fused && gemm_may_be_fused(g)) TRY(propose(s, false));
    bool apart = g->epilogue != GEMM_PLAIN && !s->n;
    if (apart) TRY(propose(s, true));
    if (timing && 2.0 * (double)g->rows * (double)g->cols * (double)g->inner >= large) TRY(explore(s, apart));
    return TIDE_OK;
}

TideStatus gemm_choose(Device *d, GemmPlan *p, const GemmCall *c, const char *wish, bool timing)
{
    Search *s = calloc(1, sizeof *s);

    if (!s) return cuda_fail(d, TIDE_NO_MEMORY, "no memory to choose a GEMM algorithm");
    s->d = d;
    s->p = p;
    s->c = c;
    TideStatus status = find_candidates(s, wish, timing);
    if (!status && timing && s->n) status = pick_fastest(s);
    if (!status && !s->n) status = gemm_check(d, CUBLAS_STATUS_NOT_SUPPORTED, "algorithms", &p->g);
    if (!status) {
        p->algo = s->all[0].algo;
        p->apart = s->all[0].apart;
    }
    free(s);
    return status;
}
