/* plan_check_graph.c - what the checker takes from a graph: versions and lives.
 *
 * A tensor's version is the number of nodes that wrote it so far in the graph's own
 * order. An input, and what a persistent tensor holds at the start, is version 0. */
#include "runtime/base.h"
#include "runtime/plan_check.h"

static int earlier(int a, int b)
{
    return a == NONE || (b != NONE && b < a) ? b : a;
}

/* First accesses and versions of one graph. wanted and wanted_at may be NULL. */
static void read_nodes(const TideGraph *g, Fact *fact, int *wanted, int *wanted_at)
{
    int at = 0;

    for (int id = 0; id < g->program->n_tensors; id++) fact[id] = (Fact){ NONE, NONE, 0, false, false };
    for (int i = 0; i < g->n_nodes; i++) {
        const Node *n = g->nodes[i];
        if (wanted_at) wanted_at[i] = at;
        for (int j = 0; j < n->n_in; j++, at++) {
            Fact *f = &fact[n->in[j].id];
            f->first_in = earlier(f->first_in, i);
            if (wanted) wanted[at] = f->writes;
        }
        for (int j = 0; j < n->n_out; j++, at++) {
            Fact *f = &fact[n->out[j].id];
            f->first_out = earlier(f->first_out, i);
            if (!n->again) f->writes++;
            if (wanted) wanted[at] = f->writes;
        }
    }
}

static void take_accesses(Fact *f, const Fact *other)
{
    f->first_in = earlier(f->first_in, other->first_in);
    f->first_out = earlier(f->first_out, other->first_out);
}

/* A flat tensor and its views are names for the same bytes: what happens to the flat happens to each
 * view, what happens to a view happens to the flat. */
static void join_views(const TideProgram *p, Fact *fact)
{
    for (int id = 1; id < p->n_tensors; id++)
        if (p->tensors[id]->flat) take_accesses(&fact[id], &fact[p->tensors[id]->flat]);
    for (int id = 1; id < p->n_tensors; id++)
        if (p->tensors[id]->flat) take_accesses(&fact[p->tensors[id]->flat], &fact[id]);
}

static bool reads_first(const Fact *f)
{
    return f->first_in != NONE && (f->first_out == NONE || f->first_in <= f->first_out);
}

/* One of two questions about each gradient: is it written by a graph, and is it read there first? */
static void find_written(const TideProgram *p, Fact *fact, bool read_first, bool *answer)
{
    for (int i = 0; i < p->n_graphs; i++) {
        read_nodes(p->graphs[i], fact, NULL, NULL);
        join_views(p, fact);
        for (int id = 1; id < p->n_tensors; id++)
            if (fact[id].first_out != NONE && (!read_first || reads_first(&fact[id]))) answer[id] = true;
    }
}

void proof_find_carried(const TideProgram *p, Fact *fact, bool *carried)
{
    find_written(p, fact, false, carried);
    for (int id = 1; id < p->n_tensors; id++)
        carried[id] = p->tensors[id]->graph < 0 && (p->tensors[id]->kind != TIDE_GRADIENT || !carried[id]);
    find_written(p, fact, true, carried);
}

void proof_read_graph(Proof *pr, const bool *carried)
{
    read_nodes(pr->graph, pr->fact, pr->wanted, pr->wanted_at);
    join_views(pr->program, pr->fact);
    for (int id = 1; id < pr->program->n_tensors; id++) {
        Fact *f = &pr->fact[id];
        if (pr->program->tensors[id]->graph >= 0) continue;
        f->live_in = carried[id] || reads_first(f);
        f->live_out = carried[id] || f->first_out != NONE;
    }
}

bool proof_runs_once(const Proof *pr, const Node *n)
{
    if (n->op->facts & OP_ONCE) return true;
    for (int i = 0; i < n->n_out; i++) {
        int id = n->out[i].id;
        if (id == 0) continue;
        if (pr->program->tensors[id]->graph < 0) return true;
        if (!n->again && pr->fact[id].writes > 1) return true; /* one of a chain of writers */
        for (int j = 0; j < n->n_in; j++)
            if (n->in[j].id == id) return true;
    }
    return false;
}
