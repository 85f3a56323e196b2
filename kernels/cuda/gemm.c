/* gemm.c - chooses a cuBLASLt algorithm for each shape and runs it.
 *
 * Candidates are algorithms with the same bits on every run and all sums in f32: where the reduction
 * is split, its parts go to workspace in f32 and a kernel adds them in fixed order. */
#include "kernels/cuda/gemm.h"
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"

enum { MAX_CANDIDATES = 16, ALGO_WORDS = sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t) };

struct GemmPlan {
    Gemm g;
    GemmPlan *next;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, d; /* in cuBLASLt's order: its a is the caller's B */
    cublasLtMatmulAlgo_t algo;
    bool apart; /* the epilogue is a kernel of ours, before or after */
    GemmTimes times;
};

static TideStatus failed(Device *d, cublasStatus_t status, const char *what, const Gemm *g)
{
    if (!status) return TIDE_OK;
    return cuda_fail(d, TIDE_DEVICE, "%s of a GEMM [%lld, %lld] over %lld: %s", what, (long long)g->rows,
                     (long long)g->cols, (long long)g->inner, cublasLtGetStatusString(status));
}

/* ---- Descriptors ---------------------------------------------------------------- */

static cudaDataType_t data_type(int32_t type)
{
    static const cudaDataType_t types[TIDE_TYPE_COUNT] = {
        [TIDE_F32] = CUDA_R_32F, [TIDE_BF16] = CUDA_R_16BF, [TIDE_F16] = CUDA_R_16F, [TIDE_I32] = CUDA_R_32I
    };
    return types[type];
}

static TideStatus set(Device *d, GemmPlan *p, cublasLtMatmulDescAttributes_t what, const void *value,
                      size_t bytes)
{
    return failed(d, cublasLtMatmulDescSetAttribute(p->op, what, value, bytes), "an attribute", &p->g);
}

/* The epilogue that cuBLASLt runs, and where its bias lies. */
static TideStatus set_epilogue(Device *d, GemmPlan *p, const GemmCall *c)
{
    static const cublasLtEpilogue_t epilogues[] = { [GEMM_PLAIN] = CUBLASLT_EPILOGUE_DEFAULT,
                                                    [GEMM_BIAS] = CUBLASLT_EPILOGUE_BIAS,
                                                    [GEMM_BIAS_GRAD] = CUBLASLT_EPILOGUE_BGRADB };
    cublasLtEpilogue_t epilogue = p->apart ? CUBLASLT_EPILOGUE_DEFAULT : epilogues[p->g.epilogue];

    TRY(set(d, p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (epilogue == CUBLASLT_EPILOGUE_DEFAULT) return TIDE_OK;
    cudaDataType_t type = data_type(p->g.bias);
    TRY(set(d, p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type));
    return set(d, p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &c->bias, sizeof c->bias);
}

/* Row-major [rows, cols] is column-major [cols, rows]. */
static TideStatus layout(Device *d, const Gemm *g, int32_t type, const int64_t *shape,
                         cublasLtMatrixLayout_t *out)
{
    cublasStatus_t status =
        cublasLtMatrixLayoutCreate(out, data_type(type), (uint64_t)shape[1], (uint64_t)shape[0], shape[1]);

    return failed(d, status, "a layout", g);
}

static TideStatus describe(Device *d, GemmPlan *p)
{
    const Gemm *g = &p->g;
    cublasOperation_t op_a = g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_b = g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasComputeType_t compute =
        g->in == TIDE_F32 && d->options.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    int64_t a[] = { g->transpose_b ? g->cols : g->inner, g->transpose_b ? g->inner : g->cols };
    int64_t b[] = { g->transpose_a ? g->inner : g->rows, g->transpose_a ? g->rows : g->inner };
    int64_t out[] = { g->rows, g->cols };

    TRY(failed(d, cublasLtMatmulDescCreate(&p->op, compute, CUDA_R_32F), "the descriptor", g));
    TRY(set(d, p, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a));
    TRY(set(d, p, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b));
    TRY(layout(d, g, g->in, a, &p->a));
    TRY(layout(d, g, g->in, b, &p->b));
    return layout(d, g, g->out, out, &p->d);
}

static void plan_free(GemmPlan *p)
{
    if (p->op) cublasLtMatmulDescDestroy(p->op);
    if (p->a) cublasLtMatrixLayoutDestroy(p->a);
    if (p->b) cublasLtMatrixLayoutDestroy(p->b);
    if (p->d) cublasLtMatrixLayoutDestroy(p->d);
    free(p);
}

void gemm_plans_free(GemmPlan *list)
{
    while (list) {
        GemmPlan *next = list->next;
        plan_free(list);
        list = next;
    }
}

/* ---- Running ---------------------------------------------------------------------- */

static TideStatus enqueue(Device *d, GemmPlan *p, const GemmCall *c)
{
    bool bias_first = p->apart && p->g.epilogue == GEMM_BIAS;
    float one = 1, beta = p->g.add || bias_first ? 1 : 0;

    if (bias_first) TRY(gemm_bias_rows(d, &p->g, c));
    TRY(set_epilogue(d, p, c));
    TRY(failed(d,
               cublasLtMatmul(cuda_libs(d)->blaslt, p->op, &one, c->b, p->a, c->a, p->b, &beta, c->d, p->d,
                              c->d, p->d, &p->algo, c->scratch, GEMM_SCRATCH_BYTES, c->stream),
               "cublasLtMatmul", &p->g));
    if (p->apart && p->g.epilogue == GEMM_BIAS_GRAD) return gemm_bias_sums(d, &p->g, c);
    return TIDE_OK;
}

/* ---- Candidates ---------------------------------------------------------------------- */

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
                                                preference, MAX_CANDIDATES, out, n);
    if (preference) cublasLtMatmulPreferenceDestroy(preference);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
        *n = 0;
        return TIDE_OK;
    }
    return failed(d, status, "heuristics", &p->g);
}

/* A search for the fastest candidate; without timing the first one is taken. */
typedef struct Search {
    Device *d;
    GemmPlan *p;
    const GemmCall *c;
    bool timing;
    cublasLtMatmulAlgo_t best;
    bool best_apart;
} Search;

static TideStatus run_trial(void *what)
{
    Search *s = what;

    return enqueue(s->d, s->p, s->c);
}

static void take(Search *s, double seconds)
{
    s->best = s->p->algo;
    s->best_apart = s->p->apart;
    s->p->times.chosen = seconds;
}

/* Try what the library proposes with its own epilogue, or with ours apart from it. */
static TideStatus search(Search *s, bool apart)
{
    cublasLtMatmulHeuristicResult_t found[MAX_CANDIDATES];
    GemmTimes *times = &s->p->times;
    int n = 0;

    s->p->apart = apart;
    TRY(set_epilogue(s->d, s->p, s->c));
    TRY(heuristics(s->d, s->p, found, &n));
    for (int i = 0; i < n; i++) {
        CudaCandidate candidate = { run_trial, s, s->c->stream, times->chosen };
        double seconds = 0;
        s->p->algo = found[i].algo;
        if (found[i].state != CUBLAS_STATUS_SUCCESS || (!s->timing && times->candidates)) continue;
        if (s->timing && cuda_time(s->d, &candidate, &seconds)) { /* proposed, but refused */
            (void)cudaGetLastError();
            continue;
        }
        if (!times->candidates++) times->first = seconds;
        if (times->candidates == 1 || seconds < times->chosen) take(s, seconds);
    }
    return TIDE_OK;
}

/* The library adds no bias gradients to others, and writes them in the type of D. */
static bool may_be_fused(const Gemm *g)
{
    return g->epilogue != GEMM_BIAS_GRAD || (!g->add_bias && g->bias == g->out);
}

/* wish: of the user, for bias gradients; NULL: none. */
static TideStatus choose(Search *s, const char *wish)
{
    GemmPlan *p = s->p;
    bool gradient = p->g.epilogue == GEMM_BIAS_GRAD;
    bool apart_only = gradient && wish && strcmp(wish, "apart") == 0;

    if (may_be_fused(&p->g) && !apart_only) TRY(search(s, false));
    bool fused_only = gradient && wish && strcmp(wish, "fused") == 0 && p->times.candidates;
    bool fused_none = p->g.epilogue == GEMM_BIAS && !p->times.candidates;
    if ((gradient && !fused_only) || fused_none) TRY(search(s, true));
    if (!p->times.candidates) return failed(s->d, CUBLAS_STATUS_NOT_SUPPORTED, "algorithms", &p->g);
    p->algo = s->best;
    p->apart = p->times.apart = s->best_apart;
    return TIDE_OK;
}

/* ---- The record ---------------------------------------------------------------------- */

static void make_key(const Device *d, const Gemm *g, char *key, size_t size)
{
    static const char *const epilogues[] = { "plain", "bias", "bias_grad" };

    snprintf(key, size, "gemm %s>%s,%s %lldx%lldx%lld %c%c %s%s%s align %d,%d,%d%s",
             type_name((TideType)g->in), type_name((TideType)g->out), type_name((TideType)g->bias),
             (long long)g->rows, (long long)g->cols, (long long)g->inner, g->transpose_a ? 't' : 'n',
             g->transpose_b ? 't' : 'n', epilogues[g->epilogue], g->add ? " add" : "",
             g->add_bias ? " add_bias" : "", g->align_a, g->align_b, g->align_d,
             g->in == TIDE_F32 && d->options.tf32 ? " tf32" : "");
}

/* "fused" or "apart", then the words of the algorithm, which the library allows to be stored. */
static void make_value(const GemmPlan *p, char *value, size_t size)
{
    int n = snprintf(value, size, "%s", p->apart ? "apart" : "fused");

    for (int i = 0; i < ALGO_WORDS; i++)
        n += snprintf(value + n, size - (size_t)n, " %llx", (unsigned long long)p->algo.data[i]);
}

/* Take a recorded choice; false if it is no such choice or this library refuses it. */
static bool read_value(Device *d, GemmPlan *p, const GemmCall *c, const char *value)
{
    cublasLtMatmulHeuristicResult_t result;

    p->apart = p->times.apart = strncmp(value, "apart ", 6) == 0;
    if (!p->apart && strncmp(value, "fused ", 6) != 0) return false;
    const char *at = value + 6;
    for (int i = 0; i < ALGO_WORDS; i++) {
        char *end = NULL;
        p->algo.data[i] = strtoull(at, &end, 16);
        if (end == at) return false;
        at = end;
    }
    if ((!p->apart && !may_be_fused(&p->g)) || set_epilogue(d, p, c)) return false;
    cublasStatus_t status =
        cublasLtMatmulAlgoCheck(cuda_libs(d)->blaslt, p->op, p->a, p->b, p->d, p->d, &p->algo, &result);
    return !status && result.workspaceSize <= GEMM_SCRATCH_BYTES;
}

/* Adopt the recorded choice, or make one and record it. */
static TideStatus settle(Device *d, GemmPlan *p, const GemmCall *c, bool timing)
{
    Numerics *record = &cuda_libs(d)->numerics;
    const char *wish = p->g.epilogue == GEMM_BIAS_GRAD ? numerics_wish(record, "bias_grad") : NULL;
    Search s = { .d = d, .p = p, .c = c, .timing = timing };
    char key[NUMERICS_KEY_BYTES], value[NUMERICS_VALUE_BYTES];

    make_key(d, &p->g, key, sizeof key);
    const char *recorded = numerics_use(record, key, wish);
    if (recorded && !read_value(d, p, c, recorded))
        return cuda_fail(
            d, TIDE_BAD_FILE,
            "numerics record: the choice for \"%s\" cannot be honoured by this cuBLASLt; remove the "
            "record or plan anew",
            key);
    if (recorded) return TIDE_OK;
    TRY(choose(&s, wish));
    make_value(p, value, sizeof value);
    if (!numerics_add(record, key, value, wish ? CHOICE_GIVEN : timing ? CHOICE_TIMED : CHOICE_FIRST))
        return cuda_fail(d, TIDE_NO_MEMORY, "no memory for the numerics record");
    (void)numerics_use(record, key, wish); /* from here on it stands */
    return TIDE_OK;
}

/* ---- Plans ---------------------------------------------------------------------------- */

static GemmPlan *find(const Device *d, const Gemm *g)
{
    GemmPlan *p = cuda_libs(d)->gemms;

    while (p && memcmp(&p->g, g, sizeof *g) != 0) p = p->next;
    return p;
}

static TideStatus plan_new(Device *d, const Gemm *g, const GemmCall *c, bool timing)
{
    GemmPlan *p = calloc(1, sizeof *p);

    if (!p) return cuda_fail(d, TIDE_NO_MEMORY, "no memory for the plan of a GEMM");
    memcpy(&p->g, g, sizeof *g);
    TideStatus status = describe(d, p);
    if (!status) status = settle(d, p, c, timing);
    if (status) {
        plan_free(p);
        return status;
    }
    p->next = cuda_libs(d)->gemms;
    cuda_libs(d)->gemms = p;
    return TIDE_OK;
}

TideStatus gemm_prepare(Device *d, const Gemm *g, const GemmCall *c)
{
    size_t out_bytes = (size_t)(g->rows * g->cols) * type_bytes((TideType)g->out);
    CudaArray a = { (void *)(uintptr_t)c->a, g->rows * g->inner, (TideType)g->in };
    CudaArray b = { (void *)(uintptr_t)c->b, g->inner * g->cols, (TideType)g->in };
    CudaArray bias = { c->bias, g->epilogue == GEMM_BIAS ? g->cols : 0, (TideType)g->bias };

    if (find(d, g)) return TIDE_OK;
    TRY(cuda_random(d, c->stream, a));
    TRY(cuda_random(d, c->stream, b));
    TRY(cuda_random(d, c->stream, bias));
    TRY(cuda_check(d, cudaMemsetAsync(c->d, 0, out_bytes, c->stream), "cudaMemsetAsync"));
    TRY(plan_new(d, g, c, true));
    return cuda_check(d, cudaStreamSynchronize(c->stream), "choosing a GEMM algorithm");
}

TideStatus gemm_run(Device *d, const Gemm *g, const GemmCall *c)
{
    GemmPlan *p = find(d, g);

    if (!p) {
        TRY(plan_new(d, g, c, false));
        p = cuda_libs(d)->gemms;
    }
    return enqueue(d, p, c);
}

bool gemm_times(Device *d, const Gemm *g, GemmTimes *out)
{
    const GemmPlan *p = find(d, g);

    if (p) *out = p->times;
    return p != NULL;
}
