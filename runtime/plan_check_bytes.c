/* plan_check_bytes.c - no two things share bytes at one time.
 *
 * Everything that claims bytes is a Claim: a slot from its first to its last use, and
 * what persistent tensors keep between sections. A sweep over the addresses holds the
 * claims on the current byte in order of time. Since "all uses of a before all uses of b"
 * is transitive, a new claim needs comparing with its two neighbours in time only, so
 * that n slots cost n log n and not n squared. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/plan_check.h"

typedef struct Claim {
    Space space;
    size_t begin, end;
    int slot; /* NONE: what a persistent tensor keeps unused */
    int tensor;
    bool from_start, to_end; /* holds something before, after the section   */
    int time;                /* of its first use, for sorting               */
} Claim;

typedef struct Claims {
    const Proof *pr;
    Claim *all; /* [n]  */
    int n;
    int *active; /* [n_active] claims on the current byte, by time  */
    int n_active;
} Claims;

/* ---- Making the list ------------------------------------------------------ */

static int first_use(const Use *u)
{
    int first = INT_MAX;

    for (int l = 0; l < LANE_COUNT; l++)
        if (u->first[l] != NONE && u->first[l] < first) first = u->first[l];
    return first;
}

static void add_claim(Claims *c, Claim claim)
{
    if (claim.begin == claim.end) return;
    claim.time = claim.from_start ? -1 : claim.slot == NONE ? INT_MAX : first_use(&c->pr->use[claim.slot]);
    c->all[c->n++] = claim;
}

/* Bytes of persistent tensor id at a place, used through slot (NONE: unused here). */
static void claim_persistent(Claims *c, Claim at, int id, int slot)
{
    bool in = c->pr->fact[id].live_in, out = c->pr->fact[id].live_out;
    bool used = slot != NONE && first_use(&c->pr->use[slot]) < INT_MAX;

    at.tensor = id;
    at.slot = used ? slot : NONE;
    at.from_start = used ? in : true;
    at.to_end = used ? out : true;
    if (used || in || out) add_claim(c, at);
}

/* A flat tensor: each view by itself, and the padding between them, which optimizers read as
 * zeros and which is therefore never anyone else's. */
static void claim_flat(Claims *c, const Flat *f)
{
    const Proof *pr = c->pr;
    const Tensor *flat = pr->program->tensors[f->tensor];
    int whole = pr->home[f->tensor];

    if (flat->bytes == 0) return;
    const Home *h = &pr->plan->homes[pr->home_of[f->tensor]];
    size_t at = 0;
    for (int i = f->first; i < f->first + f->n; i++) {
        int id = pr->views[i];
        const Tensor *view = pr->program->tensors[id];
        Claim place = { .space = h->space, .begin = h->offset + view->flat_offset };

        place.end = place.begin + view->bytes;
        if (view->flat_offset > at)
            add_claim(c, (Claim){ .space = h->space,
                                  .begin = h->offset + at,
                                  .end = place.begin,
                                  .slot = NONE,
                                  .tensor = f->tensor,
                                  .from_start = true,
                                  .to_end = true });
        if (whole != NONE) claim_persistent(c, place, f->tensor, whole);
        if (whole == NONE || pr->home[id] != NONE) claim_persistent(c, place, id, pr->home[id]);
        at = view->flat_offset + view->bytes;
    }
    Claim rest = { .space = h->space,
                   .begin = h->offset + at,
                   .end = h->offset + flat->bytes,
                   .slot = NONE,
                   .tensor = f->tensor,
                   .from_start = true,
                   .to_end = true };
    if (f->n == 0)
        claim_persistent(c, rest, f->tensor, whole);
    else
        add_claim(c, rest);
}

/* Slots away from home. The host writes and reads staging memory at times of its own choosing,
 * so nothing there is ever shared. */
static void claim_slots(Claims *c)
{
    const Proof *pr = c->pr;

    for (int i = 0; i < pr->section->n_slots; i++) {
        const Slot *s = &pr->section->slots[i];
        bool stage = s->space == SPACE_STAGE;

        if (s->tensor && pr->home[s->tensor] == i) continue;
        if (!stage && first_use(&pr->use[i]) == INT_MAX) continue;
        add_claim(c, (Claim){ .space = s->space,
                              .begin = s->offset,
                              .end = s->offset + s->bytes,
                              .slot = i,
                              .tensor = s->tensor,
                              .from_start = stage,
                              .to_end = stage });
    }
}

/* ---- Comparing two -------------------------------------------------------- */

/* May b take the bytes of a at the run that reads a for the last time and writes b? */
static bool in_place(const Proof *pr, const Claim *a, const Claim *b, int step)
{
    const Step *s = &pr->section->steps[step];

    if (s->kind != STEP_RUN || a->begin != b->begin) return false;
    const Node *n = pr->graph->nodes[s->node];
    const int *arg = pr->section->args + s->first_arg;
    int k = n->op->in_place - 1, times = 0;

    if (k < 0 || k >= n->n_in || arg[k] != a->slot || arg[n->n_in] != b->slot) return false;
    for (int i = 0; i < n->n_in; i++) times += arg[i] == a->slot;
    return times == 1 && pr->program->tensors[a->tensor]->bytes == pr->program->tensors[b->tensor]->bytes;
}

/* All uses of a before all uses of b? One comparison per pair of lanes is enough, because a lane
 * is a total order. If not, *from and *to are steps that are not in order (NONE: no step, but what
 * a tensor holds between sections). */
static bool precedes(const Proof *pr, const Claim *a, const Claim *b, int *from, int *to)
{
    *from = *to = NONE;
    if (a->to_end || b->from_start) return false;
    const Use *ua = &pr->use[a->slot], *ub = &pr->use[b->slot];
    for (int i = 0; i < LANE_COUNT; i++)
        for (int j = 0; j < LANE_COUNT; j++) {
            int x = ua->last[i], y = ub->first[j];
            if (x == NONE || y == NONE || proof_before(pr, x, y)) continue;
            if (x == y && in_place(pr, a, b, x)) continue;
            *from = x, *to = y;
            return false;
        }
    return true;
}

static Text claim_text(const Proof *pr, const Claim *c)
{
    Text t;

    if (c->slot != NONE) return slot_text(pr, c->slot);
    snprintf(t.s, sizeof t.s, "bytes kept for %s (%zu bytes at %zu in %s)",
             pr->program->tensors[c->tensor]->name, c->end - c->begin, c->begin, space_names[c->space]);
    return t;
}

static TideStatus refuse_pair(const Proof *pr, const Claim *a, const Claim *b)
{
    int from, to;
    size_t begin = a->begin > b->begin ? a->begin : b->begin, end = a->end < b->end ? a->end : b->end;
    char why[480];

    precedes(pr, a, b, &from, &to);
    const Claim *lasting = a->to_end ? a : b;
    if (from != NONE)
        snprintf(why, sizeof why, "%s is not over before %s", step_text(pr, from).s, step_text(pr, to).s);
    else if (lasting->slot == NONE)
        snprintf(why, sizeof why, "what is kept for %s must outlive the section",
                 pr->program->tensors[lasting->tensor]->name);
    else
        snprintf(why, sizeof why, "%s holds something %s the section", slot_text(pr, lasting->slot).s,
                 a->to_end ? "after" : "before");
    return proof_refuse(pr, "%s and %s share %zu bytes at %zu of %s, but %s", claim_text(pr, a).s,
                        claim_text(pr, b).s, end - begin, begin, space_names[a->space], why);
}

/* ---- The sweep ------------------------------------------------------------ */

static int by_begin(const void *x, const void *y)
{
    const Claim *a = x, *b = y;

    if (a->space != b->space) return a->space < b->space ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Claims point into one array, sorted by space first, so ends may be compared inside a space. */
typedef struct End {
    Space space;
    size_t end;
    int claim;
} End;

static int by_end(const void *x, const void *y)
{
    const End *a = x, *b = y;

    if (a->space != b->space) return a->space < b->space ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

/* Where in active[] a claim of this time belongs: before the first that is not earlier. */
static int position(const Claims *c, int time)
{
    int low = 0, high = c->n_active;

    while (low < high) {
        int middle = (low + high) / 2;
        if (c->all[c->active[middle]].time < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static TideStatus enter(Claims *c, int claim)
{
    const Claim *new = &c->all[claim];
    int at = position(c, new->time), from, to;

    if (at > 0 && !precedes(c->pr, &c->all[c->active[at - 1]], new, &from, &to))
        return refuse_pair(c->pr, &c->all[c->active[at - 1]], new);
    if (at < c->n_active && !precedes(c->pr, new, &c->all[c->active[at]], &from, &to))
        return refuse_pair(c->pr, new, &c->all[c->active[at]]);
    memmove(c->active + at + 1, c->active + at, (size_t)(c->n_active - at) * sizeof *c->active);
    c->active[at] = claim;
    c->n_active++;
    return TIDE_OK;
}

/* No two active claims have one time: the second would have been refused. */
static void leave(Claims *c, int claim)
{
    int at = position(c, c->all[claim].time);

    assert(at < c->n_active && c->active[at] == claim);
    c->n_active--;
    memmove(c->active + at, c->active + at + 1, (size_t)(c->n_active - at) * sizeof *c->active);
}

static TideStatus sweep(Claims *c, End *ends)
{
    int next = 0;

    qsort(c->all, (size_t)c->n, sizeof *c->all, by_begin);
    for (int i = 0; i < c->n; i++) ends[i] = (End){ c->all[i].space, c->all[i].end, i };
    qsort(ends, (size_t)c->n, sizeof *ends, by_end);
    for (int i = 0; i < c->n; i++) {
        const Claim *now = &c->all[i];
        while (next < c->n && (ends[next].space < now->space ||
                               (ends[next].space == now->space && ends[next].end <= now->begin)))
            leave(c, ends[next++].claim);
        TRY(enter(c, i));
    }
    return TIDE_OK;
}

TideStatus proof_bytes(Proof *pr)
{
    /* A view claims at most twice (by itself and through its flat), and so does the padding
     * behind it. */
    size_t most = (size_t)pr->section->n_slots + 4 * (size_t)pr->program->n_tensors + 1;
    Claims c = { .pr = pr, .all = malloc(most * sizeof *c.all), .active = malloc(most * sizeof *c.active) };
    End *ends = malloc(most * sizeof *ends);
    TideStatus status = TIDE_NO_MEMORY;

    if (c.all && c.active && ends) {
        for (int i = 0; i < pr->n_flats; i++) claim_flat(&c, &pr->flats[i]);
        claim_slots(&c);
        status = sweep(&c, ends);
    } else {
        tide_fail(pr->program->tide, status, "no memory to check %d slots", pr->section->n_slots);
    }
    free(c.all);
    free(c.active);
    free(ends);
    return status;
}
