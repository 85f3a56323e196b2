/* measure.c - times every distinct node, among the others.
 *
 * What a node takes hangs on what ran before it: caches hold other bytes, and a chip that has been at work
 * for a while is slower than one that rested. So the nodes run in laps, in the order of their graph with
 * marks between them, for as long as the clocks need to settle. A lap hands no data on, and memory for the
 * largest node is enough, so that a model which does not fit can be profiled. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/io/record.h"
#include "runtime/measure.h"

enum { LEAST_LAPS = 3, PLAIN_LAPS = 2 };
static const double node_seconds_limit = 4.0; /* guessed to take longer: not run, scaled               */
static const double slow_lap_seconds = 1.0;   /* all entries together take longer: run once more only   */
static const double lap_seconds = 0.5;        /* of the longest lap: else layers are left out           */
static const double laps_seconds = 0.5;       /* enough laps to fill this                               */

static TideStatus failed(const Bench *b, TideStatus status, const char *what)
{
    if (!status) return TIDE_OK;
    return tide_fail(b->p->tide, status, "profile %s: %s", what, b->be->message(b->device));
}

static TideStatus no_memory(const Bench *b)
{
    return tide_fail(b->p->tide, TIDE_NO_MEMORY, "no memory for a profile");
}

static TideStatus bench_open(Bench *b)
{
    for (int i = 0; i < 3; i++) TRY(failed(b, b->be->stream_new(b->device, 0, &b->lane[i]), "stream"));
    TRY(failed(b, b->be->event_new(b->device, &b->from), "event"));
    return failed(b, b->be->event_new(b->device, &b->to), "event");
}

static void bench_close(Bench *b)
{
    if (b->from) b->be->event_free(b->from);
    if (b->to) b->be->event_free(b->to);
    for (int i = 0; i < 3; i++)
        if (b->lane[i]) b->be->stream_free(b->lane[i]);
}

/* ---- A session of laps ---------------------------------------------------------- */

typedef struct Session {
    const Bench *b;
    TideProfile *f;
    bool *timed;   /* [n_entries]: is it run at all                      */
    int *count;    /* [n_entries]: nodes in the lap that is put together */
    Event **marks; /* [n_marks]                                          */
    int n_marks, most_nodes;
    Lap lap; /* room for the nodes of all graphs                   */
    Operands operands;
    Pool pool;
} Session;

static bool is_quick(const Bench *b, const Entry *e)
{
    const Rough *rough = &b->be->rough;

    return e->flops / rough->flops_per_second + e->bytes / rough->bytes_per_second <= node_seconds_limit;
}

static TideStatus session_open(Session *s, const Bench *b, TideProfile *f)
{
    *s = (Session){ .b = b, .f = f };
    for (int g = 0; g < f->n_graphs; g++) s->most_nodes += b->p->graphs[g]->n_nodes;
    s->timed = pool_new(&s->pool, (size_t)f->n_entries, sizeof *s->timed);
    s->count = pool_new(&s->pool, (size_t)f->n_entries, sizeof *s->count);
    s->lap.nodes = pool_new(&s->pool, (size_t)s->most_nodes, sizeof *s->lap.nodes);
    s->marks = pool_new(&s->pool, (size_t)s->most_nodes + 1, sizeof *s->marks);
    if (s->pool.failed) return no_memory(b);
    for (int e = 0; e < f->n_entries; e++) s->timed[e] = is_quick(b, &f->entries[e]);
    for (; s->n_marks < s->most_nodes + 1; s->n_marks++)
        TRY(failed(b, b->be->event_new(b->device, &s->marks[s->n_marks]), "event"));
    TRY(operands_new(b, f, s->timed, &s->operands));
    return operands_fill(b, f, &s->operands);
}

static void session_close(Session *s)
{
    for (int i = 0; i < s->n_marks; i++) s->b->be->event_free(s->marks[i]);
    operands_free(s->b, &s->operands);
    pool_free(&s->pool);
}

/* Append to the lap, unless `most` nodes of that entry are in it. */
static TideStatus lap_add(Session *s, const Node *n, int entry, int most)
{
    Timed *t = &s->lap.nodes[s->lap.n];

    if (!s->timed[entry] || s->count[entry] == most) return TIDE_OK;
    *t = (Timed){ .node = n, .kernel = s->b->be->kernels[n->op->id], .entry = entry };
    if (!operands_call(s->b, &s->operands, n, entry, &s->pool, &t->call)) return no_memory(s->b);
    s->count[entry]++;
    s->lap.n++;
    return TIDE_OK;
}

static void lap_clear(Session *s)
{
    s->lap.n = 0;
    memset(s->count, 0, (size_t)s->f->n_entries * sizeof *s->count);
}

static TideStatus lap_add_graph(Session *s, int graph, int most)
{
    const TideGraph *g = s->b->p->graphs[graph];

    for (int i = 0; i < g->n_nodes; i++) TRY(lap_add(s, g->nodes[i], s->f->entry_of[graph][i], most));
    return TIDE_OK;
}

/* ---- Preparing and a first impression -------------------------------------------------- */

/* Nodes of one entry take equally long, but what a library chooses may hang on their attributes too. */
static TideStatus prepare_all(Session *s)
{
    const Node **newest = pool_new(&s->pool, (size_t)s->f->n_entries, sizeof *newest);

    if (!newest) return no_memory(s->b);
    for (int i = 0; i < s->lap.n; i++) {
        const Timed *t = &s->lap.nodes[i];
        const Node *before = newest[t->entry];
        if (!t->kernel->prepare) continue;
        if (before && memcmp(before->attr.bytes, t->node->attr.bytes, sizeof before->attr.bytes) == 0)
            continue;
        TRY(failed(s->b, t->kernel->prepare(&t->call), t->node->name));
        newest[t->entry] = t->node;
    }
    return operands_fill(s->b, s->f, &s->operands); /* preparing may write anywhere */
}

/* One node of each entry; the first time loads and warms. */
static TideStatus introduce(Session *s, double *total)
{
    double *seconds = pool_new(&s->pool, (size_t)s->f->n_entries, sizeof *seconds);

    if (!seconds) return no_memory(s->b);
    lap_clear(s);
    for (int g = 0; g < s->f->n_graphs; g++) TRY(lap_add_graph(s, g, 1));
    for (int i = 0; i < 2; i++) TRY(failed(s->b, lap_run(s->b, &s->lap, s->marks, seconds), "nodes"));
    *total = 0;
    for (int i = 0; i < s->lap.n; i++) {
        Entry *e = &s->f->entries[s->lap.nodes[i].entry];
        e->seconds = seconds[i] > least_seconds ? seconds[i] : least_seconds;
        e->source = SOURCE_MEASURED;
        *total += e->seconds;
    }
    return TIDE_OK;
}

/* ---- Laps ------------------------------------------------------------------------------------ */

/* Put together what a graph runs of entries that no lap has had yet, with fewer of each where that would
 * take too long. */
static TideStatus choose_lap(Session *s, int graph, const bool *known)
{
    const TideGraph *g = s->b->p->graphs[graph];
    int most = g->n_nodes;
    double seconds;

    do {
        lap_clear(s);
        seconds = 0;
        for (int i = 0; i < g->n_nodes; i++) {
            int e = s->f->entry_of[graph][i];
            if (s->timed[e] && !known[e] && s->count[e]++ < most) seconds += s->f->entries[e].seconds;
        }
        most = seconds > lap_seconds ? most / 2 : most;
    } while (most > 1 && seconds > lap_seconds);
    lap_clear(s);
    for (int i = 0; i < g->n_nodes; i++)
        if (!known[s->f->entry_of[graph][i]]) TRY(lap_add(s, g->nodes[i], s->f->entry_of[graph][i], most));
    return TIDE_OK;
}

static int count_laps(const Session *s)
{
    int least = s->b->repeats < LEAST_LAPS ? s->b->repeats : LEAST_LAPS, most = 8 * s->b->repeats;
    double seconds = 0;

    for (int i = 0; i < s->lap.n; i++) seconds += s->f->entries[s->lap.nodes[i].entry].seconds;
    double laps = laps_seconds / seconds;
    return laps < least ? least : laps > most ? most : (int)laps;
}

/* The median of what the nodes of entry e took; seconds[laps][n]. */
static double entry_median(const Session *s, int e, const double *seconds, int laps, double *room)
{
    int n = 0;

    for (int lap = 0; lap < laps; lap++)
        for (int i = 0; i < s->lap.n; i++)
            if (s->lap.nodes[i].entry == e) room[n++] = seconds[lap * s->lap.n + i];
    return n ? median_of(room, n) : 0;
}

/* Marks take time themselves, and a replayed lap has other gaps than an issued one: what the marked nodes
 * take together beyond a plain lap is taken off, an equal part each. */
static TideStatus level(Session *s)
{
    double plain, marked = 0;

    TRY(failed(s->b, lap_plain(s->b, &s->lap, PLAIN_LAPS, &plain), "nodes"));
    for (int i = 0; i < s->lap.n; i++) marked += s->f->entries[s->lap.nodes[i].entry].seconds;
    double each = (marked - plain) / s->lap.n;
    for (int e = 0; each > 0 && e < s->f->n_entries; e++) {
        double *seconds = &s->f->entries[e].seconds;
        if (s->count[e]) *seconds = *seconds > 2 * each ? *seconds - each : *seconds / 2;
    }
    return TIDE_OK;
}

/* Run the lap until clocks have settled, and learn from the second half. */
static TideStatus run_laps(Session *s)
{
    int laps = count_laps(s), kept = laps - laps / 2;
    size_t n = (size_t)s->lap.n;
    double *seconds = malloc(2 * (size_t)kept * n * sizeof *seconds);
    TideStatus status = seconds ? TIDE_OK : no_memory(s->b);

    for (int lap = 0; !status && lap < laps; lap++) {
        size_t row = lap < laps / 2 ? 0 : (size_t)(lap - laps / 2);
        status = failed(s->b, lap_run(s->b, &s->lap, s->marks, seconds + row * n), "nodes");
    }
    for (int e = 0; !status && e < s->f->n_entries; e++) {
        if (!s->count[e]) continue;
        double median = entry_median(s, e, seconds, kept, seconds + (size_t)kept * n);
        s->f->entries[e].seconds = median > least_seconds ? median : least_seconds;
    }
    free(seconds);
    return status ? status : level(s);
}

static TideStatus measure_graphs(Session *s)
{
    bool *known = pool_new(&s->pool, (size_t)s->f->n_entries, sizeof *known);
    double total = 0;

    if (!known) return no_memory(s->b);
    for (int g = 0; g < s->f->n_graphs; g++) TRY(lap_add_graph(s, g, s->most_nodes));
    TRY(prepare_all(s));
    TRY(introduce(s, &total));
    for (int g = 0; total <= slow_lap_seconds && g < s->f->n_graphs; g++) {
        TRY(choose_lap(s, g, known));
        if (s->lap.n) TRY(run_laps(s));
        for (int e = 0; e < s->f->n_entries; e++) known[e] = known[e] || s->count[e];
    }
    return TIDE_OK;
}

static TideStatus measure_nodes(const Bench *b, TideProfile *f)
{
    Session s;
    TideStatus status = session_open(&s, b, f);

    if (!status) status = measure_graphs(&s);
    session_close(&s);
    return status;
}

TideStatus tide_profile_measure(const TideProgram *p, int repeats, TideProfile **out)
{
    TRY(profile_new(p, out));
    Bench b = {
        .p = p, .be = p->tide->backend, .device = p->tide->device, .repeats = repeats > 0 ? repeats : 1
    };
    TideStatus status = bench_open(&b);

    if (!status) status = measure_nodes(&b, *out);
    if (!status) status = failed(&b, measure_links(&b, *out), "links"); /* after all kernels are loaded */
    if (!status) status = record_snapshot(p->tide, &(*out)->record);
    bench_close(&b);
    if (!status) {
        profile_fill(p, *out);
        return TIDE_OK;
    }
    tide_profile_free(*out);
    *out = NULL;
    return status;
}
