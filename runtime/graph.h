/* graph.h - programs and graphs as the runtime sees them.
 *
 * A program owns every tensor, persistent or not, in one table, so that a tensor
 * id means the same in all its graphs, in plans and in files. Graphs own nodes.
 * Tensors and nodes are allocated one by one and never move. */
#ifndef TIDE_GRAPH_H
#define TIDE_GRAPH_H
#include "runtime/backend.h"

typedef struct Layer { char *name; int parent; } Layer; /* full name, "block0/mlp" */

struct Tide {
    const Backend *backend;  /* NULL: opening failed                       */
    Device        *device;
    char           name[32]; /* as given to tide_open(): "cpu", "cuda:0"   */
    TideDeviceOptions options;
    bool           described; /* the device is not here: see profile_device.c */
    char           message[1024];
};

struct TideProgram {
    Tide       *tide;
    Tensor    **tensors; /* [n_tensors]; tensors[0] is NULL */
    int         n_tensors;
    TideGraph **graphs;  /* [n_graphs] */
    int         n_graphs;
    TideStatus  status;  /* of the first mistake */
    char        mistake[512];
};

/* A gradient narrower than f32 that several nodes of a graph add to: they add in f32, and
 * tide_backward() rounds the sum once, behind the last of them. */
typedef struct Gather { int parameter, gradient, sum; } Gather;

struct TideGraph {
    TideProgram *program;
    int          index;  /* in program->graphs */
    char        *name;
    Node       **nodes;  /* [n_nodes], in the order of execution; `again` nodes are skipped */
    int          n_nodes;
    Layer       *layers; /* [n_layers]; layers[0] is outside all, named "" */
    int          n_layers;
    int          layer;  /* the current one */
    Phase        phase;  /* of the next node */
    const char  *prefix; /* while tide_backward() runs: names of new nodes start so; else NULL */
    int         *grads;  /* [n_grads] by tensor id: its gradient, 0: none known */
    int          n_grads;
    bool        *wanted; /* [n_grads] by tensor id, while tide_backward() runs */
    Gather      *gathers; /* [n_gathers] not yet rounded */
    int          n_gathers;
};

static inline const Tensor *program_tensor(const TideProgram *p, int id)
{
    return id ? p->tensors[id] : NULL;
}

/* The first node (not `again`) of g that writes tensor id; -1: none, an input or persistent. */
int graph_producer(const TideGraph *g, int id);
/* The `again` node of g that writes tensor id; -1: none. */
int graph_again(const TideGraph *g, int id);

/* A node that runs once and is not repeated: an update, a node that writes in place
 * into a chain, or one that writes anything persistent. */
bool node_is_once(const TideProgram *p, const Node *n);

/* Scratch bytes that the program's device wants for a node. */
size_t node_scratch(const TideProgram *p, const Node *n);
double node_flops(const TideProgram *p, const Node *n);

/* Fill in_info[n->n_in] and out_info[n->n_out] of a node. */
void node_infos(const TideProgram *p, const Node *n, const Tensor **in_info, const Tensor **out_info);

/* A hash (FNV-1a, 64 bit) of all graphs: names, shapes, ops, attributes, order. */
uint64_t program_hash(const TideProgram *p);
/* A hash of all that decides bits besides the graph: device, versions, and a record of choices (NULL:
 * none), which is the plan's own: what is chosen later for other shapes changes no hash. */
uint64_t numerics_hash(const TideProgram *p, const char *record);

#endif
