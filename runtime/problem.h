/* problem.h - one graph as the planner sees it: bytes, seconds and who reads what.
 *
 * A Problem knows no op and no device; it is made from a graph and a profile, or
 * read from a graph file. All indices are into its own arrays. */
#ifndef TIDE_PROBLEM_H
#define TIDE_PROBLEM_H
#include "runtime/graph.h"

typedef struct CostTensor {
    const char *name;
    size_t      bytes;    /* rounded up to the alignment; fixed: exact                       */
    size_t      moved;    /* by a copy of it: exact                                          */
    TideKind    kind;
    int         id;       /* tensor of the program; its own index for a graph file           */
    bool        fixed;    /* persistent: lies at offset, which no plan may change            */
    size_t      offset;
    bool        live_in, live_out; /* fixed: holds something at the start, at the end         */
    TideFate    forced;   /* TIDE_AUTO: free                                                 */
    int         producer; /* first node that writes it; -1: exists at the start              */
    int         again;    /* `again` node that writes it; -1: none                           */
    bool        input, output; /* comes from the host before the first node; goes to it at the end */
} CostTensor;

typedef struct CostNode {
    const char *name;
    int         layer;    /* index into layers                                              */
    Phase       phase;
    double      seconds;
    size_t      scratch_bytes; /* rounded up to the alignment                                */
    bool        once;     /* never repeated                                                 */
    bool        again;    /* not part of the order: a cheaper producer                       */
    int         in_place; /* index into in[] whose bytes out[0] may take if it dies here; -1  */
    int         n_in, n_out;
    int        *in, *out; /* tensors; in[] has no holes here, and in_place counts without them */
} CostNode;

/* Bytes a second of each copy lane alone, of each while both are busy, seconds a copy. */
typedef struct Link { double out, in, duplex, latency; } Link;

typedef struct Problem {
    CostTensor  *tensors; int n_tensors;
    CostNode    *nodes;   int n_nodes; /* in the order of execution */
    const char **layers;  int n_layers;
    size_t       alignment;
    size_t       static_bytes; /* where the fixed tensors end */
    Link         link;
    int          turn;     /* first node of the backward phase; n_nodes if there is none */
    void        *owned;    /* names and index arrays, freed with the problem             */
} Problem;

/* Home offsets of the flats are given by tensor id ((size_t)-1 where it is no flat). */
TideStatus problem_from_graph(const TideGraph *g, const TideProfile *f, const size_t *homes,
                              size_t static_bytes, Problem **out);
void       problem_free(Problem *p);

#endif
