/* exec_trace.c - when each step of one run of a section really ran.
 *
 * Events mark the lanes: one behind every piece of work, and one before it where the lane waited, so that
 * waiting is not counted as work. What a device needs between two launches counts for the later one. */
#include <stdlib.h>
#include "runtime/base.h"
#include "runtime/exec.h"

static TideStatus failed(const TideRun *r, TideStatus status)
{
    if (!status) return TIDE_OK;
    return tide_fail(r->program->tide, status, "timing: %s", r->be->message(r->device));
}

static bool is_work(const Step *st)
{
    return st->kind == STEP_RUN || st->kind == STEP_COPY;
}

/* Give every piece of work its two marks; returns how many there are. Mark 0 is the start of the section on
 * the compute lane. */
static int number_marks(const Section *s, WorkMarks *work)
{
    int newest[LANE_COUNT] = { [LANE_COMPUTE] = 0, [LANE_OUT] = -1, [LANE_IN] = -1 }, n = 1;

    for (int i = 0; i < s->n_steps; i++) {
        const Step *st = &s->steps[i];
        if (st->kind == STEP_WAIT) newest[st->lane] = -1;
        if (!is_work(st)) continue;
        work[i].waited = newest[st->lane] < 0;
        work[i].begin = work[i].waited ? n++ : newest[st->lane];
        work[i].end = newest[st->lane] = n++;
    }
    return n;
}

static TideStatus make_marks(TideRun *r, SectionRun *sr)
{
    const Section *s = sr->section;

    sr->work = calloc((size_t)s->n_steps + 1, sizeof *sr->work);
    sr->marks = calloc(2 * (size_t)s->n_steps + 1, sizeof *sr->marks);
    if (!sr->work || !sr->marks)
        return tide_fail(r->program->tide, TIDE_NO_MEMORY, "no memory to time graph %s", sr->graph->name);
    int n = number_marks(s, sr->work);
    for (; sr->n_marks < n; sr->n_marks++)
        TRY(failed(r, r->be->event_new(r->device, &sr->marks[sr->n_marks])));
    return TIDE_OK;
}

TideStatus tide_run_trace(TideRun *r, int graph)
{
    assert(graph >= 0 && graph < r->plan->n_sections);
    SectionRun *sr = &r->sections[graph];

    if (sr->traced) TRY(tide_sync(r)); /* the marks of the trace before may still be ahead */
    if (!sr->marks) TRY(make_marks(r, sr));
    sr->tracing = true;
    sr->traced = false;
    return TIDE_OK;
}

TideStatus trace_start(const TideRun *r, const SectionRun *sr)
{
    return failed(r, r->be->event_record(r->lane[LANE_COMPUTE], sr->marks[0]));
}

TideStatus trace_before(const TideRun *r, const SectionRun *sr, int step)
{
    const Step *st = &sr->section->steps[step];

    if (!is_work(st) || !sr->work[step].waited) return TIDE_OK;
    return failed(r, r->be->event_record(r->lane[st->lane], sr->marks[sr->work[step].begin]));
}

TideStatus trace_after(const TideRun *r, const SectionRun *sr, int step)
{
    const Step *st = &sr->section->steps[step];

    if (!is_work(st)) return TIDE_OK;
    return failed(r, r->be->event_record(r->lane[st->lane], sr->marks[sr->work[step].end]));
}

/* Seconds of a mark from the start of the section. */
static TideStatus mark_time(const TideRun *r, const SectionRun *sr, int mark, double *out)
{
    *out = 0;
    if (mark == 0) return TIDE_OK;
    return failed(r, r->be->event_seconds(sr->marks[0], sr->marks[mark], out));
}

TideStatus run_periods(TideRun *r, int graph, Period *periods)
{
    const SectionRun *sr = &r->sections[graph];

    assert(sr->traced);
    TRY(tide_sync(r));
    for (int i = 0; i < sr->section->n_steps; i++) {
        periods[i] = (Period){ 0, 0 };
        if (!is_work(&sr->section->steps[i])) continue;
        TRY(mark_time(r, sr, sr->work[i].begin, &periods[i].start));
        TRY(mark_time(r, sr, sr->work[i].end, &periods[i].end));
    }
    return TIDE_OK;
}

bool run_was_traced(const TideRun *r, int graph)
{
    return r->sections[graph].traced;
}

void trace_free(const TideRun *r, SectionRun *sr)
{
    for (int i = 0; i < sr->n_marks; i++) r->be->event_free(sr->marks[i]);
    free(sr->marks);
    free(sr->work);
}
