/* attention_engines.c - which engine serves a shape of attention: the record's, else the fastest. */
#include "kernels/cuda/attention_engines.h"
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"

enum { MOST_NAMES = 2 }; /* cuDNN's first choices: each takes a second to compile */

static const char flash_name[] = "flash", cudnn_wish[] = "cudnn";

struct AttentionPlan {
    AttentionShape s;
    AttentionPlan *next;
    CudnnAttention *cudnn;         /* NULL: our own kernels serve */
    double seconds, flash_seconds; /* of the choice and of our own kernels; 0 if not timed */
};

static void plan_free(AttentionPlan *p)
{
    cudnn_attention_free(p->cudnn);
    free(p);
}

void attention_plans_free(AttentionPlan *list)
{
    while (list) {
        AttentionPlan *next = list->next;
        plan_free(list);
        list = next;
    }
}

/* ---- Scratch ----------------------------------------------------------------------- */

size_t attention_delta_bytes(const AttentionShape *s)
{
    return s->backward ? align_up((size_t)(s->batch * s->heads * s->tokens) * sizeof(float), 256) : 0;
}

size_t attention_scratch_bytes(const AttentionShape *s)
{
    size_t ours = attention_delta_bytes(s), cudnn = cudnn_attention_scratch_bytes(s);

    return cudnn > ours ? cudnn : ours;
}

/* ---- Running ------------------------------------------------------------------------ */

static TideStatus run_ours(Device *d, const AttentionCall *c)
{
    bool tensor_cores = flash_attention_serves(&c->s);

    if (!c->s.backward) return tensor_cores ? flash_attention(d, c) : plain_attention(d, c);
    TRY(attention_delta(d, c));
    return tensor_cores ? flash_attention_grad(d, c) : plain_attention_grad(d, c);
}

static TideStatus run_plan(Device *d, const AttentionPlan *p, const AttentionCall *c)
{
    return p->cudnn ? cudnn_attention_run(d, p->cudnn, c) : run_ours(d, c);
}

/* ---- Choosing ------------------------------------------------------------------------ */

typedef struct Trial {
    Device *d;
    const AttentionPlan *p;
    const AttentionCall *c;
} Trial;

static TideStatus run_trial(void *what)
{
    const Trial *t = what;

    return run_plan(t->d, t->p, t->c);
}

static TideStatus time_plan(Device *d, const AttentionPlan *p, const AttentionCall *c, double *seconds)
{
    Trial t = { d, p, c };
    CudaCandidate candidate = { run_trial, &t, c->stream, p->seconds };

    return cuda_time(d, &candidate, seconds);
}

/* Let the plan's engine be cuDNN's one of that name, if it is there and, when timing, faster. True if it
 * now is. */
static bool take_cudnn(Device *d, AttentionPlan *p, const AttentionCall *c, bool timing, const char *name)
{
    CudnnTarget here = { cuda_libs(d)->cudnn, NULL };
    char why[NUMERICS_VALUE_BYTES];
    AttentionPlan other = { .s = p->s, .seconds = p->seconds };
    double seconds = 0;

    other.cudnn = cudnn_attention_new(&here, &p->s, name, why);
    if (!other.cudnn) return false;
    bool refused = timing && time_plan(d, &other, c, &seconds);
    if (refused) (void)cudaGetLastError(); /* built, but it does not run */
    if (refused || (timing && p->seconds > 0 && seconds >= p->seconds)) {
        cudnn_attention_free(other.cudnn);
        return false;
    }
    cudnn_attention_free(p->cudnn);
    p->cudnn = other.cudnn;
    p->seconds = seconds;
    return true;
}

/* value [NUMERICS_VALUE_BYTES] gets the name of the choice. Without timing it is cuDNN's first. wish: of
 * the user; NULL: none. */
static TideStatus choose(Device *d, AttentionPlan *p, const AttentionCall *c, const char *wish, bool timing,
                         char *value)
{
    CudnnTarget here = { cuda_libs(d)->cudnn, NULL };
    CudnnName names[MOST_NAMES];
    char why[NUMERICS_VALUE_BYTES];
    bool may =
        here.handle && cudnn_attention_scratch_bytes(&p->s) && !(wish && strcmp(wish, flash_name) == 0);
    int n = may ? cudnn_attention_names(&here, &p->s, names, timing ? MOST_NAMES : 1, why) : 0;

    memcpy(value, flash_name, sizeof flash_name);
    if (timing && n && !(wish && strcmp(wish, cudnn_wish) == 0)) {
        TRY(time_plan(d, p, c, &p->flash_seconds));
        p->seconds = p->flash_seconds;
    }
    for (int i = 0; i < n; i++)
        if (take_cudnn(d, p, c, timing, names[i])) memcpy(value, names[i], sizeof names[i]);
    return TIDE_OK;
}

static void make_key(const AttentionShape *s, char *key, size_t size)
{
    snprintf(key, size, "attention%s %s batch %lld tokens %lld heads %d/%d of %d%s",
             s->backward ? "_grad" : "", type_name((TideType)s->type), (long long)s->batch,
             (long long)s->tokens, s->heads, s->kv_heads, s->head_dim, s->dropout ? " dropout" : "");
}

/* Adopt the recorded choice, or make one and record it. */
static TideStatus settle(Device *d, AttentionPlan *p, const AttentionCall *c, bool timing)
{
    Numerics *record = &cuda_libs(d)->numerics;
    CudnnTarget here = { cuda_libs(d)->cudnn, NULL };
    char key[NUMERICS_KEY_BYTES], value[NUMERICS_VALUE_BYTES], why[NUMERICS_VALUE_BYTES] = "no cuDNN here";

    make_key(&p->s, key, sizeof key);
    const char *wish = numerics_wish(record, "attention"), *recorded = numerics_use(record, key, wish);
    if (!recorded) {
        ChoiceSource source = wish ? CHOICE_GIVEN : timing ? CHOICE_TIMED : CHOICE_FIRST;
        TRY(choose(d, p, c, wish, timing, value));
        if (!numerics_add(record, key, value, source))
            return cuda_fail(d, TIDE_NO_MEMORY, "no memory for the numerics record");
        (void)numerics_use(record, key, wish); /* from here on it stands */
        return TIDE_OK;
    }
    if (strcmp(recorded, flash_name) == 0) return TIDE_OK;
    if (here.handle) p->cudnn = cudnn_attention_new(&here, &p->s, recorded, why);
    if (p->cudnn) return TIDE_OK;
    return cuda_fail(
        d, TIDE_BAD_FILE,
        "numerics record: the choice for \"%s\" cannot be honoured (%s); remove the record or plan anew", key,
        why);
}

/* ---- Plans ---------------------------------------------------------------------------- */

static AttentionPlan *find(const Device *d, const AttentionShape *s)
{
    AttentionPlan *p = cuda_libs(d)->attentions;

    while (p && memcmp(&p->s, s, sizeof *s) != 0) p = p->next;
    return p;
}

static TideStatus plan_new(Device *d, const AttentionCall *c, bool timing)
{
    AttentionPlan *p = calloc(1, sizeof *p);

    if (!p) return cuda_fail(d, TIDE_NO_MEMORY, "no memory for the plan of an attention");
    p->s = c->s;
    TideStatus status = settle(d, p, c, timing);
    if (status) {
        plan_free(p);
        return status;
    }
    p->next = cuda_libs(d)->attentions;
    cuda_libs(d)->attentions = p;
    return TIDE_OK;
}

/* Random numbers where a candidate will read; lse near what such scores give, so that backward's
 * probabilities are of the usual size; dropout's facts are zero. */
static TideStatus fill(Device *d, const AttentionCall *c)
{
    const AttentionShape *s = &c->s;
    int64_t tokens = s->batch * s->tokens, o = tokens * s->heads * s->head_dim;
    int64_t qkv = tokens * (s->heads + 2 * s->kv_heads) * s->head_dim;
    TideType type = (TideType)s->type;

    TRY(cuda_random(d, c->stream, (CudaArray){ (void *)(uintptr_t)c->qkv, qkv, type }));
    if (c->info)
        TRY(cuda_check(d, cudaMemsetAsync((void *)(uintptr_t)c->info, 0, sizeof *c->info, c->stream),
                       "cudaMemsetAsync"));
    if (!s->backward) return TIDE_OK;
    TRY(cuda_random(d, c->stream, (CudaArray){ (void *)(uintptr_t)c->o, o, type }));
    TRY(cuda_random(d, c->stream, (CudaArray){ (void *)(uintptr_t)c->d_o, o, type }));
    return cuda_random(d, c->stream, (CudaArray){ (void *)(uintptr_t)c->lse, tokens * s->heads, TIDE_F32 });
}

TideStatus attention_prepare(Device *d, const AttentionCall *c)
{
    if (find(d, &c->s)) return TIDE_OK;
    TRY(fill(d, c));
    TRY(plan_new(d, c, true));
    return cuda_check(d, cudaStreamSynchronize(c->stream), "choosing an attention engine");
}

TideStatus attention_run(Device *d, const AttentionCall *c)
{
    const AttentionPlan *p = find(d, &c->s);

    if (!p) {
        TRY(plan_new(d, c, false));
        p = cuda_libs(d)->attentions;
    }
    return run_plan(d, p, c);
}

bool attention_times(Device *d, const AttentionShape *s, double *chosen, double *flash)
{
    const AttentionPlan *p = find(d, s);

    if (!p) return false;
    *chosen = p->seconds;
    *flash = p->flash_seconds;
    return true;
}
