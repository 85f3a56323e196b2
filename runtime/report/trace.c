/* trace.c - timelines for a trace viewer: as a plan predicts them, and as a run measured them.
 *
 * Chrome's format: an array of complete events, one process a graph, one thread a lane,
 * times in microseconds. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/exec.h"
#include "runtime/graph.h"
#include "runtime/report/account.h"

double section_seconds(const TidePlan *plan, int graph)
{
    double end = 0;

    for (int i = 0; i < plan->n_sections; i++) {
        const Section *s = &plan->sections[i];
        for (int j = 0; s->graph == graph && s->spans && j < s->n_steps; j++)
            if (s->spans[j].end > end) end = s->spans[j].end;
    }
    return end;
}

static json_t *name_event(const char *what, const char *name, int graph, int lane)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", what, "ph", "M", "pid", graph, "tid", lane,
                     "args", "name", name);
}

static json_t *step_event(const TideProgram *p, const Section *s, int i, const Period *span)
{
    const Step *step = &s->steps[i];
    const char *name = step->kind == STEP_RUN ? p->graphs[s->graph]->nodes[step->node]->name
                                              : program_tensor(p, s->slots[step->src].tensor)->name;

    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f}", "name", name, "cat", step_names[step->kind], "ph",
                     "X", "pid", s->graph, "tid", (int)step->lane, "ts", span->start * 1e6, "dur",
                     (span->end - span->start) * 1e6);
}

static bool is_work(const Step *step)
{
    return step->kind == STEP_RUN || step->kind == STEP_COPY;
}

/* The tracks of a section and, where its periods are known, its work. */
static void add_section(json_t *events, const TideProgram *p, const Section *s, const Period *periods)
{
    json_array_append_new(events, name_event("process_name", p->graphs[s->graph]->name, s->graph, 0));
    for (int lane = 0; lane < LANE_COUNT; lane++)
        json_array_append_new(events, name_event("thread_name", lane_names[lane], s->graph, lane));
    for (int i = 0; periods && i < s->n_steps; i++)
        if (is_work(&s->steps[i])) json_array_append_new(events, step_event(p, s, i, &periods[i]));
}

/* Takes the events over. */
static TideStatus save(Tide *t, json_t *events, const char *path)
{
    json_t *root = json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ms");
    bool ok = root && json_dump_file(root, path, JSON_COMPACT) == 0;

    json_decref(root);
    return ok ? TIDE_OK : tide_fail(t, TIDE_IO, "%s cannot be written: %s", path, strerror(errno));
}

TideStatus trace_save(const TideProgram *p, const TidePlan *plan, const char *path)
{
    json_t *events = json_array();

    for (int i = 0; i < plan->n_sections; i++)
        add_section(events, p, &plan->sections[i], plan->sections[i].spans);
    return save(p->tide, events, path);
}

/* The periods of a traced section, owned by the caller; NULL where it was not traced. */
static TideStatus measured_periods(TideRun *r, int graph, Period **out)
{
    const Section *s = &r->plan->sections[graph];

    *out = NULL;
    if (!run_was_traced(r, graph)) return TIDE_OK;
    *out = calloc((size_t)s->n_steps + 1, sizeof **out);
    if (!*out) return tide_fail(r->program->tide, TIDE_NO_MEMORY, "no memory for a timeline");
    TideStatus status = run_periods(r, graph, *out);
    if (!status) return TIDE_OK;
    free(*out);
    *out = NULL;
    return status;
}

TideStatus trace_save_run(TideRun *r, const char *path)
{
    json_t *events = json_array();

    for (int i = 0; i < r->plan->n_sections; i++) {
        Period *periods;
        TideStatus status = measured_periods(r, i, &periods);
        if (status) {
            json_decref(events);
            return status;
        }
        add_section(events, r->program, &r->plan->sections[i], periods);
        free(periods);
    }
    return save(r->program->tide, events, path);
}

TideStatus trace_lane_times(TideRun *r, int graph, LaneTimes *out)
{
    const Section *s = &r->plan->sections[graph];
    Period *periods;

    *out = (LaneTimes){ 0 };
    TRY(measured_periods(r, graph, &periods));
    for (int i = 0; periods && i < s->n_steps; i++) {
        if (!is_work(&s->steps[i])) continue;
        out->busy[s->steps[i].lane] += periods[i].end - periods[i].start;
        if (periods[i].end > out->seconds) out->seconds = periods[i].end;
    }
    free(periods);
    return TIDE_OK;
}
