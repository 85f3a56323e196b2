/* bench_gemm_attention.c - the products and the attention of GPT-2's steps on a GPU, one by one.
 *
 *     bench_gemm_attention [124M or 1558M]
 *
 * For every distinct GEMM of 124M at B = 8, 32, 64 and of 1558M at B = 16, 32 the rate of the chosen
 * algorithm against cuBLASLt's own first choice, and of a step the sum; for attention the milliseconds
 * of a layer, forward and backward, of each engine. Numbers are random, times medians of event times.
 * The user's cache of choices is left out: everything is chosen anew. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/ops.h"
#include "runtime/base.h"
#include "tests/support/side.h"

enum { RUNS = 11, TOKENS = 1024, VOCAB = 50304, BLOCK_BYTES = 64 << 20, HEAD_DIM = 64 };

typedef struct Model {
    const char *name;
    int batch, layers;
    int64_t width, head_rows; /* rows of logits at a time */
} Model;

static const Model models[] = {
    { "124M", 8, 12, 768, 8192 },    { "124M", 32, 12, 768, 8192 },   { "124M", 64, 12, 768, 8192 },
    { "1558M", 16, 48, 1600, 8192 }, { "1558M", 32, 48, 1600, 8192 }, { "124M", 32, 12, 768, 2048 },
    { "1558M", 16, 48, 1600, 2048 },
};

static const TideTensor none = { 0 };

/* ---- Timing --------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Random small bf16 of both signs all over the tensors; nodes overwrite what is theirs. */
static bool fill(const Side *s, const void *random)
{
    const Backend *be = s->tide->backend;

    for (size_t at = 0; at < s->bytes; at += BLOCK_BYTES) {
        size_t bytes = s->bytes - at < BLOCK_BYTES ? s->bytes - at : BLOCK_BYTES;
        if (be->copy(s->stream, s->memory + at, random, bytes)) return false;
    }
    return !be->stream_sync(s->stream);
}

/* Median seconds of one node; negative: it failed. */
static double time_node(const Side *s, int node)
{
    const Backend *be = s->tide->backend;
    const Node *n = s->g->nodes[node];
    void *pointers[n->n_in + n->n_out];
    const Tensor *infos[n->n_in + n->n_out];
    KernelCall call = side_call(s, node, pointers, infos);
    double time[RUNS] = { 0 };
    Event *from = NULL, *to = NULL;
    TideStatus status = be->event_new(s->tide->device, &from);

    if (!status) status = be->event_new(s->tide->device, &to);
    for (int i = -2; !status && i < RUNS; i++) {
        double seconds = 0;
        status = be->event_record(s->stream, from);
        if (!status) status = be->launch(be->kernels[n->op->id], &call);
        if (!status) status = be->event_record(s->stream, to);
        if (!status) status = be->event_sync(to);
        if (!status) status = be->event_seconds(from, to, &seconds);
        if (i >= 0) time[i] = seconds;
    }
    if (from) be->event_free(from);
    if (to) be->event_free(to);
    if (status) {
        fprintf(stderr, "%s: %s\n", n->name, be->message(s->tide->device));
        return -1;
    }
    qsort(time, RUNS, sizeof *time, by_value);
    return time[RUNS / 2];
}

/* ---- Programs ----------------------------------------------------------------------------- */

typedef struct Work {
    int64_t rows, in, out; /* of a linear layer; out 0: attention over rows / TOKENS sequences */
    bool bias;
    double times; /* in a step */
} Work;

enum { MOST_NODES = 3 };
typedef struct Times {
    int n;
    double seconds[MOST_NODES], flops[MOST_NODES];
    const char *op[MOST_NODES];
} Times;

static void build_linear(Side *s, const Work *w)
{
    TideTensor x = side_input(s, "x", (TideShape){ 2, { w->rows, w->in } });
    TideTensor dy = side_input(s, "dy", (TideShape){ 2, { w->rows, w->out } });
    TideTensor weight = side_parameter(s, "weight", (TideShape){ 2, { w->out, w->in } });
    TideTensor bias = w->bias ? side_parameter(s, "bias", (TideShape){ 1, { w->out } }) : none;
    TideRows all = { 0 };

    tide_linear(s->g, x, weight, bias, all);
    tide_linear_dx(s->g, dy, weight, x, none, all);
    tide_linear_dw(s->g, x, dy, weight, bias, all);
}

static void build_attention(Side *s, const Work *w)
{
    int heads = (int)(w->in / HEAD_DIM);
    TideAttention a = { .heads = heads, .kv_heads = heads, .head_dim = HEAD_DIM };
    TideTensor qkv = side_input(s, "qkv", (TideShape){ 3, { w->rows / TOKENS, TOKENS, 3 * w->in } });
    TideTensor d_o = side_input(s, "do", (TideShape){ 3, { w->rows / TOKENS, TOKENS, w->in } });
    TideTensor o = tide_attention(s->g, qkv, none, a);

    tide_attention_grad(s->g, qkv, o, graph_sibling(s->g, o, 1), none, d_o, a);
}

/* Time every node of one piece of work on a device, prepared or not. */
static bool measure(Tide *t, const Work *w, const void *random, bool unprepared, Times *out)
{
    Side s = { .type = TIDE_BF16, .grad = TIDE_BF16, .state = TIDE_F32, .unprepared = unprepared };

    side_new(&s, t);
    if (w->out)
        build_linear(&s, w);
    else
        build_attention(&s, w);
    bool good = side_ready(&s) && fill(&s, random);
    out->n = s.g->n_nodes;
    for (int i = 0; good && i < out->n; i++) {
        const Node *n = s.g->nodes[i];
        const Tensor *infos[n->n_in + n->n_out];
        node_infos(s.p, n, infos, infos + n->n_in);
        out->op[i] = n->op->name;
        out->flops[i] = n->op->flops(n, infos, infos + n->n_in);
        out->seconds[i] = time_node(&s, i);
        good = out->seconds[i] >= 0;
    }
    if (!good) fprintf(stderr, "%s\n", tide_message(t));
    side_free(&s);
    return good;
}

/* ---- Tables -------------------------------------------------------------------------------- */

typedef struct Bench {
    Tide *tide, *untimed; /* algorithms are chosen by timing; are the library's first */
    Tide *flash;          /* attention is ours                                        */
    void *random;         /* [BLOCK_BYTES]                                            */
} Bench;

static bool bench_gemms(const Bench *b, const Model *m)
{
    int64_t rows = (int64_t)m->batch * TOKENS, c = m->width;
    double chunks = (double)rows / (double)m->head_rows, total[2] = { 0, 0 };
    const Work all[] = { { rows, c, 3 * c, true, m->layers },
                         { rows, c, c, true, m->layers },
                         { rows, c, 4 * c, true, m->layers },
                         { rows, 4 * c, c, true, m->layers },
                         { m->head_rows, c, VOCAB, false, chunks } };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        Times chosen, first;
        if (!measure(b->tide, &all[i], b->random, false, &chosen)) return false;
        if (!measure(b->untimed, &all[i], b->random, true, &first)) return false;
        for (int k = 0; k < chosen.n; k++) {
            printf("%-5s B %-2d %-9s %6d x %5d -> %5d %8.3f ms %6.1f TFLOP/s, first choice %6.1f\n", m->name,
                   m->batch, chosen.op[k], (int)all[i].rows, (int)all[i].in, (int)all[i].out,
                   1e3 * chosen.seconds[k], 1e-12 * chosen.flops[k] / chosen.seconds[k],
                   1e-12 * first.flops[k] / first.seconds[k]);
            total[0] += 1e3 * chosen.seconds[k] * all[i].times;
            total[1] += 1e3 * first.seconds[k] * all[i].times;
        }
    }
    printf("%-5s B %-2d GEMMs of a step, %d rows of logits at a time: %.2f ms, first choice %.2f ms\n",
           m->name, m->batch, (int)m->head_rows, total[0], total[1]);
    return true;
}

static bool bench_attention(const Bench *b, const Model *m)
{
    Work w = { (int64_t)m->batch * TOKENS, m->width, 0, false, m->layers };
    Times chosen, flash;

    if (!measure(b->tide, &w, b->random, false, &chosen)) return false;
    if (!measure(b->flash, &w, b->random, false, &flash)) return false;
    printf(
        "%-5s B %-2d attention of a layer: chosen %.3f + %.3f ms, flash %.3f + %.3f ms; of a step %.2f ms\n",
        m->name, m->batch, 1e3 * chosen.seconds[0], 1e3 * chosen.seconds[1], 1e3 * flash.seconds[0],
        1e3 * flash.seconds[1], 1e3 * (chosen.seconds[0] + chosen.seconds[1]) * m->layers);
    return true;
}

static bool wish_flash(Tide *t)
{
    char *text = t->backend->numerics_save(t->device);
    json_t *record = text ? json_loads(text, 0, NULL) : NULL;
    bool good =
        record && !json_object_set_new(json_object_get(record, "choices"), "attention", json_string("flash"));

    free(text);
    text = good ? json_dumps(record, 0) : NULL;
    good = text && !t->backend->numerics_load(t->device, text);
    free(text);
    json_decref(record);
    return good;
}

static bool bench_open(Bench *b)
{
    char folder[] = "/tmp/tide-bench-XXXXXX";
    uint32_t state = 1, *word = b->random = malloc(BLOCK_BYTES);

    if (!word || !mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1)) return false;
    for (size_t i = 0; i < BLOCK_BYTES / sizeof *word; i++) {
        state = state * 1664525u + 1013904223u;
        word[i] = 0x3e003e00u | (state & 0x81ff81ffu); /* bf16 from 1/8 to 1/2 */
    }
    return !tide_open("cuda", (TideDeviceOptions){ 0 }, &b->tide) &&
           !tide_open("cuda", (TideDeviceOptions){ 0 }, &b->untimed) &&
           !tide_open("cuda", (TideDeviceOptions){ 0 }, &b->flash) && wish_flash(b->flash);
}

int main(int argc, char **argv)
{
    Bench b = { 0 };
    bool good = bench_open(&b);

    if (!good) {
        fprintf(stderr, "bench_gemm_attention: %s\n", b.tide ? tide_message(b.tide) : "no memory");
        return 1;
    }
    printf("%s\n", tide_versions(b.tide));
    for (size_t i = 0; good && i < sizeof models / sizeof *models; i++) {
        if (argc > 1 && strcmp(argv[1], models[i].name) != 0) continue;
        good = bench_attention(&b, &models[i]) && bench_gemms(&b, &models[i]);
        fflush(stdout);
    }
    tide_close(b.flash);
    tide_close(b.untimed);
    tide_close(b.tide);
    free(b.random);
    return good ? 0 : 1;
}
