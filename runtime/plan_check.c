/* plan_check.c - prove that a plan is safe, knowing nothing of who made it.
 *
 * A plan that passes computes, on any schedule of its lanes, what the graphs say: every
 * node reads the tensors in the versions that it reads in the graph's own order, no byte
 * is used for two things at a time, persistent tensors keep their places, and nothing
 * leaves its arena. What it does not prove is that the plan is quick. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/plan_check.h"

/* ---- Messages ------------------------------------------------------------- */

TideStatus proof_refuse(const Proof *pr, const char *format, ...)
{
    char text[960];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!pr->graph) return tide_fail(pr->program->tide, TIDE_BAD_FILE, "plan: %s", text);
    return tide_fail(pr->program->tide, TIDE_BAD_FILE, "plan, section %s: %s", pr->graph->name, text);
}

Text slot_text(const Proof *pr, int slot)
{
    const Slot *s = &pr->section->slots[slot];
    const char *name = s->tensor ? pr->program->tensors[s->tensor]->name : "scratch";
    Text t;

    snprintf(t.s, sizeof t.s, "slot %d (%.80s, %zu bytes at %zu in %s)", slot, name, s->bytes, s->offset,
             space_names[s->space]);
    return t;
}

Text step_text(const Proof *pr, int step)
{
    const Step *s = &pr->section->steps[step];
    const char *kind = step_names[s->kind], *lane = lane_names[s->lane];
    Text t;

    switch (s->kind) {
    case STEP_RUN:
        snprintf(t.s, sizeof t.s, "step %d (run %.80s, %s)", step, pr->graph->nodes[s->node]->name, lane);
        break;
    case STEP_COPY: {
        int id = pr->section->slots[s->src].tensor;
        snprintf(t.s, sizeof t.s, "step %d (copy %.80s from slot %d to %d, %s)", step,
                 id ? pr->program->tensors[id]->name : "scratch", s->src, s->dst, lane);
        break;
    }
    case STEP_RECORD:
    case STEP_WAIT:
    case STEP_KIND_COUNT:
        snprintf(t.s, sizeof t.s, "step %d (%s event %d, %s)", step, kind, s->event, lane);
        break;
    }
    return t;
}

static TideStatus no_memory(const Proof *pr)
{
    return tide_fail(pr->program->tide, TIDE_NO_MEMORY, "no memory to check the plan");
}

/* ---- What the sections share ---------------------------------------------- */

static TideStatus check_hashes(const Proof *pr)
{
    const TidePlan *plan = pr->plan;
    uint64_t program = program_hash(pr->program);
    uint64_t numerics = numerics_hash(pr->program, plan->record);

    if (plan->program_hash != program)
        return proof_refuse(pr,
                            "it was made for program %016" PRIx64 ", this is %016" PRIx64
                            "; give the model and options it was made for, or plan anew",
                            plan->program_hash, program);
    if (plan->numerics_hash != numerics)
        return proof_refuse(pr,
                            "it was made for numerics %016" PRIx64 ", here they are %016" PRIx64
                            "; the device, its libraries or its choices differ, plan anew",
                            plan->numerics_hash, numerics);
    if (plan->n_sections != pr->program->n_graphs)
        return proof_refuse(pr, "it has %d sections, but the program has %d graphs", plan->n_sections,
                            pr->program->n_graphs);
    return TIDE_OK;
}

static TideStatus check_home(Proof *pr, int i)
{
    const Home *h = &pr->plan->homes[i];
    size_t alignment = pr->program->tide->backend->alignment;

    if (h->tensor < 1 || h->tensor >= pr->program->n_tensors)
        return proof_refuse(pr, "home %d is of tensor %d; the program has tensors 1 to %d", i, h->tensor,
                            pr->program->n_tensors - 1);
    const Tensor *t = pr->program->tensors[h->tensor];
    if (t->graph >= 0 || t->flat)
        return proof_refuse(pr, "home %d is of %s, which is no flat persistent tensor", i, t->name);
    if (h->space != SPACE_DEVICE && h->space != SPACE_HOST)
        return proof_refuse(pr, "the home of %s is in space %d; it must be on the device or the host",
                            t->name, (int)h->space);
    if (pr->home_of[h->tensor] != NONE)
        return proof_refuse(pr, "%s has two homes, %d and %d", t->name, pr->home_of[h->tensor], i);
    if (h->bytes < t->bytes)
        return proof_refuse(pr, "the home of %s has %zu bytes, the tensor takes %zu", t->name, h->bytes,
                            t->bytes);
    size_t arena = pr->plan->arena_bytes[h->space];
    if (h->offset > arena || h->bytes > arena - h->offset)
        return proof_refuse(pr, "the home of %s, %zu bytes at %zu, leaves the %s arena of %zu bytes", t->name,
                            h->bytes, h->offset, space_names[h->space], arena);
    if (h->offset % alignment)
        return proof_refuse(pr, "the home of %s at %zu does not start at a multiple of %zu", t->name,
                            h->offset, alignment);
    pr->home_of[h->tensor] = i;
    return TIDE_OK;
}

static int by_place(const void *x, const void *y)
{
    const Home *a = *(const Home *const *)x, *b = *(const Home *const *)y;

    if (a->space != b->space) return a->space < b->space ? -1 : 1;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes); /* an empty flat lies before its neighbour */
}

static TideStatus homes_apart(const Proof *pr)
{
    int n = pr->plan->n_homes;
    const Home **h = malloc(((size_t)n + 1) * sizeof *h);
    TideStatus status = TIDE_OK;

    if (!h) return no_memory(pr);
    for (int i = 0; i < n; i++) h[i] = &pr->plan->homes[i];
    qsort(h, (size_t)n, sizeof *h, by_place);
    for (int i = 0; i + 1 < n && !status; i++)
        if (h[i]->space == h[i + 1]->space && h[i]->bytes > h[i + 1]->offset - h[i]->offset)
            status = proof_refuse(pr, "the homes of %s (%zu bytes at %zu) and %s (at %zu) overlap",
                                  pr->program->tensors[h[i]->tensor]->name, h[i]->bytes, h[i]->offset,
                                  pr->program->tensors[h[i + 1]->tensor]->name, h[i + 1]->offset);
    free(h);
    return status;
}

static TideStatus check_homes(Proof *pr)
{
    if (pr->plan->n_homes < 0) return proof_refuse(pr, "it has %d homes", pr->plan->n_homes);
    for (int i = 0; i < pr->plan->n_homes; i++) TRY(check_home(pr, i));
    for (int id = 1; id < pr->program->n_tensors; id++) {
        const Tensor *t = pr->program->tensors[id];
        if (t->graph < 0 && !t->flat && t->bytes && pr->home_of[id] == NONE)
            return proof_refuse(pr, "%s has no home", t->name);
    }
    return homes_apart(pr);
}

/* Group the views by flat. Views were appended in order of offset, and ids grow with them. */
static void group_views(Proof *pr)
{
    const TideProgram *p = pr->program;
    int *group = pr->home; /* borrowed: by flat tensor, where its views go */
    int n = 0;

    for (int id = 1; id < p->n_tensors; id++)
        if (p->tensors[id]->graph < 0 && !p->tensors[id]->flat) {
            group[id] = pr->n_flats;
            pr->flats[pr->n_flats++] = (Flat){ id, 0, 0 };
        }
    for (int id = 1; id < p->n_tensors; id++)
        if (p->tensors[id]->flat) pr->flats[group[p->tensors[id]->flat]].n++;
    for (int i = 0; i < pr->n_flats; n += pr->flats[i++].n) pr->flats[i].first = n;
    for (int i = 0; i < pr->n_flats; i++) pr->flats[i].n = 0;
    for (int id = 1; id < p->n_tensors; id++)
        if (p->tensors[id]->flat) {
            Flat *f = &pr->flats[group[p->tensors[id]->flat]];
            pr->views[f->first + f->n++] = id;
        }
}

static TideStatus check_decisions(const Proof *pr)
{
    for (int i = 0; i < pr->plan->n_decisions; i++) {
        const Decision *d = &pr->plan->decisions[i];
        if (d->tensor < 1 || d->tensor >= pr->program->n_tensors)
            return proof_refuse(pr, "decision %d is about tensor %d; the program has tensors 1 to %d", i,
                                d->tensor, pr->program->n_tensors - 1);
        if ((int)d->fate < 0 || d->fate >= TIDE_FATE_COUNT)
            return proof_refuse(pr, "decision %d is fate %d of %d", i, (int)d->fate, TIDE_FATE_COUNT);
        if (d->node < NONE || d->node >= pr->program->graphs[0]->n_nodes)
            return proof_refuse(pr, "decision %d names node %d of %d", i, d->node,
                                pr->program->graphs[0]->n_nodes);
    }
    return TIDE_OK;
}

/* ---- Sections ------------------------------------------------------------- */

static TideStatus check_counts(const Proof *pr, int index)
{
    const Section *s = pr->section;

    if (s->graph != index)
        return proof_refuse(pr, "section %d is of graph %d; sections stand in the order of graphs", index,
                            s->graph);
    if (s->n_slots < 0 || s->n_steps < 0 || s->n_args < 0)
        return proof_refuse(pr, "%d slots, %d steps and %d arguments cannot be", s->n_slots, s->n_steps,
                            s->n_args);
    if (s->n_events < 0 || s->n_events > s->n_steps)
        return proof_refuse(pr, "%d events cannot be recorded in %d steps", s->n_events, s->n_steps);
    return TIDE_OK;
}

static void section_close(Proof *pr)
{
    free(pr->wanted);
    free(pr->wanted_at);
    free(pr->runs);
    free(pr->clock);
    free(pr->rank);
    free(pr->use);
    pr->wanted = pr->wanted_at = pr->runs = pr->rank = NULL;
    pr->clock = NULL;
    pr->use = NULL;
    pr->graph = NULL;
}

static TideStatus section_open(Proof *pr)
{
    size_t n_args = 0, n_nodes = (size_t)pr->graph->n_nodes + 1, n_steps = (size_t)pr->section->n_steps + 1;

    for (int i = 0; i < pr->graph->n_nodes; i++)
        n_args += (size_t)(pr->graph->nodes[i]->n_in + pr->graph->nodes[i]->n_out);
    pr->wanted = malloc((n_args + 1) * sizeof *pr->wanted);
    pr->wanted_at = malloc(n_nodes * sizeof *pr->wanted_at);
    pr->runs = calloc(n_nodes, sizeof *pr->runs);
    pr->clock = malloc(n_steps * sizeof *pr->clock);
    pr->rank = malloc(n_steps * sizeof *pr->rank);
    pr->use = malloc(((size_t)pr->section->n_slots + 1) * sizeof *pr->use);
    for (int id = 0; id < pr->program->n_tensors; id++) pr->home[id] = pr->stage[id] = NONE;
    return pr->wanted && pr->wanted_at && pr->runs && pr->clock && pr->rank && pr->use ? TIDE_OK
                                                                                       : no_memory(pr);
}

static TideStatus prove_section(Proof *pr, const bool *carried)
{
    TRY(section_open(pr));
    proof_read_graph(pr, carried);
    TRY(proof_structure(pr));
    TRY(proof_order(pr));
    TRY(proof_meaning(pr));
    TRY(proof_bytes(pr));
    return proof_end(pr);
}

/* ---- Staging memory ------------------------------------------------------- */

typedef struct Staged {
    const Slot *slot;
    int section;
} Staged;

static int by_offset(const void *x, const void *y)
{
    const Staged *a = x, *b = y;

    return (a->slot->offset > b->slot->offset) - (a->slot->offset < b->slot->offset);
}

/* The host fills the inputs of one graph while another graph runs, and reads outputs later still, so
 * staging memory is shared by no two slots of any two sections. list: room for all of them. */
static TideStatus stages_apart(Proof *pr, Staged *list)
{
    int n = 0;

    for (int i = 0; i < pr->plan->n_sections; i++)
        for (int j = 0; j < pr->plan->sections[i].n_slots; j++)
            if (pr->plan->sections[i].slots[j].space == SPACE_STAGE)
                list[n++] = (Staged){ &pr->plan->sections[i].slots[j], i };
    qsort(list, (size_t)n, sizeof *list, by_offset);
    for (int i = 0; i + 1 < n; i++) {
        const Slot *a = list[i].slot, *b = list[i + 1].slot;
        if (a->bytes > b->offset - a->offset)
            return proof_refuse(
                pr,
                "%s of section %s (%zu bytes at %zu) and %s of section %s (at %zu) share staging "
                "memory",
                pr->program->tensors[a->tensor]->name, pr->program->graphs[list[i].section]->name, a->bytes,
                a->offset, pr->program->tensors[b->tensor]->name,
                pr->program->graphs[list[i + 1].section]->name, b->offset);
    }
    return TIDE_OK;
}

static TideStatus check_stages(Proof *pr)
{
    size_t n = 1;

    for (int i = 0; i < pr->plan->n_sections; i++) n += (size_t)pr->plan->sections[i].n_slots;
    Staged *list = malloc(n * sizeof *list);
    TideStatus status = list ? stages_apart(pr, list) : no_memory(pr);
    free(list);
    return status;
}

/* ---- The whole ------------------------------------------------------------ */

static TideStatus prove(Proof *pr, bool *carried)
{
    TRY(check_hashes(pr));
    TRY(check_homes(pr));
    TRY(check_decisions(pr));
    group_views(pr);
    proof_find_carried(pr->program, pr->fact, carried);
    for (int i = 0; i < pr->plan->n_sections; i++) {
        pr->section = &pr->plan->sections[i];
        pr->graph = pr->program->graphs[i];
        TideStatus status = check_counts(pr, i);
        if (!status) status = prove_section(pr, carried);
        section_close(pr);
        TRY(status);
    }
    return check_stages(pr);
}

TideStatus tide_plan_check(const TideProgram *p, const TidePlan *plan)
{
    TRY(tide_program_check(p));
    size_t n = (size_t)p->n_tensors + 1;
    Proof pr = { .program = p, .plan = plan };
    bool *carried = calloc(n, sizeof *carried);

    pr.home_of = malloc(n * sizeof *pr.home_of);
    pr.flats = malloc(n * sizeof *pr.flats);
    pr.views = malloc(n * sizeof *pr.views);
    pr.fact = malloc(n * sizeof *pr.fact);
    pr.home = malloc(n * sizeof *pr.home);
    pr.stage = malloc(n * sizeof *pr.stage);
    bool ok = pr.home_of && pr.flats && pr.views && pr.fact && pr.home && pr.stage && carried;
    for (int id = 0; ok && id < p->n_tensors; id++) pr.home_of[id] = NONE;
    TideStatus status = ok ? prove(&pr, carried) : no_memory(&pr);
    free(pr.home_of);
    free(pr.flats);
    free(pr.views);
    free(pr.fact);
    free(pr.home);
    free(pr.stage);
    free(carried);
    return status;
}
