/* bench_gpt_cpu.c - not a test: the time of forward and backward of a GPT on the CPU kernels, op by
 * op. Nodes run one after the other, in memory of their own; the least of several rounds counts.
 *
 *     bench_gpt_cpu [char|small] [rounds]
 *
 * char is gpt-char (4 layers, width 128, 12 x 64 tokens), small is two layers of GPT-2 124M at
 * 4 x 256 tokens. Threads: OMP_NUM_THREADS. The processor time of all threads stands beside the time
 * that passed: with one thread it hardly depends on what else the machine does. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "models/model.h"
#include "runtime/base.h"
#include "runtime/graph.h"
#include "tests/support/numeric.h"

typedef struct Cost {
    double wall, processor; /* seconds */
} Cost;

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

static bool configure(const char *name, ModelConfig *c)
{
    bool small = !strcmp(name, "small");

    if (!small && strcmp(name, "char") != 0) return false;
    if (!model_preset(small ? "gpt2-124m" : "gpt-char", c)) return false;
    c->dropout = c->attn_dropout = 0;
    if (small) {
        c->layers = 2;
        c->seq = 256;
        c->batch = 4;
    }
    return true;
}

static void fill(const Model *m, void **memory)
{
    const TideProgram *p = m->program;
    int64_t tokens = shape_elements(p->tensors[m->tokens.id]->shape);

    for (int i = 1; i < p->n_tensors; i++)
        if (p->tensors[i]->kind == TIDE_PARAMETER && !p->tensors[i]->flat)
            numeric_random(memory[i], shape_elements(p->tensors[i]->shape), 0.05f, (uint64_t)i);
    numeric_random_ints(memory[m->tokens.id], tokens, m->config.vocab, 1);
    numeric_random_ints(memory[m->targets.id], tokens, m->config.vocab, 2);
    *(TideStepInfo *)memory[m->info.id] = (TideStepInfo){ .loss_scale = 1.0f / (float)tokens };
}

/* The least cost of each node of the micro-step over several rounds. */
static TideStatus measure(const TideGraph *g, void **memory, int rounds, Cost *least)
{
    for (int i = 0; i < g->n_nodes; i++) least[i] = (Cost){ 1e30, 1e30 };
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < g->n_nodes; i++) {
            if (g->nodes[i]->again) continue;
            double wall = read_clock(CLOCK_MONOTONIC), processor = read_clock(CLOCK_PROCESS_CPUTIME_ID);
            TRY(numeric_run_node(g, i, memory));
            least[i].processor = lesser(least[i].processor, read_clock(CLOCK_PROCESS_CPUTIME_ID) - processor);
            least[i].wall = lesser(least[i].wall, read_clock(CLOCK_MONOTONIC) - wall);
        }
    }
    return TIDE_OK;
}

/* One line for all nodes of an op; returns their cost. */
static Cost print_op(const TideGraph *g, const Cost *least, int op)
{
    Cost sum = { 0, 0 };
    double flops = 0;
    int nodes = 0;
    const char *name = NULL;

    for (int i = 0; i < g->n_nodes; i++) {
        const Node *n = g->nodes[i];
        if (n->op->id != op || n->again) continue;
        name = n->op->name;
        sum.wall += least[i].wall;
        sum.processor += least[i].processor;
        flops += node_flops(g->program, n);
        nodes++;
    }
    if (nodes)
        printf("%-20s %6d %10.3f %10.1f %10.3f\n", name, nodes, 1e3 * sum.wall, 1e-9 * flops / sum.wall,
               1e3 * sum.processor);
    return sum;
}

static void print_ops(const TideGraph *g, const Cost *least)
{
    Cost all = { 0, 0 };

    printf("%-20s %6s %10s %10s %10s\n", "op", "nodes", "ms", "GFLOP/s", "cpu ms");
    for (int op = 0; op < OP_COUNT; op++) {
        Cost one = print_op(g, least, op);
        all.wall += one.wall;
        all.processor += one.processor;
    }
    printf("%-20s %6s %10.3f %10s %10.3f\n", "forward + backward", "", 1e3 * all.wall, "",
           1e3 * all.processor);
}

static int bench(const Model *m, int rounds)
{
    void **memory = numeric_memory_new(m->program);
    Cost *least = malloc((size_t)m->micro->n_nodes * sizeof *least);
    TideStatus status = memory && least ? TIDE_OK : TIDE_NO_MEMORY;

    if (!status) fill(m, memory);
    if (!status) status = measure(m->micro, memory, rounds, least);
    if (!status) print_ops(m->micro, least);
    free(least);
    if (memory) numeric_memory_free(m->program, memory);
    return status;
}

int main(int argc, char **argv)
{
    ModelConfig config;
    Model *m = NULL;
    Tide *t = NULL;
    int rounds = argc > 2 ? atoi(argv[2]) : 20;

    if (!configure(argc > 1 ? argv[1] : "char", &config) || rounds < 1) {
        fprintf(stderr, "usage: bench_gpt_cpu [char|small] [rounds]\n");
        return 2;
    }
    int status = tide_open("cpu", (TideDeviceOptions){ 0 }, &t);
    if (!status) status = model_new(t, &config, &m);
    if (!status) status = bench(m, rounds);
    if (status) fprintf(stderr, "bench_gpt_cpu: %s\n", tide_message(t));
    model_free(m);
    tide_close(t);
    return status != 0;
}
