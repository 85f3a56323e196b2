/* report.c - what a session planned, as JSON and in words. */
#include "examples/report.h"

#include <inttypes.h>
#include "runtime/base.h"
#include "runtime/report/account.h"

static double update_seconds(const Session *s, const TidePlan *plan)
{
    return s->model ? section_seconds(plan, tide_graph_index(s->model->update)) : 0;
}

double plan_step_seconds(const Session *s, const TidePlan *plan)
{
    return session_accum(s) * tide_plan_stats(plan).seconds + update_seconds(s, plan);
}

double plan_step_bound(const Session *s, const TidePlan *plan, double micro)
{
    return plan_step_seconds(s, plan) - session_accum(s) * (tide_plan_stats(plan).seconds - micro);
}

double step_seconds(const Session *s)
{
    return plan_step_seconds(s, s->plan);
}

static double keep_step_seconds(const Session *s)
{
    return session_accum(s) * s->stats.keep_seconds + update_seconds(s, s->plan);
}

static json_t *json_bytes(size_t bytes)
{
    return json_integer((json_int_t)bytes);
}

static json_t *tally_json(TideTally t)
{
    return json_pack("{s:i, s:I}", "tensors", t.tensors, "bytes", (json_int_t)t.bytes);
}

static void add_bytes(const Session *s, json_t *j)
{
    size_t fixed = s->fixed_bytes;

    json_object_set_new(j, "budget_bytes", s->budget_bytes ? json_bytes(s->budget_bytes) : json_null());
    json_object_set_new(j, "fixed_bytes", json_bytes(fixed));
    json_object_set_new(j, "static_bytes", json_bytes(s->static_bytes));
    json_object_set_new(j, "arena_bytes", json_bytes(s->stats.device_bytes));
    json_object_set_new(j, "arena_bound_bytes", json_bytes(s->stats.live_bytes));
    json_object_set_new(j, "host_bytes", json_bytes(s->stats.host_bytes));
    json_object_set_new(j, "keep_bytes", json_bytes(fixed + s->stats.keep_bytes));
    json_object_set_new(j, "least_budget_bytes", json_bytes(fixed + s->stats.least_bytes));
    json_object_set_new(j, "least_bound_bytes", json_bytes(fixed + s->stats.least_bound_bytes));
}

static double step_bound(const Session *s, double micro)
{
    return plan_step_bound(s, s->plan, micro);
}

/* null, as everywhere in this program, means "not known". */
static void add_bound(const Session *s, json_t *j, double micro, const char *seconds, const char *gap)
{
    double bound = step_bound(s, micro);

    json_object_set_new(j, seconds, micro > 0 ? json_number(bound) : json_null());
    json_object_set_new(j, gap, micro > 0 ? json_number(step_seconds(s) / bound - 1) : json_null());
}

static void add_times(const Session *s, json_t *j)
{
    int accum = session_accum(s);

    json_object_set_new(j, "step_seconds", json_number(step_seconds(s)));
    json_object_set_new(j, "keep_seconds", json_number(keep_step_seconds(s)));
    add_bound(s, j, s->stats.bound_seconds, "bound_seconds", "gap");
    add_bound(s, j, s->stats.bound_lp_seconds, "bound_lp_seconds", "gap_lp");
    json_object_set_new(j, "recompute_seconds", json_number(accum * s->stats.recompute_seconds));
    json_object_set_new(j, "stall_seconds", json_number(accum * s->stats.stall_seconds));
    json_object_set_new(j, "bytes_out", json_bytes((size_t)accum * s->stats.bytes_out));
    json_object_set_new(j, "bytes_in", json_bytes((size_t)accum * s->stats.bytes_in));
}

/* What a graph file does not know is null. */
static json_t *model_json(const Session *s)
{
    const ModelConfig *c = s->model ? &s->model->config : NULL;

    if (!c)
        return json_pack("{s:s, s:n, s:n, s:i, s:n, s:n}", "model", tide_graph_name(s->micro), "batch", "seq",
                         "accum", 1, "dtype", "parameters");
    return json_pack("{s:s, s:i, s:i, s:i, s:s, s:I}", "model", c->name, "batch", c->batch, "seq", c->seq,
                     "accum", c->accum, "dtype", type_name(c->dtype), "parameters",
                     (json_int_t)model_parameters(s->model));
}

json_t *plan_json(const Session *s)
{
    json_t *j = model_json(s);

    if (!j) return NULL;
    json_object_set_new(j, "device", json_string(s->device));
    json_object_set_new(j, "policy", json_string(policy_names[s->plan->policy]));
    add_bytes(s, j);
    add_times(s, j);
    json_object_set_new(j, "kept", tally_json(s->stats.fate[TIDE_KEEP]));
    json_object_set_new(j, "recomputed", tally_json(s->stats.fate[TIDE_RECOMPUTE]));
    json_object_set_new(j, "offloaded", tally_json(s->stats.fate[TIDE_OFFLOAD]));
    json_object_set_new(j, "plan_seconds", json_number(s->stats.plan_seconds));
    json_object_set_new(j, "checked", json_boolean(s->stats.checked));
    json_object_set_new(j, "numerics", json_hash(s->plan->numerics_hash));
    return j;
}

static void model_headline(const Session *s, FILE *to)
{
    const ModelConfig *c = s->model ? &s->model->config : NULL;

    if (!c) {
        fprintf(to, "%s, a graph with its costs from %s\n", tide_graph_name(s->micro), s->options->model);
        return;
    }
    fprintf(to, "%s: %d layers, width %d, %d heads, %" PRId64 " parameters; batch %d of %d, %s, on %s\n",
            c->name, c->layers, c->width, c->heads, model_parameters(s->model), c->batch, c->seq,
            type_name(c->dtype), s->device);
}

void plan_headline(const Session *s, FILE *to)
{
    char budget[BYTES_TEXT], arena[BYTES_TEXT], host[BYTES_TEXT];

    model_headline(s, to);
    if (s->budget_bytes)
        fprintf(to, "budget %s (%s)", bytes_text(s->budget_bytes, budget),
                s->options->budget.text ? s->options->budget.text : "what is free, less a margin");
    else
        fprintf(to, "no budget");
    fprintf(to, ": policy %s takes %s of device memory and %s of pinned host memory\n",
            policy_names[s->plan->policy], bytes_text(s->fixed_bytes + s->stats.device_bytes, arena),
            bytes_text(s->stats.host_bytes, host));
}

static void print_tally(const Session *s, TideFate fate, const char *what, FILE *to)
{
    char text[BYTES_TEXT];

    fprintf(to, "%s %d (%s)", what, s->stats.fate[fate].tensors, bytes_text(s->stats.fate[fate].bytes, text));
}

/* How far the plan is from what is proven. */
static void print_bounds(const Session *s, FILE *to)
{
    double step = step_seconds(s), any = step_bound(s, s->stats.bound_seconds),
           lp = step_bound(s, s->stats.bound_lp_seconds);

    if (s->stats.bound_seconds <= 0) return;
    fprintf(to, "proven: no schedule of these nodes in this order takes less than %.2f ms (gap %.2f %%)",
            any * 1e3, 100 * (step / any - 1));
    if (s->stats.bound_lp_seconds > 0)
        fprintf(to, "; none with one fate for each tensor takes less than %.2f ms (gap %.2f %%)", lp * 1e3,
                100 * (step / lp - 1));
    fputs("\n", to);
}

void plan_summary(const Session *s, FILE *to)
{
    const TidePlanStats *t = &s->stats;
    double keep = keep_step_seconds(s), step = step_seconds(s);
    char a[BYTES_TEXT], b[BYTES_TEXT];
    int accum = session_accum(s);

    print_tally(s, TIDE_KEEP, "activations kept", to);
    print_tally(s, TIDE_RECOMPUTE, ", recomputed", to);
    print_tally(s, TIDE_OFFLOAD, ", offloaded", to);
    fprintf(to, "\npredicted step %.2f ms: recompute %.2f ms, stall %.2f ms; moved out %s, in %s\n",
            step * 1e3, accum * t->recompute_seconds * 1e3, accum * t->stall_seconds * 1e3,
            bytes_text((size_t)accum * t->bytes_out, a), bytes_text((size_t)accum * t->bytes_in, b));
    print_bounds(s, to);
    fprintf(to, "keeping everything would take %s and %.2f ms (this plan: %+.1f %% of time)\n",
            bytes_text(s->fixed_bytes + t->keep_bytes, a), keep * 1e3,
            keep > 0 ? (step / keep - 1) * 100 : 0.0);
    fprintf(to, "least budget found %s; proven that none can be below %s\n",
            bytes_text(s->fixed_bytes + t->least_bytes, a),
            bytes_text(s->fixed_bytes + t->least_bound_bytes, b));
    fprintf(to, "planned in %.1f ms, checked\n", t->plan_seconds * 1e3);
}
