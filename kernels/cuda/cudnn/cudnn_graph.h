/* cudnn_graph.h - describes a computation to cuDNN's backend API.
 *
 * A graph remembers its first failure: after it every function does nothing and returns NULL, so
 * that a description reads as mathematics and is checked once. It owns its descriptors. */
#ifndef TIDE_CUDNN_GRAPH_H
#define TIDE_CUDNN_GRAPH_H
#include <cudnn.h>
#include <stdbool.h>

enum { CUDNN_GRAPH_DESCRIPTORS = 128, CUDNN_GRAPH_OPS = 32, CUDNN_DIMS = 4 };

typedef cudnnBackendDescriptor_t CudnnDescriptor;

typedef struct CudnnGraph {
    cudnnStatus_t status;
    const char *what; /* failed, if the status is not success */
    CudnnDescriptor made[CUDNN_GRAPH_DESCRIPTORS], ops[CUDNN_GRAPH_OPS];
    int n_made, n_ops;
    int64_t n_virtual;
} CudnnGraph;

/* Virtual: an intermediate that need not exist in memory; it needs no id. by_value: one number in
 * host memory. */
typedef struct CudnnTensor {
    int64_t id;
    cudnnDataType_t type;
    int64_t dim[CUDNN_DIMS], stride[CUDNN_DIMS];
    int64_t alignment; /* of its address, in bytes; 0: 16 */
    bool is_virtual, by_value;
} CudnnTensor;

/* y = mode(x, b), or select(t, x, b); math is the type that it computes in. */
typedef struct CudnnPointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t math;
    CudnnDescriptor x, b, t, y;
    int64_t axis; /* of CUDNN_POINTWISE_GEN_INDEX */
} CudnnPointwise;

CudnnDescriptor cudnn_make(CudnnGraph *g, cudnnBackendDescriptorType_t type);
void cudnn_finish(CudnnGraph *g, CudnnDescriptor d, const char *what);
CudnnDescriptor cudnn_tensor(CudnnGraph *g, const CudnnTensor *t);
CudnnDescriptor cudnn_pointwise(CudnnGraph *g, CudnnPointwise p); /* returns y */
CudnnDescriptor cudnn_matmul(CudnnGraph *g, CudnnDescriptor a, CudnnDescriptor b, CudnnDescriptor c);
CudnnDescriptor cudnn_reduce(CudnnGraph *g, cudnnReduceTensorOp_t op, CudnnDescriptor x, CudnnDescriptor y);
CudnnDescriptor cudnn_reshape(CudnnGraph *g, CudnnDescriptor x, CudnnDescriptor y);

/* What a value of an attribute is; n of them. */
typedef struct CudnnValue {
    cudnnBackendAttributeType_t type;
    int64_t n;
    const void *at;
} CudnnValue;
void cudnn_set(CudnnGraph *g, CudnnDescriptor d, cudnnBackendAttributeName_t name, CudnnValue value);

void cudnn_graph_free(CudnnGraph *g);
#endif
