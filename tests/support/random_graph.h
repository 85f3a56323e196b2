/* random_graph.h - programs made by chance, the same for the same seed.
 *
 * Graph 0, "micro", is a random DAG in layers with its backward pass: inputs x and dy, output y.
 * Graph 1, "update", writes every parameter. Graph 2, "eval", is a shorter forward pass. */
#ifndef TIDE_TEST_RANDOM_GRAPH_H
#define TIDE_TEST_RANDOM_GRAPH_H
#include "runtime/graph.h"

typedef struct RandomSpec {
    uint64_t seed;
    int layers;      /* 0: 1 to 6, by chance                                             */
    int width;       /* nodes a layer; 0: 1 to 5, by chance                              */
    bool real;       /* ops of the library on [rows, 32], with dropout; else fake ones   */
    bool accumulate; /* gradients are added to, and reset by the update                  */
} RandomSpec;

/* A program on an open device, which must be the fake one unless the ops are real. Never fails on its
 * own account: tide_program_check() tells about lack of memory. */
TideProgram *random_program(Tide *t, RandomSpec spec);

/* Uniform in [0, n); state is any number and changes. */
uint32_t chance(uint64_t *state, uint32_t n);

#endif
