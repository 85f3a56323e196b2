/* op.h - what the runtime knows about an operation.
 *
 * The runtime never looks inside an op: it stores nodes, orders them, gives
 * their tensors memory and calls a kernel by row number. */
#ifndef TIDE_OP_H
#define TIDE_OP_H
#include "runtime/tide.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { OP_MAX_OUT = 16, OP_ATTR_BYTES = 64 };

typedef struct Tensor {
    TideType  type;
    TideKind  kind;
    TideShape shape;
    size_t    bytes;       /* without padding                                        */
    char     *name;        /* unique inside its graph, or among persistent tensors   */
    int       graph;       /* index of the owning graph, -1: persistent              */
    int       flat;        /* a view: the flat tensor it lies in; else 0             */
    size_t    flat_offset; /* a view: bytes from the start of the flat tensor        */
    int       gradient;    /* a parameter: the tensor of its gradient; 0: none       */
    bool      accumulate;  /* a gradient: several micro-steps add to it              */
    bool      output;      /* readable after a step                                  */
    TideFate  forced;      /* an activation: what the user demands, or TIDE_AUTO     */
} Tensor;

typedef enum Phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_UPDATE } Phase;

typedef struct OpDesc OpDesc;

/* A node reads in[] and writes out[]. A tensor that stands in both is read and
 * written in place (an accumulating chain); a tensor in out[] that other nodes
 * wrote before, and which is not in in[], is written anew. Inputs that an op
 * may leave out are 0. */
typedef struct Node {
    const OpDesc *op;
    int           id;     /* index into the graph's nodes                            */
    int           layer;  /* index into the graph's layers; 0: outside all           */
    Phase         phase;
    bool          again;  /* writes an output of an earlier node from stored tensors, with
                           * equal bits; runs only as recompute                       */
    char         *name;   /* its first output's name, or "layer/fc.grad"             */
    int           n_in, n_out;
    TideTensor   *in;     /* [n_in]                                                  */
    TideTensor    out[OP_MAX_OUT];
    union { unsigned char bytes[OP_ATTR_BYTES]; double align; } attr;
} Node;

/* Facts about an op that the planner may rely on. */
enum {
    OP_ONCE = 1,         /* never repeated: updates of parameters and states       */
};

/* The meaning of an op, the same for every backend. One const instance per op
 * lives in kernels/ops/<name>.c. */
struct OpDesc {
    const char *name;
    int         id;       /* row in every backend's kernel table                     */
    int         n_out;
    unsigned    facts;
    int         timed_bytes; /* so many leading bytes of its attributes change how long it takes */
    int         in_place; /* 1 + the input whose memory out[0] may take when that input
                           * dies here (the kernel must allow it); 0: none            */

    /* Fill type and shape of each new out[]; false if in[] is unfit. in[i] is NULL for an
     * input that was left out; out[] arrives zeroed, with kind TIDE_ACTIVATION in the
     * forward phase and TIDE_OTHER elsewhere; an op may set TIDE_OTHER. */
    bool   (*infer)(const Node *n, const Tensor *const *in, Tensor *out);

    /* Append nodes that turn dout[] into din[] (gradients of inputs); dout[i] is 0 where
     * none is known, din[] arrives as zeros. What must survive until then is simply what
     * these nodes read, so no op lists its "saved tensors". NULL: not differentiable. */
    void   (*grad)(TideGraph *g, const Node *n, const TideTensor *dout, TideTensor *din);

    /* Floating-point operations of one run; NULL: one per output element. */
    double (*flops)(const Node *n, const Tensor *const *in, const Tensor *const *out);

    /* Bytes that one run reads and writes at least; NULL: those of all inputs and outputs. */
    double (*bytes)(const Node *n, const Tensor *const *in, const Tensor *const *out);
};

typedef struct NodeSpec {
    const OpDesc     *op;
    const TideTensor *in;      /* [n_in], 0 where an input is left out                */
    int               n_in;
    TideTensor        out[OP_MAX_OUT]; /* 0: a new tensor; else an existing one       */
    const void       *attr;
    size_t            attr_bytes;
    bool              again;
} NodeSpec;

/* Append a node; used by the builders in kernels/ops. Returns out[0], or 0 after
 * a mistake. */
TideTensor graph_append(TideGraph *g, NodeSpec spec);

/* Output i of the node that wrote x first: mean and rstd of a layernorm, say. */
TideTensor graph_sibling(const TideGraph *g, TideTensor x, int i);

/* While OpDesc.grad runs: does the gradient of x matter? True for parameters
 * with a gradient and for tensors that depend on one. */
bool       graph_wants_grad(const TideGraph *g, TideTensor x);

/* While OpDesc.grad runs: where the gradient of a parameter goes. *add tells
 * whether to add to what is there or to write it for the first time; the next
 * call for that parameter will say true. Returns 0 if it has no gradient. Where
 * several nodes add to a narrow gradient this is a sum in f32, also for the node
 * that was appended first, and tide_backward() rounds it once. */
TideTensor graph_param_grad(TideGraph *g, TideTensor parameter, bool *add);

/* While OpDesc.grad runs: take what other uses of x already gave to its gradient
 * (0: nothing). The op must then include it in its own din for x. */
TideTensor graph_take_grad(TideGraph *g, TideTensor x);

/* While OpDesc.grad runs: let the node that made x also write `out` as its last output, and read `in`, where
 * that adds to it (0: it does not), as its last input; both were left out so far. False, and nothing is
 * changed, if x was made by another op or several nodes, or if out is written after it. */
bool       graph_extend(TideGraph *g, TideTensor x, const OpDesc *op, TideTensor in, TideTensor out);

/* The newest node that writes x; NULL: none. */
const Node *graph_writer(const TideGraph *g, TideTensor x);

/* The phase of the nodes appended from now on; a new graph starts forward. */
void       graph_phase(TideGraph *g, Phase phase);

/* For the builders: facts about a tensor of the graph. NULL for tensor 0. */
const Tensor *graph_tensor(const TideGraph *g, TideTensor x);

/* Remember a mistake of the model ("batch 0"); the first one wins. */
void       graph_refuse(TideGraph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Leave a message with t and return status. */
TideStatus tide_fail(Tide *t, TideStatus status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Elements of a block of rows that is worth a node on the device: its Backend.block_elements. */
int64_t    graph_block_elements(const TideGraph *g);

/* Elements and bytes of a shape, types. Cannot fail. */
int64_t    shape_elements(TideShape s);
size_t     type_bytes(TideType t);
const char *type_name(TideType t);

/* The only ops that the runtime itself appends: the sum of two gradients, and the rounding of a
 * gradient that was summed in f32. They are declared here so that the one dependency upwards is
 * written down. */
TideTensor tide_add(TideGraph *g, TideTensor a, TideTensor b);
TideTensor tide_cast(TideGraph *g, TideTensor x, TideTensor y, TideType type, bool add);
#ifdef __cplusplus
}
#endif
#endif
