/* exec.c - runs a plan: two arenas, three lanes, one loop over steps.
 *
 * tide_run_new() makes the only allocations. A step issues the plan's steps in order and
 * decides nothing; what it needs to launch a node was put together beforehand. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/exec.h"

/* ---- Addresses ----------------------------------------------------------- */

/* Stage memory exists twice; runs of a section use the copies in turn. */
static void *address(const TideRun *r, const Section *s, int slot, int parity)
{
    const Slot *at = &s->slots[slot];
    size_t turn = at->space == SPACE_STAGE ? (size_t)parity * r->plan->arena_bytes[SPACE_STAGE] : 0;

    return (char *)r->arena[at->space] + turn + at->offset;
}

static const Home *home_of(const TideRun *r, int tensor)
{
    for (int i = 0; i < r->plan->n_homes; i++)
        if (r->plan->homes[i].tensor == tensor) return &r->plan->homes[i];
    return NULL;
}

/* Where a persistent tensor (a flat or a view) lies. */
static void *persistent_address(const TideRun *r, int tensor)
{
    const Tensor *t = r->program->tensors[tensor];
    const Home *h = home_of(r, t->flat ? t->flat : tensor);

    assert(h);
    return (char *)r->arena[h->space] + h->offset + t->flat_offset;
}

static int stage_slot(const Section *s, int tensor)
{
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].space == SPACE_STAGE && s->slots[i].tensor == tensor) return i;
    return -1;
}

static TideStatus failed(const TideRun *r, TideStatus status, const char *what)
{
    if (!status) return TIDE_OK;
    return tide_fail(r->program->tide, status, "%s: %s", what, r->be->message(r->device));
}

/* ---- Issuing ------------------------------------------------------------- */

static TideStatus launch(TideRun *r, const SectionRun *sr, int step)
{
    const Launch *l = &sr->launches[sr->launch_of[step]];
    TideStatus status = r->be->launch(l->kernel, &l->call);

    if (status) return failed(r, status, l->call.node->name);
    if (!r->poison) return TIDE_OK;
    return poison_after(r, sr, step);
}

/* Uniform in [0, 1). */
static double random_share(TideRun *r)
{
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(r->random >> 11) * 0x1p-53;
}

static TideStatus copy(TideRun *r, const SectionRun *sr, const Step *st)
{
    const Section *s = sr->section;
    const Slot *from = &s->slots[st->src], *to = &s->slots[st->dst];
    size_t bytes = from->bytes < to->bytes ? from->bytes : to->bytes;
    Stream *lane = r->lane[st->lane];

    if (r->copy_delay > 0) TRY(r->be->delay(lane, r->copy_delay * random_share(r)));
    return r->be->copy(lane, address(r, s, st->dst, sr->parity), address(r, s, st->src, sr->parity), bytes);
}

static TideStatus run_step(TideRun *r, SectionRun *sr, int i)
{
    const Step *st = &sr->section->steps[i];

    switch (st->kind) {
    case STEP_RUN: return launch(r, sr, i);
    case STEP_COPY: return failed(r, copy(r, sr, st), "copy");
    case STEP_RECORD:
        return failed(r, r->be->event_record(r->lane[st->lane], r->events[st->event]), "record");
    case STEP_WAIT: return failed(r, r->be->event_wait(r->lane[st->lane], r->events[st->event]), "wait");
    case STEP_KIND_COUNT: break;
    }
    assert(false);
    return TIDE_OK;
}

/* Issue every step of a section. Nothing here waits, allocates or decides. */
static TideStatus run_steps(TideRun *r, SectionRun *sr)
{
    if (sr->tracing) TRY(trace_start(r, sr));
    for (int i = 0; i < sr->section->n_steps; i++) {
        if (sr->tracing) TRY(trace_before(r, sr, i));
        TRY(run_step(r, sr, i));
        if (sr->tracing) TRY(trace_after(r, sr, i));
    }
    return TIDE_OK;
}

/* Issue a section, or replay it: the first run is issued (kernels load on first use), as is one whose steps
 * are timed; the second of each parity is captured. */
static TideStatus run_section(TideRun *r, SectionRun *sr)
{
    Stream *main_lane = r->lane[LANE_COMPUTE];
    bool can_capture = r->be->capture_begin && !r->no_graph && r->copy_delay <= 0 && !r->poison;

    if (!can_capture || sr->tracing || sr->issued < 2) return run_steps(r, sr);
    if (!sr->captured[sr->parity]) {
        TRY(failed(r, r->be->capture_begin(main_lane), "capture"));
        TideStatus status = run_steps(r, sr);
        Capture *whole = NULL;
        TideStatus ended = r->be->capture_end(main_lane, &whole);
        if (status && whole) r->be->capture_free(whole); /* half a section must never be replayed */
        TRY(status);
        TRY(failed(r, ended, "capture"));
        sr->captured[sr->parity] = whole;
    }
    return failed(r, r->be->capture_replay(sr->captured[sr->parity], main_lane), "replay");
}

/* An input that was not written since the last run keeps its value: carry it to the other
 * stage copy. */
static void carry_inputs(TideRun *r, SectionRun *sr)
{
    const Section *s = sr->section;

    for (int i = 0; i < s->n_slots; i++) {
        bool is_input =
            s->slots[i].space == SPACE_STAGE && r->program->tensors[s->slots[i].tensor]->kind == TIDE_INPUT;
        if (is_input && sr->issued && !sr->written[i])
            memcpy(address(r, s, i, sr->parity), address(r, s, i, !sr->parity), s->slots[i].bytes);
        sr->written[i] = false;
    }
}

/* The stage copy that the next run uses is free once the run before the last is over. */
static TideStatus stage_wait(TideRun *r, SectionRun *sr)
{
    if (sr->issued < 2) return TIDE_OK;
    return failed(r, r->be->event_sync(sr->done[sr->issued & 1]), sr->graph->name);
}

TideStatus tide_step(TideRun *r, int graph)
{
    assert(graph >= 0 && graph < r->plan->n_sections);
    SectionRun *sr = &r->sections[graph];

    TRY(stage_wait(r, sr));
    sr->parity = (int)(sr->issued & 1);
    carry_inputs(r, sr);
    TRY(run_section(r, sr));
    sr->traced = sr->traced || sr->tracing;
    sr->tracing = false;
    TRY(failed(r, r->be->event_record(r->lane[LANE_COMPUTE], sr->done[sr->parity]), sr->graph->name));
    sr->issued++;
    sr->order = ++r->order;
    r->last = graph;
    return TIDE_OK;
}

TideStatus tide_sync(TideRun *r)
{
    for (int l = 0; l < LANE_COUNT; l++) TRY(failed(r, r->be->stream_sync(r->lane[l]), lane_names[l]));
    return TIDE_OK;
}

/* ---- Writing and reading --------------------------------------------------- */

static TideStatus copy_now(TideRun *r, void *to, const void *from, size_t bytes)
{
    TRY(tide_sync(r));
    TRY(failed(r, r->be->copy(r->lane[LANE_COMPUTE], to, from, bytes), "copy"));
    return tide_sync(r);
}

TideStatus tide_write(TideRun *r, TideTensor x, const void *from, size_t bytes)
{
    const Tensor *t = r->program->tensors[x.id];

    assert(bytes == t->bytes);
    if (t->graph < 0) return copy_now(r, persistent_address(r, x.id), from, bytes);
    SectionRun *sr = &r->sections[t->graph];
    int slot = stage_slot(sr->section, x.id);
    if (slot < 0) return TIDE_OK; /* an input that no node reads */
    TRY(stage_wait(r, sr));
    memcpy(address(r, sr->section, slot, (int)(sr->issued & 1)), from, bytes);
    sr->written[slot] = true;
    return TIDE_OK;
}

/* The section whose newest run put x into stage memory; NULL: none did. */
static SectionRun *newest_with(TideRun *r, int tensor)
{
    SectionRun *newest = NULL;

    for (int i = 0; i < r->plan->n_sections; i++) {
        SectionRun *sr = &r->sections[i];
        if (sr->issued && stage_slot(sr->section, tensor) >= 0 && (!newest || sr->order > newest->order))
            newest = sr;
    }
    return newest;
}

static TideStatus read_stage(TideRun *r, SectionRun *sr, int64_t run, TideTensor x, void *to)
{
    int parity = (int)(run & 1);

    TRY(failed(r, r->be->event_sync(sr->done[parity]), sr->graph->name));
    memcpy(to, address(r, sr->section, stage_slot(sr->section, x.id), parity),
           r->program->tensors[x.id]->bytes);
    return TIDE_OK;
}

TideStatus tide_read(TideRun *r, TideTensor x, void *to, size_t bytes)
{
    const Tensor *t = r->program->tensors[x.id];

    assert(bytes == t->bytes);
    if (t->graph < 0) return copy_now(r, to, persistent_address(r, x.id), bytes);
    SectionRun *sr = newest_with(r, x.id);
    assert(sr); /* an output of a graph that has run */
    return read_stage(r, sr, sr->issued - 1, x, to);
}

TideStatus tide_read_previous(TideRun *r, TideTensor x, void *to, size_t bytes)
{
    SectionRun *sr = newest_with(r, x.id);

    (void)bytes;
    assert(bytes == r->program->tensors[x.id]->bytes);
    assert(sr && sr->issued >= 2);
    return read_stage(r, sr, sr->issued - 2, x, to);
}

/* ---- Measuring ------------------------------------------------------------- */

enum { PATTERN = 0xA5, SCAN_BYTES = 1 << 20 };

/* One past the highest byte of the device arena that no longer holds the fill pattern, rounded up to
 * the alignment of slots. Reads the arena from its top through buffer[SCAN_BYTES]. */
static TideStatus scan_arena(TideRun *r, unsigned char *buffer, size_t *touched)
{
    size_t end = r->plan->arena_bytes[SPACE_DEVICE];

    for (*touched = 0; end > 0 && !*touched;) {
        size_t bytes = end < SCAN_BYTES ? end : SCAN_BYTES;
        TRY(copy_now(r, buffer, (char *)r->arena[SPACE_DEVICE] + end - bytes, bytes));
        for (size_t i = bytes; i > 0 && !*touched; i--)
            if (buffer[i - 1] != PATTERN) *touched = end - bytes + i;
        end -= bytes;
    }
    *touched = align_up(*touched, r->be->alignment);
    return TIDE_OK;
}

static void count_traffic(const Section *s, TideRunStats *out)
{
    for (int i = 0; i < s->n_steps; i++) {
        if (s->steps[i].kind != STEP_COPY) continue;
        const Slot *from = &s->slots[s->steps[i].src], *to = &s->slots[s->steps[i].dst];
        if (to->space == SPACE_HOST) out->bytes_out += from->bytes;
        if (from->space == SPACE_HOST) out->bytes_in += from->bytes;
    }
}

TideStatus tide_run_stats(TideRun *r, TideRunStats *out)
{
    MemoryInfo memory = { 0 };
    unsigned char *buffer = malloc(SCAN_BYTES);

    memset(out, 0, sizeof *out);
    if (!buffer) return tide_fail(r->program->tide, TIDE_NO_MEMORY, "no memory to look at the arena");
    TideStatus status = scan_arena(r, buffer, &out->arena_bytes);
    free(buffer);
    if (!status) status = failed(r, r->be->memory(r->device, &memory), "memory");
    if (memory.process > r->process_bytes) r->process_bytes = memory.process;
    out->process_bytes = r->process_bytes;
    out->host_bytes = r->host_total;
    count_traffic(r->sections[r->last].section, out);
    return status;
}

void tide_run_delay_copies(TideRun *r, double seconds, uint64_t seed)
{
    r->copy_delay = seconds;
    r->random = seed | 1;
}

void tide_run_poison(TideRun *r, bool on)
{
    r->poison = on;
}

/* ---- Making ---------------------------------------------------------------- */

/* A plan made in this process has said so far what was chosen; from here on it binds. */
static TideStatus adopt_record(const TideRun *r)
{
    if (!r->plan->record || !r->be->numerics_load) return TIDE_OK;
    return failed(r, r->be->numerics_load(r->device, r->plan->record), "the plan's choices");
}

static TideStatus make_arenas(TideRun *r)
{
    const size_t *bytes = r->plan->arena_bytes;
    char *host = NULL;

    r->host_total = bytes[SPACE_HOST] + 2 * bytes[SPACE_STAGE];
    TRY(failed(r, r->be->device_alloc(r->device, bytes[SPACE_DEVICE], &r->arena[SPACE_DEVICE]),
               "device arena"));
    if (r->host_total)
        TRY(failed(r, r->be->host_alloc(r->device, r->host_total, &r->arena[SPACE_HOST]),
                   "host pinned arena"));
    host = r->arena[SPACE_HOST];
    r->arena[SPACE_STAGE] = host ? host + bytes[SPACE_HOST] : NULL;
    if (host) memset(r->arena[SPACE_STAGE], 0, 2 * bytes[SPACE_STAGE]);
    for (int l = 0; l < LANE_COUNT; l++)
        TRY(failed(r, r->be->stream_new(r->device, l == LANE_COMPUTE ? 0 : 1, &r->lane[l]), lane_names[l]));
    return TIDE_OK;
}

static TideStatus make_events(TideRun *r)
{
    for (int i = 0; i < r->plan->n_sections; i++)
        if (r->plan->sections[i].n_events > r->n_events) r->n_events = r->plan->sections[i].n_events;
    r->events = calloc((size_t)r->n_events + 1, sizeof *r->events);
    if (!r->events)
        return tide_fail(r->program->tide, TIDE_NO_MEMORY, "no memory for %d events", r->n_events);
    for (int i = 0; i < r->n_events; i++) TRY(failed(r, r->be->event_new(r->device, &r->events[i]), "event"));
    return TIDE_OK;
}

/* Pattern everywhere, zeros in all that is persistent. */
static TideStatus clear_arena(TideRun *r)
{
    Stream *s = r->lane[LANE_COMPUTE];

    TRY(failed(r, r->be->fill(s, r->arena[SPACE_DEVICE], PATTERN, r->plan->arena_bytes[SPACE_DEVICE]),
               "fill"));
    for (int i = 0; i < r->plan->n_homes; i++) {
        const Home *h = &r->plan->homes[i];
        TRY(failed(r, r->be->fill(s, (char *)r->arena[h->space] + h->offset, 0, h->bytes), "fill"));
    }
    return tide_sync(r);
}

/* Put together what launching node st->node at this step needs: the addresses of its slots. */
static void prepare_launch(TideRun *r, SectionRun *sr, const Step *st, Launch *l, void **pointers)
{
    const Node *n = sr->graph->nodes[st->node];
    const int *slots = &sr->section->args[st->first_arg];
    const Tensor **infos = (const Tensor **)(pointers + n->n_in + n->n_out);

    for (int i = 0; i < n->n_in + n->n_out; i++)
        pointers[i] = slots[i] < 0 ? NULL : address(r, sr->section, slots[i], 0);
    int scratch = slots[n->n_in + n->n_out];
    node_infos(r->program, n, infos, infos + n->n_in);
    l->kernel = r->be->kernels[n->op->id];
    l->call = (KernelCall){ .node = n,
                            .in = pointers,
                            .out = pointers + n->n_in,
                            .in_info = infos,
                            .out_info = infos + n->n_in,
                            .stream = r->lane[st->lane],
                            .device = r->device,
                            .scratch = scratch < 0 ? NULL : address(r, sr->section, scratch, 0) };
}

static TideStatus prepare_section(TideRun *r, SectionRun *sr)
{
    const Section *s = sr->section;
    size_t n_pointers = 0, n_launches = 0, used = 0, n = 0;

    for (int i = 0; i < s->n_steps; i++)
        if (s->steps[i].kind == STEP_RUN) {
            const Node *node = sr->graph->nodes[s->steps[i].node];
            n_pointers += 2 * (size_t)(node->n_in + node->n_out);
            n_launches++;
        }
    sr->launches = calloc(n_launches + 1, sizeof *sr->launches);
    sr->pointers = calloc(n_pointers + 1, sizeof *sr->pointers);
    sr->launch_of = calloc((size_t)s->n_steps + 1, sizeof *sr->launch_of);
    sr->written = calloc((size_t)s->n_slots + 1, sizeof *sr->written);
    if (!sr->launches || !sr->pointers || !sr->launch_of || !sr->written)
        return tide_fail(r->program->tide, TIDE_NO_MEMORY, "no memory to prepare graph %s", sr->graph->name);
    for (int i = 0; i < s->n_steps; i++)
        if (s->steps[i].kind == STEP_RUN) {
            const Node *node = sr->graph->nodes[s->steps[i].node];
            prepare_launch(r, sr, &s->steps[i], &sr->launches[n], sr->pointers + used);
            used += 2 * (size_t)(node->n_in + node->n_out);
            sr->launch_of[i] = (int)n++;
        }
    for (size_t i = 0; i < n; i++)
        if (sr->launches[i].kernel->prepare)
            TRY(failed(r, sr->launches[i].kernel->prepare(&sr->launches[i].call),
                       sr->launches[i].call.node->name));
    TRY(poison_prepare(r, sr));
    for (int i = 0; i < 2; i++) TRY(failed(r, r->be->event_new(r->device, &sr->done[i]), "event"));
    return TIDE_OK;
}

static TideStatus make_sections(TideRun *r)
{
    r->sections = calloc((size_t)r->plan->n_sections, sizeof *r->sections);
    if (!r->sections) return tide_fail(r->program->tide, TIDE_NO_MEMORY, "no memory for a run");
    for (int i = 0; i < r->plan->n_sections; i++) {
        SectionRun *sr = &r->sections[i];
        sr->section = &r->plan->sections[i];
        sr->graph = r->program->graphs[sr->section->graph];
        TRY(prepare_section(r, sr));
    }
    return TIDE_OK;
}

TideStatus tide_run_new(const TideProgram *p, const TidePlan *plan, TideRun **out)
{
    *out = NULL;
    TRY(tide_plan_check(p, plan));
    TideRun *r = calloc(1, sizeof *r);
    if (!r) return tide_fail(p->tide, TIDE_NO_MEMORY, "no memory for a run");

    r->program = p;
    r->plan = plan;
    r->be = p->tide->backend;
    r->device = p->tide->device;
    r->no_graph = p->tide->options.no_graph;
    TideStatus status = adopt_record(r);
    if (!status) status = make_arenas(r);
    if (!status) status = make_events(r);
    if (!status) status = make_sections(r); /* preparing kernels may write anywhere */
    if (!status) status = clear_arena(r);
    if (status)
        tide_run_free(r);
    else
        *out = r;
    return status;
}

static void section_run_free(TideRun *r, SectionRun *sr)
{
    for (int i = 0; i < 2; i++) {
        if (sr->captured[i]) r->be->capture_free(sr->captured[i]);
        if (sr->done[i]) r->be->event_free(sr->done[i]);
    }
    free(sr->launches);
    free(sr->pointers);
    free(sr->launch_of);
    free(sr->written);
    free(sr->poisoned);
    trace_free(r, sr);
}

void tide_run_free(TideRun *r)
{
    if (!r) return;
    for (int l = 0; l < LANE_COUNT; l++)
        if (r->lane[l]) r->be->stream_sync(r->lane[l]);
    for (int i = 0; r->sections && i < r->plan->n_sections; i++) section_run_free(r, &r->sections[i]);
    for (int i = 0; r->events && i < r->n_events; i++)
        if (r->events[i]) r->be->event_free(r->events[i]);
    for (int l = 0; l < LANE_COUNT; l++)
        if (r->lane[l]) r->be->stream_free(r->lane[l]);
    if (r->arena[SPACE_HOST]) r->be->host_free(r->device, r->arena[SPACE_HOST], r->host_total);
    if (r->arena[SPACE_DEVICE])
        r->be->device_free(r->device, r->arena[SPACE_DEVICE], r->plan->arena_bytes[SPACE_DEVICE]);
    free(r->sections);
    free(r->events);
    free(r);
}
