/* plan_save.c - a plan to JSON, one slot or step a line.
 *
 * Numbers are for the machine, names for the reader. Equal plans give equal bytes. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/io/json_read.h"
#include "runtime/io/out_file.h"
#include "runtime/plan_json.h"

const StatField stat_sizes[STAT_SIZES] = {
    { "device_bytes", offsetof(TidePlanStats, device_bytes) },
    { "host_bytes", offsetof(TidePlanStats, host_bytes) },
    { "static_bytes", offsetof(TidePlanStats, static_bytes) },
    { "live_bytes", offsetof(TidePlanStats, live_bytes) },
    { "keep_bytes", offsetof(TidePlanStats, keep_bytes) },
    { "least_bytes", offsetof(TidePlanStats, least_bytes) },
    { "least_bound_bytes", offsetof(TidePlanStats, least_bound_bytes) },
    { "bytes_out", offsetof(TidePlanStats, bytes_out) },
    { "bytes_in", offsetof(TidePlanStats, bytes_in) },
};
const StatField stat_reals[STAT_REALS] = {
    { "seconds", offsetof(TidePlanStats, seconds) },
    { "keep_seconds", offsetof(TidePlanStats, keep_seconds) },
    { "recompute_seconds", offsetof(TidePlanStats, recompute_seconds) },
    { "stall_seconds", offsetof(TidePlanStats, stall_seconds) },
    { "bound_seconds", offsetof(TidePlanStats, bound_seconds) },
    { "bound_lp_seconds", offsetof(TidePlanStats, bound_lp_seconds) },
    { "plan_seconds", offsetof(TidePlanStats, plan_seconds) },
};

/* 17 digits bring a double back to the same bits. */
static void put_real(FILE *to, double x)
{
    fprintf(to, "%.17g", x);
}

static void put_name(FILE *to, const TideProgram *p, int tensor)
{
    write_text(to, tensor ? p->tensors[tensor]->name : "scratch");
}

static void put_stats(FILE *to, const TidePlanStats *s)
{
    fputs("{", to);
    for (int i = 0; i < STAT_SIZES; i++)
        fprintf(to, "\n   \"%s\": %zu,", stat_sizes[i].key,
                *(const size_t *)((const char *)s + stat_sizes[i].at));
    for (int i = 0; i < STAT_REALS; i++) {
        fprintf(to, "\n   \"%s\": ", stat_reals[i].key);
        put_real(to, *(const double *)((const char *)s + stat_reals[i].at));
        fputs(",", to);
    }
    fputs("\n   \"tallies\": {", to);
    for (int i = 0; i < TIDE_FATE_COUNT; i++)
        fprintf(to, "%s\"%s\": [%d, %zu]", i ? ", " : "", fate_names[i], s->fate[i].tensors,
                s->fate[i].bytes);
    fputs("}\n }", to);
}

static void put_homes(FILE *to, const TideProgram *p, const TidePlan *plan)
{
    fputs("[", to);
    for (int i = 0; i < plan->n_homes; i++) {
        const Home *h = &plan->homes[i];
        fprintf(to, "%s\n   [%d, \"%s\", %zu, %zu, ", i ? "," : "", h->tensor, space_names[h->space],
                h->offset, h->bytes);
        put_name(to, p, h->tensor);
        fputs("]", to);
    }
    fputs("]", to);
}

static void put_decisions(FILE *to, const TideProgram *p, const TidePlan *plan)
{
    fputs("[", to);
    for (int i = 0; i < plan->n_decisions; i++) {
        const Decision *d = &plan->decisions[i];
        fprintf(to, "%s\n   [%d, \"%s\", ", i ? "," : "", d->tensor, fate_names[d->fate]);
        put_real(to, d->price);
        fprintf(to, ", %zu, ", d->flip_bytes);
        put_name(to, p, d->tensor);
        fprintf(to, ", %zu, %d, ", p->tensors[d->tensor]->bytes, d->node);
        write_text(to, d->node >= 0 ? p->graphs[0]->nodes[d->node]->name : "");
        fprintf(to, ", %zu", d->live_bytes);
        for (int fate = TIDE_KEEP; fate < TIDE_FATE_COUNT; fate++) {
            fputs(", ", to);
            put_real(to, d->seconds[fate]);
        }
        fputs("]", to);
    }
    fputs("]", to);
}

static void put_step(FILE *to, const TideGraph *g, const Section *sec, const Step *s)
{
    fprintf(to, "[\"%s\", \"%s\", ", step_names[s->kind], lane_names[s->lane]);
    switch (s->kind) {
    case STEP_RUN: {
        const Node *n = g->nodes[s->node];
        fprintf(to, "%d, [", s->node);
        for (int i = 0; i < n->n_in + n->n_out + 1; i++)
            fprintf(to, "%s%d", i ? ", " : "", sec->args[s->first_arg + i]);
        fputs("]]", to);
        break;
    }
    case STEP_COPY: fprintf(to, "%d, %d]", s->src, s->dst); break;
    case STEP_RECORD:
    case STEP_WAIT:
    case STEP_KIND_COUNT: fprintf(to, "%d]", s->event); break;
    }
}

static void put_section(FILE *to, const TideProgram *p, const Section *s)
{
    const TideGraph *g = p->graphs[s->graph];

    fputs("{\"graph\": ", to);
    write_text(to, g->name);
    fprintf(to, ", \"events\": %d,\n   \"slots\": [", s->n_events);
    for (int i = 0; i < s->n_slots; i++) {
        const Slot *at = &s->slots[i];
        fprintf(to, "%s\n    [%d, \"%s\", %zu, %zu, ", i ? "," : "", at->tensor, space_names[at->space],
                at->offset, at->bytes);
        put_name(to, p, at->tensor);
        fputs("]", to);
    }
    fputs("],\n   \"steps\": [", to);
    for (int i = 0; i < s->n_steps; i++) {
        fputs(i ? ",\n    " : "\n    ", to);
        put_step(to, g, s, &s->steps[i]);
    }
    fputs("]", to);
    for (int i = 0; s->spans && i < s->n_steps; i++) {
        fputs(i ? ",\n    [" : ",\n   \"timeline\": [\n    [", to);
        put_real(to, s->spans[i].start);
        fputs(", ", to);
        put_real(to, s->spans[i].end);
        fputs(i + 1 < s->n_steps ? "]" : "]]", to);
    }
    fputs("}", to);
}

static void put_plan(FILE *to, const TideProgram *p, const TidePlan *plan)
{
    fprintf(to,
            "{\"tide_plan\": %d,\n \"program\": \"%016" PRIx64 "\",\n \"numerics\": \"%016" PRIx64 "\",\n",
            PLAN_VERSION, plan->program_hash, plan->numerics_hash);
    fprintf(to, " \"policy\": \"%s\",\n \"fixed_bytes\": %zu,\n", policy_names[plan->policy],
            plan->fixed_bytes);
    if (plan->record) fprintf(to, " \"record\": %s,\n", plan->record);
    fputs(" \"arena\": {", to);
    for (int i = 0; i < SPACE_COUNT; i++)
        fprintf(to, "%s\"%s\": %zu", i ? ", " : "", space_names[i], plan->arena_bytes[i]);
    fputs("},\n \"homes\": ", to);
    put_homes(to, p, plan);
    fputs(",\n \"decisions\": ", to);
    put_decisions(to, p, plan);
    fputs(",\n \"stats\": ", to);
    put_stats(to, &plan->stats);
    fputs(",\n \"sections\": [", to);
    for (int i = 0; i < plan->n_sections; i++) {
        fputs(i ? ",\n  " : "\n  ", to);
        put_section(to, p, &plan->sections[i]);
    }
    fputs("]}\n", to);
}

static bool decision_is_finite(const Decision *d)
{
    for (int fate = TIDE_KEEP; fate < TIDE_FATE_COUNT; fate++)
        if (!isfinite(d->seconds[fate])) return false;
    return isfinite(d->price);
}

/* JSON has no infinity and no NaN: what of the plan is one, NULL if nothing is. */
static const char *not_finite(const TidePlan *plan)
{
    for (int i = 0; i < STAT_REALS; i++)
        if (!isfinite(*(const double *)((const char *)&plan->stats + stat_reals[i].at)))
            return stat_reals[i].key;
    for (int i = 0; i < plan->n_decisions; i++)
        if (!decision_is_finite(&plan->decisions[i])) return "price";
    for (int i = 0; i < plan->n_sections; i++)
        for (int j = 0; plan->sections[i].spans && j < plan->sections[i].n_steps; j++)
            if (!isfinite(plan->sections[i].spans[j].start) || !isfinite(plan->sections[i].spans[j].end))
                return "timeline";
    return NULL;
}

TideStatus tide_plan_save(const TideProgram *p, const TidePlan *plan, const char *path)
{
    const char *odd = not_finite(plan);

    if (odd) return tide_fail(p->tide, TIDE_BAD_FILE, "%s: the plan's %s is no finite number", path, odd);
    OutFile file;
    if (!out_file_open(&file, path))
        return tide_fail(p->tide, TIDE_IO, "%s: cannot write the plan: %s", path, strerror(errno));
    put_plan(file.to, p, plan);
    if (!out_file_close(&file))
        return tide_fail(p->tide, TIDE_IO, "%s: the plan was cut short: %s", path, strerror(errno));
    return TIDE_OK;
}
