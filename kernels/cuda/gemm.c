/* gemm.c - plans a product once for each shape, with the algorithm that the record names or that
 * gemm_search.c chooses, and runs it. */
#include "kernels/cuda/gemm_plan.h"
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"

enum { ALGO_WORDS = sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t) };

TideStatus gemm_check(Device *d, cublasStatus_t status, const char *what, const Gemm *g)
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
    return gemm_check(d, cublasLtMatmulDescSetAttribute(p->op, what, value, bytes), "an attribute", &p->g);
}

TideStatus gemm_set_epilogue(Device *d, GemmPlan *p, const GemmCall *c)
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

bool gemm_may_be_fused(const Gemm *g)
{
    return g->epilogue != GEMM_BIAS_GRAD || (!g->add_bias && g->bias == g->out);
}

/* Row-major [rows, cols] is column-major [cols, rows]. */
static TideStatus layout(Device *d, const Gemm *g, int32_t type, const int64_t *shape,
                         cublasLtMatrixLayout_t *out)
{
    cublasStatus_t status =
        cublasLtMatrixLayoutCreate(out, data_type(type), (uint64_t)shape[1], (uint64_t)shape[0], shape[1]);

    return gemm_check(d, status, "a layout", g);
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

    TRY(gemm_check(d, cublasLtMatmulDescCreate(&p->op, compute, CUDA_R_32F), "the descriptor", g));
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

TideStatus gemm_enqueue(Device *d, GemmPlan *p, const GemmCall *c)
{
    bool bias_first = p->apart && p->g.epilogue == GEMM_BIAS;
    float one = 1, beta = p->g.add || bias_first ? 1 : 0;

    if (bias_first) TRY(gemm_bias_rows(d, &p->g, c));
    TRY(gemm_set_epilogue(d, p, c));
    TRY(gemm_check(d,
                   cublasLtMatmul(cuda_libs(d)->blaslt, p->op, &one, c->b, p->a, c->a, p->b, &beta, c->d,
                                  p->d, c->d, p->d, &p->algo, c->scratch, GEMM_SCRATCH_BYTES, c->stream),
                   "cublasLtMatmul", &p->g));
    if (p->apart && p->g.epilogue == GEMM_BIAS_GRAD) return gemm_bias_sums(d, &p->g, c);
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

    p->apart = strncmp(value, "apart ", 6) == 0;
    if (!p->apart && strncmp(value, "fused ", 6) != 0) return false;
    const char *at = value + 6;
    for (int i = 0; i < ALGO_WORDS; i++) {
        char *end = NULL;
        p->algo.data[i] = strtoull(at, &end, 16);
        if (end == at) return false;
        at = end;
    }
    if ((!p->apart && !gemm_may_be_fused(&p->g)) || gemm_set_epilogue(d, p, c)) return false;
    cublasStatus_t status =
        cublasLtMatmulAlgoCheck(cuda_libs(d)->blaslt, p->op, p->a, p->b, p->d, p->d, &p->algo, &result);
    return !status && result.workspaceSize <= GEMM_SCRATCH_BYTES;
}

/* Adopt the recorded choice, or make one and record it. */
static TideStatus settle(Device *d, GemmPlan *p, const GemmCall *c, bool timing)
{
    Numerics *record = &cuda_libs(d)->numerics;
    const char *wish = p->g.epilogue == GEMM_BIAS_GRAD ? numerics_wish(record, "bias_grad") : NULL;
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
    TRY(gemm_choose(d, p, c, wish, timing));
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
    return gemm_enqueue(d, p, c);
}
