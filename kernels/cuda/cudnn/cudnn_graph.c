/* cudnn_graph.c - descriptors of tensors and operations, with one sticky failure. */
#include "kernels/cuda/cudnn/cudnn_graph.h"
#include <stddef.h>

static void fail(CudnnGraph *g, cudnnStatus_t status, const char *what)
{
    if (!status || g->status) return;
    g->status = status;
    g->what = what;
}

CudnnDescriptor cudnn_make(CudnnGraph *g, cudnnBackendDescriptorType_t type)
{
    CudnnDescriptor d = NULL;

    if (g->status) return NULL;
    if (g->n_made == CUDNN_GRAPH_DESCRIPTORS) {
        fail(g, CUDNN_STATUS_INTERNAL_ERROR, "too many descriptors");
        return NULL;
    }
    fail(g, cudnnBackendCreateDescriptor(type, &d), "create");
    if (!g->status) g->made[g->n_made++] = d;
    return d;
}

void cudnn_set(CudnnGraph *g, CudnnDescriptor d, cudnnBackendAttributeName_t name, CudnnValue value)
{
    if (!g->status) fail(g, cudnnBackendSetAttribute(d, name, value.type, value.n, value.at), "set");
}

void cudnn_finish(CudnnGraph *g, CudnnDescriptor d, const char *what)
{
    if (!g->status) fail(g, cudnnBackendFinalize(d), what);
}

static void set_descriptor(CudnnGraph *g, CudnnDescriptor d, cudnnBackendAttributeName_t name,
                           CudnnDescriptor value)
{
    cudnn_set(g, d, name, (CudnnValue){ CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value });
}

static void set_type(CudnnGraph *g, CudnnDescriptor d, cudnnBackendAttributeName_t name, cudnnDataType_t type)
{
    cudnn_set(g, d, name, (CudnnValue){ CUDNN_TYPE_DATA_TYPE, 1, &type });
}

/* An operation that is complete; it returns what it writes. */
static CudnnDescriptor add_op(CudnnGraph *g, CudnnDescriptor op, CudnnDescriptor writes, const char *what)
{
    cudnn_finish(g, op, what);
    if (g->n_ops == CUDNN_GRAPH_OPS) fail(g, CUDNN_STATUS_INTERNAL_ERROR, "too many operations");
    if (!g->status) g->ops[g->n_ops++] = op;
    return writes;
}

enum { ALIGNMENT = 16, FIRST_VIRTUAL = 1000 }; /* of addresses, in bytes, unless a tensor says less */

CudnnDescriptor cudnn_tensor(CudnnGraph *g, const CudnnTensor *t)
{
    CudnnDescriptor d = cudnn_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t id = t->is_virtual ? FIRST_VIRTUAL + g->n_virtual++ : t->id;
    int64_t alignment = t->alignment ? t->alignment : ALIGNMENT;

    cudnn_set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, (CudnnValue){ CUDNN_TYPE_INT64, 1, &id });
    set_type(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, t->type);
    cudnn_set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, (CudnnValue){ CUDNN_TYPE_INT64, CUDNN_DIMS, t->dim });
    cudnn_set(g, d, CUDNN_ATTR_TENSOR_STRIDES, (CudnnValue){ CUDNN_TYPE_INT64, CUDNN_DIMS, t->stride });
    cudnn_set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, (CudnnValue){ CUDNN_TYPE_INT64, 1, &alignment });
    if (t->is_virtual)
        cudnn_set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, (CudnnValue){ CUDNN_TYPE_BOOLEAN, 1, &t->is_virtual });
    if (t->by_value)
        cudnn_set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, (CudnnValue){ CUDNN_TYPE_BOOLEAN, 1, &t->by_value });
    cudnn_finish(g, d, "tensor");
    return d;
}

CudnnDescriptor cudnn_pointwise(CudnnGraph *g, CudnnPointwise p)
{
    CudnnDescriptor mode = cudnn_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);

    cudnn_set(g, mode, CUDNN_ATTR_POINTWISE_MODE, (CudnnValue){ CUDNN_TYPE_POINTWISE_MODE, 1, &p.mode });
    set_type(g, mode, CUDNN_ATTR_POINTWISE_MATH_PREC, p.math);
    if (p.mode == CUDNN_POINTWISE_GEN_INDEX)
        cudnn_set(g, mode, CUDNN_ATTR_POINTWISE_AXIS, (CudnnValue){ CUDNN_TYPE_INT64, 1, &p.axis });
    cudnn_finish(g, mode, "pointwise mode");

    CudnnDescriptor op = cudnn_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p.x);
    if (p.b) set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p.b);
    if (p.t) set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p.t);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, p.y);
    return add_op(g, op, p.y, "pointwise");
}

CudnnDescriptor cudnn_matmul(CudnnGraph *g, CudnnDescriptor a, CudnnDescriptor b, CudnnDescriptor c)
{
    CudnnDescriptor kind = cudnn_make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);

    set_type(g, kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    cudnn_finish(g, kind, "matmul type");

    CudnnDescriptor op = cudnn_make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    return add_op(g, op, c, "matmul");
}

CudnnDescriptor cudnn_reduce(CudnnGraph *g, cudnnReduceTensorOp_t how, CudnnDescriptor x, CudnnDescriptor y)
{
    CudnnDescriptor kind = cudnn_make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);

    cudnn_set(g, kind, CUDNN_ATTR_REDUCTION_OPERATOR,
              (CudnnValue){ CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how });
    set_type(g, kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    cudnn_finish(g, kind, "reduction type");

    CudnnDescriptor op = cudnn_make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    return add_op(g, op, y, "reduction");
}

CudnnDescriptor cudnn_reshape(CudnnGraph *g, CudnnDescriptor x, CudnnDescriptor y)
{
    CudnnDescriptor op = cudnn_make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

    set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    return add_op(g, op, y, "reshape");
}

void cudnn_graph_free(CudnnGraph *g)
{
    for (int i = g->n_made; i-- > 0;) cudnnBackendDestroyDescriptor(g->made[i]);
    *g = (CudnnGraph){ 0 };
}
