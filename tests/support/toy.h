/* toy.h - a Problem by hand: n tensors made one after the other, and read once each, the last one first.
 *
 * Node i makes tensor i from a parameter and, if chained, from tensor i - 1; node n + i is the backward
 * node that reads tensor n - 1 - i. A node `again` stands behind them for each tensor that has one. */
#ifndef TIDE_TEST_TOY_H
#define TIDE_TEST_TOY_H
#include "runtime/problem.h"

enum { TOY_MOST = 10 };

typedef struct Toy {
    Problem    problem;
    CostTensor tensors[TOY_MOST + 1]; /* the last one: the parameter, of TOY_PARAMETER bytes */
    CostNode   nodes[3 * TOY_MOST];
    int        in[3 * TOY_MOST][2], out[3 * TOY_MOST][1];
} Toy;
enum { TOY_PARAMETER = 64 };

typedef struct ToySpec {
    int           n;
    const size_t *bytes;
    const double *seconds;  /* of the node that makes each; backward nodes take `backward`  */
    const double *again;    /* NULL, or seconds of a cheaper node; 0: none                  */
    double        backward;
    bool          chained, once; /* once: no node may run again                              */
    double        link;     /* bytes a second each way; 0: none                             */
} ToySpec;

/* Fill a toy, which must stay where it is. */
void toy_make(Toy *t, ToySpec spec);

#endif
