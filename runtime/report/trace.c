/* trace.c - the predicted timeline of a plan for a trace viewer.
 *
 * Chrome's format: an array of complete events, one process a graph, one thread a lane,
 * times in microseconds. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include "runtime/base.h"
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

static json_t *step_event(const TideProgram *p, const Section *s, int i)
{
    const Step *step = &s->steps[i];
    const Period *span = &s->spans[i];
    const char *name = step->kind == STEP_RUN ? p->graphs[s->graph]->nodes[step->node]->name
                                              : program_tensor(p, s->slots[step->src].tensor)->name;

    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f}", "name", name, "cat", step_names[step->kind], "ph",
                     "X", "pid", s->graph, "tid", (int)step->lane, "ts", span->start * 1e6, "dur",
                     (span->end - span->start) * 1e6);
}

static json_t *trace_events(const TideProgram *p, const TidePlan *plan)
{
    json_t *events = json_array();

    for (int i = 0; i < plan->n_sections; i++) {
        const Section *s = &plan->sections[i];
        json_array_append_new(events, name_event("process_name", p->graphs[s->graph]->name, s->graph, 0));
        for (int lane = 0; lane < LANE_COUNT; lane++)
            json_array_append_new(events, name_event("thread_name", lane_names[lane], s->graph, lane));
        for (int j = 0; s->spans && j < s->n_steps; j++)
            if (s->steps[j].kind == STEP_RUN || s->steps[j].kind == STEP_COPY)
                json_array_append_new(events, step_event(p, s, j));
    }
    return events;
}

TideStatus trace_save(const TideProgram *p, const TidePlan *plan, const char *path)
{
    json_t *root = json_pack("{s:o, s:s}", "traceEvents", trace_events(p, plan), "displayTimeUnit", "ms");
    bool ok = root && json_dump_file(root, path, JSON_COMPACT) == 0;

    json_decref(root);
    if (!ok) return tide_fail(p->tide, TIDE_IO, "%s cannot be written: %s", path, strerror(errno));
    return TIDE_OK;
}
