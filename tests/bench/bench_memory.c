/* bench_memory.c - bytes a second of every op that memory binds, at the shapes of GPT-2, against a copy
 * inside the device in the same run.
 *
 *     bench_memory [--check] [device]     --check: first all cases of the agreement tests
 *
 * Not a test. Before each run as many bytes are overwritten as no cache holds; a row is the median of
 * several runs. Bytes are what the op must read and write at least, each once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/ops.h"
#include "runtime/base.h"
#include "tests/support/agreement.h"
#include "tests/support/numeric.h"

enum { RUNS = 15, PATTERN = 1 << 22 };
static const size_t flush_bytes = (size_t)512 << 20, copy_bytes = (size_t)1 << 30;

typedef struct Bench {
    const Backend *be;
    Tide *tide;
    Event *from, *to;
    Stream *stream;
    void *flush;
    double copy; /* bytes a second, read and written */
} Bench;

static int fail(const Tide *t)
{
    fprintf(stderr, "bench_memory: %s\n", tide_message(t));
    return 1;
}

/* ---- Timing ----------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct Work {
    const Kernel *kernel; /* NULL: copy */
    const KernelCall *call;
    void *to;
    const void *from;
} Work;

static TideStatus issue(const Bench *b, const Work *w)
{
    if (w->kernel) return b->be->launch(w->kernel, w->call);
    return b->be->copy(b->stream, w->to, w->from, copy_bytes);
}

/* The median; the first run is not counted. */
static TideStatus time_work(const Bench *b, const Work *w, double *seconds)
{
    double time[RUNS + 1];

    for (int i = 0; i <= RUNS; i++) {
        TRY(b->be->fill(b->stream, b->flush, i, flush_bytes));
        TRY(b->be->event_record(b->stream, b->from));
        TRY(issue(b, w));
        TRY(b->be->event_record(b->stream, b->to));
        TRY(b->be->event_sync(b->to));
        TRY(b->be->event_seconds(b->from, b->to, &time[i]));
    }
    qsort(time + 1, RUNS, sizeof *time, by_value);
    *seconds = time[1 + RUNS / 2];
    return TIDE_OK;
}

static TideStatus measure_copy(Bench *b)
{
    void *both = NULL;
    double seconds = 1;

    TRY(b->be->device_alloc(b->tide->device, 2 * copy_bytes, &both));
    TideStatus status = b->be->fill(b->stream, both, 0x3c, copy_bytes);
    if (!status) status = time_work(b, &(Work){ .to = (char *)both + copy_bytes, .from = both }, &seconds);
    b->be->device_free(b->tide->device, both, 2 * copy_bytes);
    b->copy = 2.0 * (double)copy_bytes / seconds;
    return status;
}

/* ---- Numbers ------------------------------------------------------------------------- */

/* Tokens as frequent as words are: the k-th in proportion to 1 / k. */
static void fill_tokens(int32_t *x, float *u, int64_t n, int64_t vocab)
{
    numeric_random(u, n, 0.5f, 11);
    for (int64_t i = 0; i < n; i++) x[i] = (int32_t)(exp((u[i] + 0.5) * log((double)vocab)) - 1);
}

/* What one tensor holds, or the start of it. Returns the bytes written to `to`. */
static size_t pattern(const Side *s, const Tensor *t, void *to, float *numbers)
{
    const TideStepInfo step = {
        .seed = 1, .loss_scale = 1, .grad_scale = 1, .lr = 1e-3f, .bias1 = 0.1f, .bias2 = 0.05f
    };
    int64_t n = shape_elements(t->shape) < PATTERN ? shape_elements(t->shape) : PATTERN;

    if (t->type == TIDE_I32 && t->shape.n == 1) {
        memcpy(to, &step, sizeof step);
        return sizeof step;
    }
    if (t->type == TIDE_I32) {
        fill_tokens(to, numbers, n, s->size[3]);
    } else {
        numeric_random(numbers, n, 1, 5);
        for (int64_t i = 0; t->kind == TIDE_STATE && i < n; i++) numbers[i] = numbers[i] * numbers[i];
        tide_narrow(t->type, numbers, n, to);
    }
    return (size_t)n * type_bytes(t->type);
}

/* Large tensors repeat their start. */
static TideStatus fill_tensor(const Bench *b, const Side *s, int id, void *host, float *numbers)
{
    const Tensor *t = s->p->tensors[id];
    size_t done = pattern(s, t, host, numbers);
    char *at = side_at(s, id);

    TRY(b->be->copy(b->stream, at, host, done));
    TRY(b->be->stream_sync(b->stream));
    for (size_t part = done; done < t->bytes; done += part) {
        part = t->bytes - done < done ? t->bytes - done : done;
        TRY(b->be->copy(b->stream, at + done, at, part));
    }
    return b->be->stream_sync(b->stream);
}

static TideStatus fill_side(const Bench *b, const Side *s)
{
    void *host = malloc(PATTERN * sizeof(float));
    float *numbers = malloc(PATTERN * sizeof *numbers);
    TideStatus status = host && numbers ? TIDE_OK : TIDE_NO_MEMORY;

    for (int id = 1; !status && id < s->p->n_tensors; id++)
        if (!s->p->tensors[id]->flat) status = fill_tensor(b, s, id, host, numbers);
    free(host);
    free(numbers);
    return status;
}

/* ---- One node ---------------------------------------------------------------------------- */

/* Bytes that must move: every input read and every output written, but of a table only the rows that
 * the tokens name, and no parameter that has a master. */
static double bytes_of(const Side *s, const Node *n, const Tensor *const *infos)
{
    double bytes = 0;

    for (int i = 0; i < n->n_in + n->n_out; i++)
        if (infos[i]) bytes += (double)infos[i]->bytes;
    if (n->op->id == OP_embedding) {
        double y = (double)s->p->tensors[n->out[0].id]->bytes;
        return 2 * y;
    }
    if (n->op->id == OP_adamw && n->in[6].id) bytes -= (double)infos[3]->bytes;
    return bytes;
}

static TideStatus time_node(const Bench *b, const Side *s, int node)
{
    const Node *n = s->g->nodes[node];
    void *pointers[n->n_in + n->n_out];
    const Tensor *infos[n->n_in + n->n_out];
    KernelCall call = side_call(s, node, pointers, infos);
    double seconds = 0, bytes = bytes_of(s, n, infos);
    Bench own = *b;

    own.stream = s->stream;
    TRY(time_work(&own, &(Work){ .kernel = b->be->kernels[n->op->id], .call = &call }, &seconds));
    printf("  %-18s %9.1f MB %9.1f us %8.0f GB/s %6.1f %% of copy\n", n->op->name, bytes * 1e-6,
           seconds * 1e6, bytes / seconds * 1e-9, 100 * bytes / seconds / b->copy);
    fflush(stdout);
    return TIDE_OK;
}

typedef struct Row {
    const char *name;
    int64_t size[SIDE_SIZES];
} Row;

static TideStatus time_case(const Bench *b, const Row *row)
{
    const AgreeCase *c = NULL;
    Side s = { .type = TIDE_BF16, .grad = TIDE_BF16, .state = TIDE_F32, .size = row->size };

    for (int i = 0; agree_case(i); i++)
        if (strcmp(agree_case(i)->name, row->name) == 0) c = agree_case(i);
    assert(c);
    if (!(b->be->types & 1u << s.type)) s.type = s.grad = TIDE_F32;
    side_new(&s, b->tide);
    c->build(&s);
    TideStatus status = side_ready(&s) ? fill_side(b, &s) : TIDE_DEVICE;
    for (int i = 0; !status && i < s.g->n_nodes; i++) status = time_node(b, &s, i);
    side_free(&s);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------ */

static const Row gpt2_124m[] = {
    { "add", { 32, 1024, 768, 0 } },
    { "embedding", { 32, 1024, 768, 50304 } },
    { "layernorm", { 32, 1024, 768, 0 } },
    { "add_layernorm", { 32, 1024, 768, 0 } },
    { "gelu_tanh", { 32, 1024, 3072, 0 } },
    { "gelu_erf", { 32, 1024, 3072, 0 } },
    { "dropout", { 32, 1024, 768, 0 } },
    { "cross_entropy", { 32, 1024, 0, 50257 } },
    { "adamw_master", { 1, 1, 124475904, 0 } },
    { "adamw", { 1, 1, 124475904, 0 } },
    { NULL, { 0 } },
};
static const Row gpt2_1558m[] = {
    { "add", { 16, 1024, 1600, 0 } },
    { "embedding", { 16, 1024, 1600, 50304 } },
    { "layernorm", { 16, 1024, 1600, 0 } },
    { "add_layernorm", { 16, 1024, 1600, 0 } },
    { "gelu_tanh", { 16, 1024, 6400, 0 } },
    { "dropout", { 16, 1024, 1600, 0 } },
    { "cross_entropy", { 16, 1024, 0, 50257 } },
    { "adamw_master", { 1, 1, 1557686400, 0 } },
    { NULL, { 0 } },
};

static TideStatus time_model(const Bench *b, const char *name, const Row *rows)
{
    printf("%s\n", name);
    for (; rows->name; rows++) TRY(time_case(b, rows));
    return TIDE_OK;
}

static TideStatus open_bench(Bench *b)
{
    b->be = b->tide->backend;
    TRY(b->be->stream_new(b->tide->device, 0, &b->stream));
    TRY(b->be->event_new(b->tide->device, &b->from));
    TRY(b->be->event_new(b->tide->device, &b->to));
    TRY(b->be->device_alloc(b->tide->device, flush_bytes, &b->flush));
    return measure_copy(b);
}

static void close_bench(Bench *b)
{
    if (b->flush) b->be->device_free(b->tide->device, b->flush, flush_bytes);
    if (b->from) b->be->event_free(b->from);
    if (b->to) b->be->event_free(b->to);
    if (b->stream) b->be->stream_free(b->stream);
}

static int check(Tide *t)
{
    int bad = 0, n = 0;
    char why[512];

    for (int c = 0; agree_case(c); c++)
        for (int k = 0; agree_types(k); k++)
            for (int i = 0; agree_sizes(i) && t->backend->types & 1u << agree_types(k)->type; i++, n++) {
                const int64_t *size = agree_sizes(i);
                if (agree(t, agree_case(c), agree_types(k), size, why)) continue;
                bad++;
                printf("%s, %s, B %d T %d C %d V %d: %s\n", agree_case(c)->name, agree_types(k)->name,
                       (int)size[0], (int)size[1], (int)size[2], (int)size[3], why);
            }
    printf("agreement: %d of %d cases good\n", n - bad, n);
    fflush(stdout);
    return bad;
}

int main(int argc, char **argv)
{
    Bench b = { .be = NULL };
    bool checks = argc > 1 && strcmp(argv[1], "--check") == 0;
    const char *device = argc > 1 + checks ? argv[1 + checks] : "cuda";
    TideStatus status = tide_open(device, (TideDeviceOptions){ 0 }, &b.tide);
    int bad = 0;

    if (!status) {
        printf("%s\n", tide_versions(b.tide));
        if (checks) bad = check(b.tide);
        status = open_bench(&b);
        printf("copy: %.0f GB/s read and written\n", b.copy * 1e-9);
        if (!status) status = time_model(&b, "gpt2-124m, B 32", gpt2_124m);
        if (!status) status = time_model(&b, "gpt2-1558m, B 16", gpt2_1558m);
        if (status) tide_fail(b.tide, status, "%s", b.be->message(b.tide->device));
        close_bench(&b);
    }
    if (status) bad += fail(b.tide);
    tide_close(b.tide);
    return bad != 0;
}
