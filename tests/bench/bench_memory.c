/* bench_memory.c - bytes a second of every op that memory binds, at the shapes of GPT-2, against a copy
 * inside the device in the same run.
 *
 *     bench_memory [--only NAME] [device]     the times of one case, or of all
 *     bench_memory --once [--only NAME]       each node once, for a profiler
 *     bench_memory --check [device]           no times: every op against the CPU and against double
 *
 * Not a test. An op runs as often as a step would run it, one launch behind the other (a captured graph
 * where the device has them), over so many sets of its tensors that no cache holds one until its next
 * turn. A row is the median of several such rounds, by launch. Bytes are what the op must read and write
 * at least, each once; beside the share of the large copy stands that of a copy of just as many bytes,
 * for starting and ending a launch costs a small one more. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/ops.h"
#include "runtime/base.h"
#include "tests/support/agreement_sweep.h"
#include "tests/support/agreement.h"
#include "tests/support/numeric.h"

enum { RUNS = 7, PATTERN = 1 << 22, MOST_SETS = 32, MOST_LAUNCHES = 128 };
static const double uncached = 640e6; /* bytes after which no cache knows the first */
static const double round_bytes = 2.5e9;
static const size_t copy_bytes = (size_t)1 << 30;

typedef struct Bench {
    const Backend *be;
    Tide *tide;
    Event *from, *to;
    Stream *stream;
    char *both;       /* [2, copy_bytes]                  */
    double copy;      /* bytes a second, read and written */
    const char *only; /* NULL: every case                 */
    bool once;        /* no times: for profilers          */
} Bench;

/* ---- Timing ----------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What a round launches in turn: node `node` of each side, or without sides copies of `bytes`. */
typedef struct Work {
    const Side *sides; /* [sets] */
    int node, sets;
    size_t bytes;
} Work;

static TideStatus issue(const Bench *b, const Work *w, int turn)
{
    if (!w->sides) {
        char *from = b->both + (size_t)(turn % w->sets) * w->bytes;
        return b->be->copy(b->stream, from + copy_bytes, from, w->bytes);
    }
    const Side *s = &w->sides[turn % w->sets];
    const Node *n = s->g->nodes[w->node];
    void *pointers[n->n_in + n->n_out];
    const Tensor *infos[n->n_in + n->n_out];
    KernelCall call = side_call(s, w->node, pointers, infos);

    call.stream = b->stream;
    return b->be->launch(b->be->kernels[n->op->id], &call);
}

static TideStatus issue_round(const Bench *b, const Work *w, int launches)
{
    for (int i = 0; i < launches; i++) TRY(issue(b, w, i));
    return TIDE_OK;
}

/* Seconds of one round; capture NULL: issued launch by launch. */
static TideStatus time_round(const Bench *b, const Work *w, int launches, Capture *capture, double *seconds)
{
    TRY(b->be->event_record(b->stream, b->from));
    TRY(capture ? b->be->capture_replay(capture, b->stream) : issue_round(b, w, launches));
    TRY(b->be->event_record(b->stream, b->to));
    TRY(b->be->event_sync(b->to));
    return b->be->event_seconds(b->from, b->to, seconds);
}

/* The median by launch; `bytes` of one. The first round is not counted. Copies are issued one by one: those
 * of a captured graph are slower. */
static TideStatus time_work(const Bench *b, const Work *w, double bytes, double *seconds)
{
    double time[RUNS + 1];
    Capture *capture = NULL;
    int launches = (int)fmin(MOST_LAUNCHES, fmax(1, ceil(round_bytes / bytes)));

    if (launches < w->sets) launches = w->sets;
    TRY(issue(b, w, 0)); /* what is loaded at a first launch */
    TRY(b->be->stream_sync(b->stream));
    *seconds = 1;
    if (b->once) return TIDE_OK;
    if (b->be->capture_begin && w->sides) {
        TRY(b->be->capture_begin(b->stream));
        TRY(issue_round(b, w, launches));
        TRY(b->be->capture_end(b->stream, &capture));
    }
    TideStatus status = TIDE_OK;
    for (int i = 0; !status && i <= RUNS; i++) status = time_round(b, w, launches, capture, &time[i]);
    if (capture) b->be->capture_free(capture);
    qsort(time + 1, RUNS, sizeof *time, by_value);
    *seconds = time[1 + RUNS / 2] / launches;
    return status;
}

/* Bytes a second of copies that move as many bytes, read and written. */
static TideStatus time_copy(const Bench *b, double bytes, double *rate)
{
    double seconds = 1;
    size_t each = (size_t)(bytes / 2) & ~(size_t)255;

    if (each > copy_bytes) each = copy_bytes;
    if (each < 256) each = 256;
    int sets = (int)fmin(MOST_SETS, (double)(copy_bytes / each));
    TRY(time_work(b, &(Work){ .bytes = each, .sets = sets }, 2.0 * (double)each, &seconds));
    *rate = 2.0 * (double)each / seconds;
    return TIDE_OK;
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

static double node_bytes(const Side *s, int node)
{
    const Node *n = s->g->nodes[node];
    void *pointers[n->n_in + n->n_out];
    const Tensor *infos[n->n_in + n->n_out];

    side_call(s, node, pointers, infos);
    return bytes_of(s, n, infos);
}

static TideStatus time_node(const Bench *b, const Side *sides, int sets, int node)
{
    double seconds = 0, same = 0, bytes = node_bytes(&sides[0], node);

    TRY(time_work(b, &(Work){ .sides = sides, .node = node, .sets = sets }, bytes, &seconds));
    TRY(time_copy(b, bytes, &same));
    double rate = bytes / seconds;
    printf("  %-18s %8.1f MB %8.1f us %6.0f GB/s %6.1f %% of copy %6.1f %% of one of its size\n",
           sides[0].g->nodes[node]->op->name, bytes * 1e-6, seconds * 1e6, rate * 1e-9, 100 * rate / b->copy,
           100 * rate / same);
    fflush(stdout);
    return TIDE_OK;
}

typedef struct Row {
    const char *name;
    int64_t size[SIDE_SIZES];
    const char *op; /* the only one that has this shape in the model; NULL: all of the case */
} Row;

static TideStatus make_side(const Bench *b, const AgreeCase *c, const int64_t *size, Side *s)
{
    *s = (Side){ .type = TIDE_BF16, .grad = TIDE_BF16, .state = TIDE_F32, .size = size };
    if (!(b->be->types & 1u << s->type)) s->type = s->grad = TIDE_F32;
    side_new(s, b->tide);
    c->build(s);
    return side_ready(s) ? fill_side(b, s) : TIDE_DEVICE;
}

/* Sets of tensors so that the smallest node meets each one uncached; a node of few bytes, which no step
 * has without a larger one beside it, does not count. */
static int sets_of(const Side *s)
{
    double least = uncached, most = 0;

    for (int i = 0; i < s->g->n_nodes; i++) most = fmax(most, node_bytes(s, i));
    for (int i = 0; i < s->g->n_nodes; i++)
        if (node_bytes(s, i) > most / 8) least = fmin(least, node_bytes(s, i));
    return (int)fmin(MOST_SETS, ceil(uncached / least));
}

static TideStatus time_case(const Bench *b, const Row *row)
{
    const AgreeCase *c = NULL;
    Side sides[MOST_SETS] = { { .tide = NULL } };
    int sets = 1, made = 0;
    TideStatus status = TIDE_OK;

    if (b->only && strcmp(b->only, row->name) != 0) return TIDE_OK;
    for (int i = 0; agree_case(i); i++)
        if (strcmp(agree_case(i)->name, row->name) == 0) c = agree_case(i);
    assert(c);
    for (; !status && made < sets; made++) {
        status = make_side(b, c, row->size, &sides[made]);
        if (!status && made == 0) sets = sets_of(&sides[0]);
    }
    for (int i = 0; !status && i < sides[0].g->n_nodes; i++)
        if (!row->op || strcmp(sides[0].g->nodes[i]->op->name, row->op) == 0)
            status = time_node(b, sides, sets, i);
    for (int i = 0; i < made; i++) side_free(&sides[i]);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------ */

static const Row gpt2_124m_8[] = {
    { "add", { 8, 1024, 768, 0 }, NULL },        { "embedding", { 8, 1024, 768, 50304 }, NULL },
    { "layernorm", { 8, 1024, 768, 0 }, NULL },  { "add_layernorm", { 8, 1024, 768, 0 }, NULL },
    { "gelu_tanh", { 8, 1024, 3072, 0 }, NULL }, { "column_sums", { 8, 1024, 3072, 0 }, "gelu_grad" },
    { "dropout", { 8, 1024, 768, 0 }, NULL },    { NULL, { 0 }, NULL },
};
static const Row gpt2_124m_32[] = {
    { "add", { 32, 1024, 768, 0 }, NULL },
    { "embedding", { 32, 1024, 768, 50304 }, NULL },
    { "layernorm", { 32, 1024, 768, 0 }, NULL },
    { "add_layernorm", { 32, 1024, 768, 0 }, NULL },
    { "gelu_tanh", { 32, 1024, 3072, 0 }, NULL },
    { "column_sums", { 32, 1024, 768, 0 }, "layernorm_grad" },
    { "column_sums", { 32, 1024, 3072, 0 }, "gelu_grad" },
    { "gelu_erf", { 32, 1024, 3072, 0 }, NULL },
    { "dropout", { 32, 1024, 768, 0 }, NULL },
    { "cross_entropy", { 32, 1024, 0, 50257 }, NULL },
    { "adamw_master", { 1, 1, 124475904, 0 }, NULL },
    { "adamw", { 1, 1, 124475904, 0 }, NULL },
    { NULL, { 0 }, NULL },
};
static const Row gpt2_1558m[] = {
    { "add", { 16, 1024, 1600, 0 }, NULL },
    { "embedding", { 16, 1024, 1600, 50304 }, NULL },
    { "layernorm", { 16, 1024, 1600, 0 }, NULL },
    { "add_layernorm", { 16, 1024, 1600, 0 }, NULL },
    { "gelu_tanh", { 16, 1024, 6400, 0 }, NULL },
    { "column_sums", { 16, 1024, 1600, 0 }, "layernorm_grad" },
    { "column_sums", { 16, 1024, 6400, 0 }, "gelu_grad" },
    { "dropout", { 16, 1024, 1600, 0 }, NULL },
    { "cross_entropy", { 16, 1024, 0, 50257 }, NULL },
    { "adamw_master", { 1, 1, 1557686400, 0 }, NULL },
    { NULL, { 0 }, NULL },
};

static TideStatus time_model(const Bench *b, const char *name, const Row *rows)
{
    printf("%s\n", name);
    for (; rows->name; rows++) TRY(time_case(b, rows));
    return TIDE_OK;
}

static TideStatus open_bench(Bench *b)
{
    void *both = NULL;

    b->be = b->tide->backend;
    TRY(b->be->stream_new(b->tide->device, 0, &b->stream));
    TRY(b->be->event_new(b->tide->device, &b->from));
    TRY(b->be->event_new(b->tide->device, &b->to));
    TRY(b->be->device_alloc(b->tide->device, 2 * copy_bytes, &both));
    b->both = both;
    TRY(b->be->fill(b->stream, both, 0x3c, 2 * copy_bytes));
    return time_copy(b, 2.0 * (double)copy_bytes, &b->copy);
}

static void close_bench(Bench *b)
{
    if (b->both) b->be->device_free(b->tide->device, b->both, 2 * copy_bytes);
    if (b->from) b->be->event_free(b->from);
    if (b->to) b->be->event_free(b->to);
    if (b->stream) b->be->stream_free(b->stream);
}

static TideStatus time_all(Bench *b)
{
    TRY(open_bench(b));
    printf("copy: %.0f GB/s read and written\n", b->copy * 1e-9);
    TRY(time_model(b, "gpt2-124m, B 8", gpt2_124m_8));
    TRY(time_model(b, "gpt2-124m, B 32", gpt2_124m_32));
    return time_model(b, "gpt2-1558m, B 16", gpt2_1558m);
}

static int time_ops(Bench *b, const char *device)
{
    TideStatus status = tide_open(device, (TideDeviceOptions){ 0 }, &b->tide);

    if (!status) {
        printf("%s\n", tide_versions(b->tide));
        status = time_all(b);
        if (status) tide_fail(b->tide, status, "%s", b->be->message(b->tide->device));
        close_bench(b);
    }
    if (status) fprintf(stderr, "bench_memory: %s\n", tide_message(b->tide));
    tide_close(b->tide);
    return status != TIDE_OK;
}

int main(int argc, char **argv)
{
    Bench b = { .be = NULL };
    const char *device = "cuda";
    bool checks = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--check") == 0)
            checks = true;
        else if (strcmp(argv[i], "--once") == 0)
            b.once = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            b.only = argv[++i];
        else
            device = argv[i];
    }
    return checks ? agree_sweep(device, stdout) != 0 : time_ops(&b, device);
}
