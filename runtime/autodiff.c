/* autodiff.c - the backward pass, appended node by node.
 *
 * Walk the forward nodes backwards; where the gradient of an output is known, the op
 * appends the nodes that give the gradients of its inputs; where two meet, they are added.
 * What must survive until then is simply what these nodes read. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/program.h"

/* Room for a gradient of every tensor that exists by now. */
static bool grads_reach(TideGraph *g, int n)
{
    if (n <= g->n_grads) return true;
    int *grads = realloc(g->grads, (size_t)n * 2 * sizeof *grads);
    if (grads) g->grads = grads;
    bool *wanted = grads ? realloc(g->wanted, (size_t)n * 2 * sizeof *wanted) : NULL;
    if (!wanted) {
        program_refuse(g->program, TIDE_NO_MEMORY, "no memory for the gradients of graph %s", g->name);
        return false;
    }
    g->wanted = wanted;
    memset(grads + g->n_grads, 0, (size_t)(2 * n - g->n_grads) * sizeof *grads);
    memset(wanted + g->n_grads, 0, (size_t)(2 * n - g->n_grads) * sizeof *wanted);
    g->n_grads = 2 * n;
    return true;
}

bool graph_wants_grad(const TideGraph *g, TideTensor x)
{
    return x.id && x.id < g->n_grads && g->wanted[x.id];
}

TideTensor graph_take_grad(TideGraph *g, TideTensor x)
{
    TideTensor taken = tide_grad(g, x);

    if (taken.id) g->grads[x.id] = 0;
    return taken;
}

TideTensor tide_grad(const TideGraph *g, TideTensor x)
{
    if (!g || x.id >= g->n_grads || x.id <= 0) return (TideTensor){ 0 };
    return (TideTensor){ g->grads[x.id] };
}

/* ---- Gradients of parameters ------------------------------------------------- */

/* The f32 sum that stands for a gradient; 0: none. */
static int gathered(const TideGraph *g, int gradient)
{
    for (int i = 0; i < g->n_gathers; i++)
        if (g->gathers[i].gradient == gradient) return g->gathers[i].sum;
    return 0;
}

/* The node that wrote the gradient, or added to it, writes the sum for the first time instead. */
static void redirect(Node *n, int gradient, int sum)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].id == gradient) n->in[i].id = 0;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i].id == gradient) n->out[i].id = sum;
}

/* A second node wants to add to a narrow gradient: from here on they add in f32. */
static int gather(TideGraph *g, int parameter, int writer)
{
    int gradient = g->program->tensors[parameter]->gradient;
    const Tensor *dx = g->program->tensors[gradient];
    Tensor sum = { .type = TIDE_F32,
                   .kind = TIDE_OTHER,
                   .shape = dx->shape,
                   .graph = g->index,
                   .bytes = (size_t)shape_elements(dx->shape) * type_bytes(TIDE_F32),
                   .name = program_format(g->program, "%s.sum", dx->name) };

    if (!program_grow(g->program, &g->gathers, g->n_gathers, sizeof *g->gathers)) {
        free(sum.name);
        return 0;
    }
    int id = program_add_tensor(g->program, sum);
    if (!id) return 0;
    redirect(g->nodes[writer], gradient, id);
    g->gathers[g->n_gathers++] = (Gather){ parameter, gradient, id };
    return id;
}

TideTensor graph_param_grad(TideGraph *g, TideTensor parameter, bool *add)
{
    const Tensor *x = graph_tensor(g, parameter);

    *add = false;
    if (!x || !x->gradient) return (TideTensor){ 0 };
    const Tensor *dx = g->program->tensors[x->gradient];
    int sum = gathered(g, x->gradient), writer = graph_producer(g, x->gradient);

    if (!sum && writer >= 0 && dx->type != TIDE_F32) sum = gather(g, parameter.id, writer);
    *add = sum || writer >= 0 || dx->accumulate;
    return (TideTensor){ sum ? sum : x->gradient };
}

/* Does one of the first n forward nodes read the parameter? Then its gradient will get more. */
static bool is_read_before(const TideGraph *g, int parameter, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; g->nodes[i]->phase == PHASE_FORWARD && j < g->nodes[i]->n_in; j++)
            if (g->nodes[i]->in[j].id == parameter) return true;
    return false;
}

/* Round the sums to which the first n forward nodes, those still to come, add nothing. */
static void round_gathered(TideGraph *g, int n)
{
    int left = 0;

    for (int i = 0; i < g->n_gathers; i++) {
        const Gather a = g->gathers[i];
        const Tensor *dx = g->program->tensors[a.gradient];
        if (is_read_before(g, a.parameter, n)) {
            g->gathers[left++] = a;
            continue;
        }
        g->prefix = dx->name;
        tide_cast(g, (TideTensor){ a.sum }, (TideTensor){ a.gradient }, dx->type, dx->accumulate);
    }
    g->n_gathers = left;
    g->prefix = NULL;
}

/* ---- The walk ------------------------------------------------------------------ */

/* Mark what depends on a parameter that has a gradient. */
static void mark_wanted(TideGraph *g, int n_nodes)
{
    for (int i = 1; i < g->program->n_tensors; i++) g->wanted[i] = g->program->tensors[i]->gradient != 0;
    for (int i = 0; i < n_nodes; i++) {
        const Node *n = g->nodes[i];
        bool any = false;
        for (int j = 0; j < n->n_in; j++) any = any || graph_wants_grad(g, n->in[j]);
        for (int j = 0; any && j < n->n_out; j++)
            if (n->out[j].id) g->wanted[n->out[j].id] = true;
    }
}

/* Add dx to what is known about the gradient of x. */
static void give(TideGraph *g, TideTensor x, TideTensor dx)
{
    if (!x.id || !dx.id || !grads_reach(g, g->program->n_tensors)) return;
    TideTensor known = tide_grad(g, x);
    TideTensor sum = known.id ? tide_add(g, known, dx) : dx;

    if (grads_reach(g, g->program->n_tensors)) g->grads[x.id] = sum.id;
}

/* Append the gradient of one forward node. */
static void back_through(TideGraph *g, const Node *n)
{
    TideTensor dout[OP_MAX_OUT], din[n->n_in + 1];
    bool known = false, wanted = false;

    for (int i = 0; i < n->n_out; i++) {
        dout[i] = tide_grad(g, n->out[i]);
        known = known || dout[i].id;
    }
    for (int i = 0; i < n->n_in; i++) wanted = wanted || graph_wants_grad(g, n->in[i]);
    if (!known || !wanted) return;
    if (!n->op->grad) {
        graph_refuse(g, "op %s (%s) has no gradient, but a parameter is behind it", n->op->name, n->name);
        return;
    }
    memset(din, 0, sizeof din);
    g->layer = n->layer;
    g->prefix = n->name;
    n->op->grad(g, n, dout, din);
    for (int i = 0; i < n->n_in; i++) give(g, n->in[i], din[i]);
    g->prefix = NULL;
}

void tide_backward(TideGraph *g, TideTensor y, TideTensor dy)
{
    if (!g || g->program->status) return;
    int n_nodes = g->n_nodes, layer = g->layer;

    if (!y.id || !dy.id || !grads_reach(g, g->program->n_tensors)) return;
    graph_phase(g, PHASE_BACKWARD);
    mark_wanted(g, n_nodes);
    give(g, y, dy);
    for (int i = n_nodes - 1; i >= 0 && !g->program->status; i--)
        if (!g->nodes[i]->again && g->nodes[i]->phase == PHASE_FORWARD) {
            back_through(g, g->nodes[i]);
            round_gathered(g, i);
        }
    g->layer = layer;
}
