/* plan_print.c - a plan as a listing: its account, then one step a line. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/graph.h"
#include "runtime/plan.h"

typedef struct Text {
    char s[48];
} Text;

/* ---- Numbers for people --------------------------------------------------- */

static Text size_text(size_t bytes)
{
    Text t;

    bytes_text(bytes, t.s);
    return t;
}

/* An offset as short as it is exact: "0", "768", "12K", "8M", "8M+256". */
static Text offset_text(size_t offset)
{
    static const struct {
        size_t bytes;
        char name;
    } units[] = { { (size_t)1 << 30, 'G' }, { (size_t)1 << 20, 'M' }, { (size_t)1 << 10, 'K' } };
    Text t = { "" };

    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (offset < units[i].bytes) continue;
        size_t n = strlen(t.s);
        snprintf(t.s + n, sizeof t.s - n, "%s%zu%c", n ? "+" : "", offset / units[i].bytes, units[i].name);
        offset %= units[i].bytes;
    }
    size_t n = strlen(t.s);
    if (offset || n == 0) snprintf(t.s + n, sizeof t.s - n, "%s%zu", n ? "+" : "", offset);
    return t;
}

static Text seconds_text(double seconds)
{
    Text t;

    if (seconds >= 1)
        snprintf(t.s, sizeof t.s, "%.3f s", seconds);
    else if (seconds >= 1e-3)
        snprintf(t.s, sizeof t.s, "%.2f ms", seconds * 1e3);
    else
        snprintf(t.s, sizeof t.s, "%.1f us", seconds * 1e6);
    return t;
}

/* ---- The account ---------------------------------------------------------- */

static void print_head(const TideProgram *p, const TidePlan *plan, FILE *to)
{
    const TidePlanStats *s = &plan->stats;
    size_t stage = plan->arena_bytes[SPACE_STAGE];

    fprintf(to, "plan for program %016" PRIx64 ", policy %s, %d graphs\n", plan->program_hash,
            policy_names[plan->policy], p->n_graphs);
    fprintf(to, "device %s (persistent %s; keeping everything takes %s)   host %s, staging 2 x %s\n",
            size_text(plan->arena_bytes[SPACE_DEVICE]).s, size_text(s->static_bytes).s,
            size_text(s->keep_bytes).s, size_text(plan->arena_bytes[SPACE_HOST]).s, size_text(stage).s);
    fprintf(to, "kept %d (%s)   recomputed %d (%s)   offloaded %d (%s)\n", s->fate[TIDE_KEEP].tensors,
            size_text(s->fate[TIDE_KEEP].bytes).s, s->fate[TIDE_RECOMPUTE].tensors,
            size_text(s->fate[TIDE_RECOMPUTE].bytes).s, s->fate[TIDE_OFFLOAD].tensors,
            size_text(s->fate[TIDE_OFFLOAD].bytes).s);
    fprintf(to, "predicted %s (recompute %s, stall %s)\n", seconds_text(s->seconds).s,
            seconds_text(s->recompute_seconds).s, seconds_text(s->stall_seconds).s);
}

/* ---- Steps ---------------------------------------------------------------- */

/* "name @8M": a tensor and where it lies; host and staging memory are named. */
static void print_place(const TideProgram *p, const Slot *s, FILE *to)
{
    const char *name = s->tensor ? p->tensors[s->tensor]->name : "scratch";
    const char *space = s->space == SPACE_DEVICE ? "" : space_names[s->space];

    fprintf(to, " %s @%s%s%s", name, space, *space ? ":" : "", offset_text(s->offset).s);
}

/* Inputs by name, outputs with their places, scratch by size. */
static void print_run(const TideProgram *p, const Section *sec, const Step *s, FILE *to)
{
    const Node *n = p->graphs[sec->graph]->nodes[s->node];
    const int *arg = sec->args + s->first_arg;
    int scratch = arg[n->n_in + n->n_out];

    fprintf(to, "%s ", n->name);
    for (int i = 0; i < n->n_in; i++)
        if (arg[i] >= 0) fprintf(to, " %s", p->tensors[sec->slots[arg[i]].tensor]->name);
    fputs(" ->", to);
    for (int i = n->n_in; i < n->n_in + n->n_out; i++)
        if (arg[i] >= 0) print_place(p, &sec->slots[arg[i]], to);
    if (scratch >= 0) fprintf(to, " scratch %s", size_text(sec->slots[scratch].bytes).s);
}

static void print_copy(const TideProgram *p, const Section *sec, const Step *s, FILE *to)
{
    print_place(p, &sec->slots[s->src], to);
    fputs(" ->", to);
    print_place(p, &sec->slots[s->dst], to);
    fprintf(to, "  %s", size_text(program_tensor(p, sec->slots[s->src].tensor)->bytes).s);
}

/* ran: how often each node ran before this step. */
static void print_step(const TideProgram *p, const Section *sec, int step, int *ran, FILE *to)
{
    const Step *s = &sec->steps[step];
    const Node *n = s->kind == STEP_RUN ? p->graphs[sec->graph]->nodes[s->node] : NULL;

    fprintf(to, "%5d  %-8s %-7s ", step, lane_names[s->lane], step_names[s->kind]);
    if (n)
        print_run(p, sec, s, to);
    else if (s->kind == STEP_COPY)
        print_copy(p, sec, s, to);
    else
        fprintf(to, "e%d", s->event);
    if (sec->spans && (n || s->kind == STEP_COPY))
        fprintf(to, "  %s", seconds_text(sec->spans[step].end - sec->spans[step].start).s);
    fputs(n && (ran[s->node]++ > 0 || n->again) ? "  again\n" : "\n", to);
}

static void print_section(const TideProgram *p, const Section *sec, FILE *to)
{
    const TideGraph *g = p->graphs[sec->graph];
    int *ran = calloc((size_t)g->n_nodes + 1, sizeof *ran);

    fprintf(to, "\ngraph %s: %d nodes, %d steps, %d slots, %d events\n", g->name, g->n_nodes, sec->n_steps,
            sec->n_slots, sec->n_events);
    if (!ran) {
        fputs("no memory to list its steps\n", to);
        return;
    }
    fputs(" step  lane     what\n", to);
    for (int i = 0; i < sec->n_steps; i++) print_step(p, sec, i, ran, to);
    free(ran);
}

void tide_plan_print(const TideProgram *p, const TidePlan *plan, FILE *to)
{
    print_head(p, plan, to);
    for (int i = 0; i < plan->n_sections; i++) print_section(p, &plan->sections[i], to);
}
