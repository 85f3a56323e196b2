/* paper.h - problems small enough to work out on paper: no graph, no device, bytes and seconds by hand. */
#ifndef TIDE_TEST_PAPER_H
#define TIDE_TEST_PAPER_H
#include "runtime/problem.h"

enum { PAPER_MOST = 96, PAPER_ARGS = 6 };

/* A problem with its arrays. p is the problem; the rest is private. Must not move. */
typedef struct Paper {
    Problem     p;
    CostTensor  tensors[PAPER_MOST];
    CostNode    nodes[PAPER_MOST];
    int         in[PAPER_MOST][PAPER_ARGS], out[PAPER_MOST][PAPER_ARGS];
    const char *layers[PAPER_MOST];
    char        names[PAPER_MOST][16];
} Paper;

/* An empty problem: alignment 1, link of 10 bytes a second each way without latency. */
void paper_open(Paper *pp);
/* Append a tensor; returns its index. An input if kind says so. */
int  paper_tensor(Paper *pp, size_t bytes, TideKind kind);

/* Append a node. in[] and out[] hold tensors, each list ended by -1 if it is not full. Layers are numbers. */
typedef struct PaperNode {
    double seconds;
    int    in[PAPER_ARGS], out[PAPER_ARGS];
    Phase  phase;
    int    layer;
    bool   again, once;
    bool   in_place;     /* the first output may take the first input's bytes */
    size_t scratch;
} PaperNode;
int  paper_node(Paper *pp, PaperNode n);

/* A chain: forward i makes a[i] of bytes[i] from a[i-1] in forward[i] seconds; backward i, in turn,
 * reads a[i] and a[i-1] and takes twice as long. a[-1] is an input of 1 byte. */
typedef struct PaperChain { int n; const size_t *bytes; const double *forward; } PaperChain;
void paper_chain(Paper *pp, PaperChain c, int *a);

/* A graph of 3 to 7 activations with random inputs, bytes, times and a backward pass. */
void paper_random(Paper *pp, uint64_t seed);

#endif
