/* plan_load.c - a plan from JSON.
 *
 * Names are read past: loading believes only the numbers, and of those nothing, since
 * every loaded plan goes through tide_plan_check(). Here only the form is judged. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/io/json_read.h"
#include "runtime/io/record.h"
#include "runtime/plan_json.h"

enum { MOST_ITEMS = 1 << 24 };
static const size_t most_file_bytes = (size_t)64 << 20; /* a plan of 3,000 steps takes half a megabyte */

static TideStatus read_index(const JsonAt *array, size_t i, int *out)
{
    JsonAt at = read_item(array, i);
    int64_t n = 0;

    TRY(read_int(&at, -1, INT32_MAX, &n));
    *out = (int)n;
    return TIDE_OK;
}

/* Items i to i + 3 of a home or slot: space, offset, bytes, name. */
static TideStatus read_place(const JsonAt *array, Space *space, size_t *offset, size_t *bytes)
{
    JsonAt at[4] = { read_item(array, 1), read_item(array, 2), read_item(array, 3), read_item(array, 4) };
    const char *name = NULL;
    int word = 0;

    TRY(read_word(&at[0], space_names, SPACE_COUNT, &word));
    *space = (Space)word;
    TRY(read_size(&at[1], offset));
    TRY(read_size(&at[2], bytes));
    return read_text(&at[3], &name);
}

/* Room in *out for the array at->value, zeros; *n is set before any item is read, so that the plan is
 * whole enough to be freed after a failure. */
static TideStatus read_list(const JsonAt *at, size_t item_bytes, void *out, int *n)
{
    size_t count = 0;

    TRY(read_array(at, 0, MOST_ITEMS, &count));
    void *list = calloc(count + 1, item_bytes);
    if (!list)
        return tide_fail(at->file->tide, TIDE_NO_MEMORY, "%s: no memory for %zu items", at->file->path,
                         count);
    memcpy(out, &list, sizeof list);
    *n = (int)count;
    return TIDE_OK;
}

static TideStatus read_homes(const JsonAt *root, TidePlan *plan)
{
    JsonAt list;
    size_t n = 0;

    TRY(read_member(root, "homes", &list));
    TRY(read_list(&list, sizeof *plan->homes, &plan->homes, &plan->n_homes));
    for (int i = 0; i < plan->n_homes; i++) {
        Home *h = &plan->homes[i];
        JsonAt at = read_item(&list, (size_t)i);
        TRY(read_array(&at, 5, 5, &n));
        TRY(read_index(&at, 0, &h->tensor));
        TRY(read_place(&at, &h->space, &h->offset, &h->bytes));
    }
    return TIDE_OK;
}

/* A row: tensor, fate, price, flip bytes, name, bytes, node, its name, live bytes, seconds of each fate. */
TideStatus plan_read_decision(const JsonAt *row, Decision *d, DecisionText *text)
{
    enum { FIRST_FATE = 9, ITEMS = FIRST_FATE + TIDE_FATE_COUNT - 1 };
    JsonAt at[ITEMS];
    size_t n = 0;
    int word = 0;

    TRY(read_array(row, ITEMS, ITEMS, &n));
    for (size_t i = 0; i < ITEMS; i++) at[i] = read_item(row, i);
    TRY(read_index(row, 0, &d->tensor));
    TRY(read_word(&at[1], fate_names, TIDE_FATE_COUNT, &word));
    d->fate = (TideFate)word;
    TRY(read_real(&at[2], -1e300, 1e300, &d->price));
    TRY(read_size(&at[3], &d->flip_bytes));
    TRY(read_text(&at[4], &text->name));
    TRY(read_size(&at[5], &text->bytes));
    TRY(read_index(row, 6, &d->node));
    TRY(read_text(&at[7], &text->node));
    TRY(read_size(&at[8], &d->live_bytes));
    d->seconds[TIDE_AUTO] = -1;
    for (int fate = TIDE_KEEP; fate < TIDE_FATE_COUNT; fate++)
        TRY(read_real(&at[FIRST_FATE + fate - TIDE_KEEP], -1e300, 1e300, &d->seconds[fate]));
    return TIDE_OK;
}

static TideStatus read_decisions(const JsonAt *root, TidePlan *plan)
{
    JsonAt list;
    DecisionText text;

    TRY(read_member(root, "decisions", &list));
    TRY(read_list(&list, sizeof *plan->decisions, &plan->decisions, &plan->n_decisions));
    for (int i = 0; i < plan->n_decisions; i++) {
        JsonAt at = read_item(&list, (size_t)i);
        TRY(plan_read_decision(&at, &plan->decisions[i], &text));
    }
    return TIDE_OK;
}

static TideStatus read_tallies(const JsonAt *stats, TidePlanStats *s)
{
    const char *keys[TIDE_FATE_COUNT + 1] = { NULL };
    JsonAt tallies, tally;
    size_t n = 0;

    memcpy(keys, fate_names, sizeof fate_names);
    TRY(read_member(stats, "tallies", &tallies));
    TRY(read_keys(&tallies, keys));
    for (int i = 0; i < TIDE_FATE_COUNT; i++) {
        TRY(read_member(&tallies, fate_names[i], &tally));
        TRY(read_array(&tally, 2, 2, &n));
        JsonAt bytes = read_item(&tally, 1);
        TRY(read_index(&tally, 0, &s->fate[i].tensors));
        TRY(read_size(&bytes, &s->fate[i].bytes));
    }
    return TIDE_OK;
}

TideStatus plan_read_stats(const JsonAt *root, TidePlanStats *s)
{
    const char *keys[STAT_SIZES + STAT_REALS + 2] = { NULL };
    JsonAt stats, at;

    for (int i = 0; i < STAT_SIZES; i++) keys[i] = stat_sizes[i].key;
    for (int i = 0; i < STAT_REALS; i++) keys[STAT_SIZES + i] = stat_reals[i].key;
    keys[STAT_SIZES + STAT_REALS] = "tallies";
    TRY(read_member(root, "stats", &stats));
    TRY(read_keys(&stats, keys));
    for (int i = 0; i < STAT_SIZES; i++) {
        TRY(read_member(&stats, stat_sizes[i].key, &at));
        TRY(read_size(&at, (size_t *)((char *)s + stat_sizes[i].at)));
    }
    for (int i = 0; i < STAT_REALS; i++) {
        TRY(read_member(&stats, stat_reals[i].key, &at));
        TRY(read_real(&at, 0, 1e300, (double *)((char *)s + stat_reals[i].at)));
    }
    return read_tallies(&stats, s);
}

/* Room for n more arguments; arrays grow by powers of two from 64 on. */
static TideStatus args_reach(const JsonAt *at, Section *s, size_t n)
{
    size_t have = 64, wanted = (size_t)s->n_args + n;

    while (have < (size_t)s->n_args) have *= 2;
    if (s->args && wanted <= have) return TIDE_OK;
    while (have < wanted) have *= 2;
    int *args = wanted <= MOST_ITEMS ? realloc(s->args, have * sizeof *args) : NULL;
    if (!args)
        return tide_fail(at->file->tide, TIDE_NO_MEMORY, "%s: no memory for %zu arguments", at->file->path,
                         wanted);
    s->args = args;
    return TIDE_OK;
}

static TideStatus read_args(const JsonAt *step, Section *s)
{
    JsonAt list = read_item(step, 3);
    size_t n = 0;

    TRY(read_array(&list, 0, MOST_ITEMS, &n));
    TRY(args_reach(&list, s, n));
    for (size_t i = 0; i < n; i++) TRY(read_index(&list, i, &s->args[s->n_args++]));
    return TIDE_OK;
}

/* The arguments of a run follow those of the run before, so their number must be the node's. */
static TideStatus read_run(const JsonAt *at, const TideGraph *g, Section *sec, Step *s)
{
    int before = sec->n_args;

    TRY(read_index(at, 2, &s->node));
    s->first_arg = before;
    TRY(read_args(at, sec));
    if (s->node < 0 || s->node >= g->n_nodes)
        return read_refuse(at, "runs node %d; graph %s has %d", s->node, g->name, g->n_nodes);
    int wanted = g->nodes[s->node]->n_in + g->nodes[s->node]->n_out + 1;
    if (sec->n_args - before != wanted)
        return read_refuse(at, "gives node %d (%s) %d arguments, it takes %d", s->node,
                           g->nodes[s->node]->name, sec->n_args - before, wanted);
    return TIDE_OK;
}

static TideStatus read_step(const JsonAt *at, const TideGraph *g, Section *sec, Step *s)
{
    static const size_t items[] = { [STEP_RUN] = 4, [STEP_COPY] = 4, [STEP_RECORD] = 3, [STEP_WAIT] = 3 };
    size_t n = 0;
    int word = 0;

    *s = (Step){ .node = -1, .first_arg = -1, .src = -1, .dst = -1, .event = -1 };
    TRY(read_array(at, 3, 4, &n));
    JsonAt kind = read_item(at, 0), lane = read_item(at, 1);
    TRY(read_word(&kind, step_names, STEP_KIND_COUNT, &word));
    s->kind = (StepKind)word;
    TRY(read_array(at, items[word], items[word], &n));
    TRY(read_word(&lane, lane_names, LANE_COUNT, &word));
    s->lane = (Lane)word;
    if (s->kind == STEP_RUN) return read_run(at, g, sec, s);
    if (s->kind != STEP_COPY) return read_index(at, 2, &s->event);
    TRY(read_index(at, 2, &s->src));
    return read_index(at, 3, &s->dst);
}

static TideStatus read_timeline(const JsonAt *section, Section *s)
{
    JsonAt list;
    size_t n = 0;
    int count = 0;

    if (!read_has(section, "timeline")) return TIDE_OK;
    TRY(read_member(section, "timeline", &list));
    TRY(read_array(&list, (size_t)s->n_steps, (size_t)s->n_steps, &n));
    TRY(read_list(&list, sizeof *s->spans, &s->spans, &count));
    for (int i = 0; i < count; i++) {
        JsonAt at = read_item(&list, (size_t)i);
        TRY(read_array(&at, 2, 2, &n));
        JsonAt start = read_item(&at, 0), end = read_item(&at, 1);
        TRY(read_real(&start, 0, 1e300, &s->spans[i].start));
        TRY(read_real(&end, s->spans[i].start, 1e300, &s->spans[i].end));
    }
    return TIDE_OK;
}

static TideStatus read_slots(const JsonAt *section, Section *s)
{
    JsonAt list;
    size_t n = 0;

    TRY(read_member(section, "slots", &list));
    TRY(read_list(&list, sizeof *s->slots, &s->slots, &s->n_slots));
    for (int i = 0; i < s->n_slots; i++) {
        JsonAt at = read_item(&list, (size_t)i);
        TRY(read_array(&at, 5, 5, &n));
        TRY(read_index(&at, 0, &s->slots[i].tensor));
        TRY(read_place(&at, &s->slots[i].space, &s->slots[i].offset, &s->slots[i].bytes));
    }
    return TIDE_OK;
}

static TideStatus read_graph(const JsonAt *section, const TideProgram *p, Section *s)
{
    JsonAt at;
    const char *name = NULL;

    TRY(read_member(section, "graph", &at));
    TRY(read_text(&at, &name));
    for (s->graph = 0; s->graph < p->n_graphs; s->graph++)
        if (strcmp(p->graphs[s->graph]->name, name) == 0) return TIDE_OK;
    return read_refuse(&at, "is \"%.60s\"; the program has no graph of that name", name);
}

static TideStatus read_section(const JsonAt *at, const TideProgram *p, Section *s)
{
    static const char *const keys[] = { "graph", "events", "slots", "steps", "timeline", NULL };
    JsonAt list, events;
    int64_t n = 0;

    TRY(read_keys(at, keys));
    TRY(read_graph(at, p, s));
    TRY(read_member(at, "events", &events));
    TRY(read_int(&events, 0, MOST_ITEMS, &n));
    s->n_events = (int)n;
    TRY(read_slots(at, s));
    TRY(read_member(at, "steps", &list));
    TRY(read_list(&list, sizeof *s->steps, &s->steps, &s->n_steps));
    for (int i = 0; i < s->n_steps; i++) {
        JsonAt step = read_item(&list, (size_t)i);
        TRY(read_step(&step, p->graphs[s->graph], s, &s->steps[i]));
    }
    return read_timeline(at, s);
}

static TideStatus read_sections(const JsonAt *root, const TideProgram *p, TidePlan *plan)
{
    JsonAt list;

    TRY(read_member(root, "sections", &list));
    TRY(read_list(&list, sizeof *plan->sections, &plan->sections, &plan->n_sections));
    for (int i = 0; i < plan->n_sections; i++) {
        JsonAt at = read_item(&list, (size_t)i);
        TRY(read_section(&at, p, &plan->sections[i]));
    }
    return TIDE_OK;
}

static TideStatus read_arena(const JsonAt *root, TidePlan *plan)
{
    const char *keys[SPACE_COUNT + 1] = { NULL };
    JsonAt arena, at;

    memcpy(keys, space_names, sizeof space_names);
    TRY(read_member(root, "arena", &arena));
    TRY(read_keys(&arena, keys));
    for (int i = 0; i < SPACE_COUNT; i++) {
        TRY(read_member(&arena, space_names[i], &at));
        TRY(read_size(&at, &plan->arena_bytes[i]));
    }
    return TIDE_OK;
}

/* Version and hashes come first, so that a file made for something else is refused for that. */
static TideStatus read_head(const JsonAt *root, const TideProgram *p, TidePlan *plan)
{
    static const char *const keys[] = { "tide_plan",   "program", "numerics", "policy",
                                        "fixed_bytes", "record",  "arena",    "homes",
                                        "decisions",   "stats",   "sections", NULL };
    JsonAt at;
    int word = 0;

    TRY(read_version(root, "tide_plan", PLAN_VERSION));
    TRY(read_keys(root, keys));
    TRY(read_member(root, "program", &at));
    TRY(read_hash(&at, &plan->program_hash));
    if (plan->program_hash != program_hash(p))
        return read_refuse(&at,
                           "is %016" PRIx64 ", but this program is %016" PRIx64
                           ": the plan was made for another model or shape; plan anew",
                           plan->program_hash, program_hash(p));
    TRY(read_member(root, "numerics", &at));
    TRY(read_hash(&at, &plan->numerics_hash));
    TRY(read_member(root, "policy", &at));
    TRY(read_word(&at, policy_names, TIDE_POLICY_COUNT, &word));
    plan->policy = (TidePolicy)word;
    TRY(read_member(root, "fixed_bytes", &at));
    TRY(read_size(&at, &plan->fixed_bytes));
    return record_read(root, &plan->record);
}

static TideStatus read_plan(const JsonFile *f, const TideProgram *p, TidePlan *plan)
{
    JsonAt root = read_root(f);

    TRY(read_head(&root, p, plan));
    TRY(read_arena(&root, plan));
    TRY(read_homes(&root, plan));
    TRY(read_decisions(&root, plan));
    TRY(plan_read_stats(&root, &plan->stats));
    return read_sections(&root, p, plan);
}

/* The proof does not know the file; its message gets the path in front. */
static TideStatus check_loaded(const TideProgram *p, TidePlan *plan, const char *path)
{
    char text[sizeof p->tide->message];
    TideStatus status = tide_plan_check(p, plan);

    plan->stats.checked = !status;
    if (!status) return TIDE_OK;
    memcpy(text, p->tide->message, sizeof text);
    return tide_fail(p->tide, status, "%s: %s", path, text);
}

TideStatus tide_plan_load(const TideProgram *p, const char *path, TidePlan **out)
{
    JsonFile file;
    TidePlan *plan = NULL;

    *out = NULL;
    TRY(tide_program_check(p));
    TideStatus status = read_open(p->tide, path, most_file_bytes, &file);
    if (!status && !(plan = calloc(1, sizeof *plan)))
        status = tide_fail(p->tide, TIDE_NO_MEMORY, "%s: no memory for a plan", path);
    if (!status) status = read_plan(&file, p, plan);
    read_close(&file);
    if (!status) status = check_loaded(p, plan, path);
    if (!status) status = record_adopt(p->tide, plan->record, path);
    if (status)
        tide_plan_free(plan);
    else
        *out = plan;
    return status;
}
