/* diff.c - what two plans decide differently. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/report/account.h"
#include "runtime/report/outline.h"

/* ---- Finding -------------------------------------------------------------- */

static int by_name(const void *x, const void *y)
{
    const OutlineRow *a = *(const OutlineRow *const *)x, *b = *(const OutlineRow *const *)y;
    int order = strcmp(a->text.name, b->text.name);

    return order ? order : (a > b) - (a < b);
}

/* The rows of a plan by name, equal names in their order; owned by the caller, NULL without memory. */
static const OutlineRow **sorted(const Outline *o)
{
    const OutlineRow **list = malloc(((size_t)o->n_rows + 1) * sizeof *list);

    for (int i = 0; list && i < o->n_rows; i++) list[i] = &o->rows[i];
    if (list) qsort(list, (size_t)o->n_rows, sizeof *list, by_name);
    return list;
}

/* Pair the rows of two sorted lists: row i of a has partner[i] in b, or NULL; b's loners go to only_b. */
static void match(const Outline *a, const Outline *b, const OutlineRow **left, const OutlineRow **right,
                  Difference *d, const OutlineRow **partner)
{
    int i = 0, j = 0;

    while (i < a->n_rows || j < b->n_rows) {
        int order = i == a->n_rows   ? 1
                    : j == b->n_rows ? -1
                                     : strcmp(left[i]->text.name, right[j]->text.name);
        if (order == 0)
            partner[left[i++] - a->rows] = right[j++];
        else if (order < 0)
            partner[left[i++] - a->rows] = NULL;
        else
            d->only_b[d->n_only_b++] = right[j++];
    }
    for (i = 0; i < a->n_rows; i++) {
        if (!partner[i])
            d->only_a[d->n_only_a++] = &a->rows[i];
        else if (partner[i]->decision.fate != a->rows[i].decision.fate)
            d->changes[d->n_changes++] = (Change){ &a->rows[i], partner[i] };
    }
}

TideStatus diff_make(const Outline *a, const Outline *b, Difference *out)
{
    const OutlineRow **left = sorted(a), **right = sorted(b);
    const OutlineRow **partner = calloc((size_t)a->n_rows + 1, sizeof *partner);

    *out = (Difference){ .changes = calloc((size_t)a->n_rows + 1, sizeof *out->changes),
                         .only_a = calloc((size_t)a->n_rows + 1, sizeof *out->only_a),
                         .only_b = calloc((size_t)b->n_rows + 1, sizeof *out->only_b) };
    bool ok = left && right && partner && out->changes && out->only_a && out->only_b;
    if (ok) match(a, b, left, right, out, partner);
    free(left);
    free(right);
    free(partner);
    return ok ? TIDE_OK : tide_fail(a->file.tide, TIDE_NO_MEMORY, "no memory to compare the plans");
}

void diff_free(Difference *d)
{
    free(d->changes);
    free(d->only_a);
    free(d->only_b);
}

/* ---- Printing ------------------------------------------------------------- */

/* A name around the first number in it: "block7/fc" is "block", 7 and "/fc"; number -1: there is none. */
typedef struct Parts {
    const char *name, *tail;
    int head; /* letters before the number */
    long number;
} Parts;

static Parts parts_of(const char *name)
{
    Parts p = { name, name + strlen(name), (int)strcspn(name, "0123456789"), -1 };
    char *end;

    if (!isdigit((unsigned char)name[p.head])) return p;
    p.number = strtol(name + p.head, &end, 10);
    p.tail = end;
    return p;
}

static bool alike(const Change *x, const Change *y)
{
    Parts p = parts_of(x->a->text.name), q = parts_of(y->a->text.name);

    return p.number >= 0 && q.number >= 0 && p.head == q.head &&
           strncmp(p.name, q.name, (size_t)p.head) == 0 && strcmp(p.tail, q.tail) == 0 &&
           x->a->text.bytes == y->a->text.bytes && x->a->decision.fate == y->a->decision.fate &&
           x->b->decision.fate == y->b->decision.fate;
}

/* ",3" or ",3-5" for the run of numbers that begins with change i; marks the run. Returns its length. */
static int put_numbers(const Difference *d, int i, int first, bool *done, FILE *to)
{
    long from = parts_of(d->changes[i].a->text.name).number, last = from;
    int n = 0;

    for (int j = i; j < d->n_changes; j++) {
        if (done[j] || !alike(&d->changes[first], &d->changes[j])) continue;
        long number = parts_of(d->changes[j].a->text.name).number;
        if (j != i && number != last + 1) break;
        last = number;
        done[j] = true;
        n++;
    }
    fprintf(to, last > from ? "%s%ld-%ld" : "%s%ld", i == first ? "" : ",", from, last);
    return n;
}

static void put_group(const Difference *d, int first, bool *done, FILE *to)
{
    const Change *c = &d->changes[first];
    Parts p = parts_of(c->a->text.name);
    char bytes[BYTES_TEXT];
    int n = 1;

    fprintf(to, "  %s -> %s  %.*s", fate_names[c->a->decision.fate], fate_names[c->b->decision.fate],
            p.number < 0 ? (int)strlen(p.name) : p.head, p.name);
    done[first] = p.number < 0;
    if (p.number >= 0) {
        n = 0;
        for (int i = first; i < d->n_changes; i++)
            if (!done[i] && alike(c, &d->changes[i])) n += put_numbers(d, i, first, done, to);
        fputs(p.tail, to);
    }
    bytes_text(c->a->text.bytes, bytes);
    if (n > 1) fprintf(to, "  %d x", n);
    fprintf(to, "  %s\n", bytes);
}

static void put_loners(const char *which, const OutlineRow **rows, int n, FILE *to)
{
    if (n) fprintf(to, "only in %s:", which);
    for (int i = 0; i < n; i++) fprintf(to, "%s %s", i ? "," : "", rows[i]->text.name);
    if (n) fputs("\n", to);
}

static void put_plan(const char *which, const Outline *o, FILE *to)
{
    const TidePlanStats *s = &o->stats;
    char device[BYTES_TEXT], host[BYTES_TEXT];

    fprintf(to, "%s  %-16s %10s %12s %10.3f ms %5d %5d %5d  %s\n", which, policy_names[o->policy],
            bytes_text(o->fixed_bytes + o->arena_bytes, device), bytes_text(s->host_bytes, host),
            s->seconds * 1e3, s->fate[TIDE_KEEP].tensors, s->fate[TIDE_RECOMPUTE].tensors,
            s->fate[TIDE_OFFLOAD].tensors, o->file.path);
}

void diff_print(const Outline *a, const Outline *b, const Difference *d, FILE *to)
{
    bool *done = calloc((size_t)d->n_changes + 1, sizeof *done);

    fprintf(to, "   %-16s %10s %12s %13s  kept again  away  file\n", "policy", "device", "host",
            "micro-step");
    put_plan("a", a, to);
    put_plan("b", b, to);
    if (strcmp(a->program, b->program)) fputs("the plans are for different programs\n", to);
    fprintf(to, "%d of %d decisions differ\n", d->n_changes, a->n_rows - d->n_only_a);
    for (int i = 0; done && i < d->n_changes; i++)
        if (!done[i]) put_group(d, i, done, to);
    put_loners("a", d->only_a, d->n_only_a, to);
    put_loners("b", d->only_b, d->n_only_b, to);
    free(done);
}
