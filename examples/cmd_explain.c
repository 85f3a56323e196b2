/* cmd_explain.c - `tide explain`: why a plan keeps, recomputes or offloads a tensor. */
#include <stdio.h>
#include <stdlib.h>
#include "examples/commands.h"
#include "examples/output.h"
#include "runtime/report/outline.h"

/* Plan files are read without the device and the model that they are for; a device only holds messages. */
static int open_plan(const Options *o, Tide *t, const char *path, Outline *out)
{
    return outline_open(t, path, out) ? refuse(o, "%s", tide_message(t)) : EXIT_DONE;
}

static json_t *seconds_json(double seconds)
{
    return seconds < 0 ? json_null() : json_number(seconds);
}

static json_t *row_json(const Outline *p, const OutlineRow *row)
{
    const Decision *d = &row->decision;
    json_t *j =
        json_pack("{s:s, s:I, s:s, s:o}", "tensor", row->text.name, "bytes", (json_int_t)row->text.bytes,
                  "fate", fate_names[d->fate], "price", json_number(d->price));

    if (!j) return NULL;
    json_object_set_new(j, "flip_budget_bytes",
                        d->flip_bytes ? json_integer((json_int_t)(p->fixed_bytes + d->flip_bytes))
                                      : json_null());
    json_object_set_new(j, "moment", d->node < 0 ? json_null() : json_string(row->text.node));
    json_object_set_new(j, "moment_bytes", json_integer((json_int_t)d->live_bytes));
    json_object_set_new(j, "keep_seconds", seconds_json(d->seconds[TIDE_KEEP]));
    json_object_set_new(j, "recompute_seconds", seconds_json(d->seconds[TIDE_RECOMPUTE]));
    json_object_set_new(j, "offload_seconds", seconds_json(d->seconds[TIDE_OFFLOAD]));
    return j;
}

static int refuse_tensor(const Options *o, const Outline *p)
{
    const char **names = malloc(((size_t)p->n_rows + 1) * sizeof *names), *near = NULL;

    for (int i = 0; names && i < p->n_rows; i++) names[i] = p->rows[i].text.name;
    if (names) near = nearest_name(o->operand2, names, p->n_rows);
    free(names);
    return refuse(o,
                  "%s decides nothing about a tensor %s%s%s%s Only activations that the backward pass reads "
                  "have a fate; this plan has %d of them",
                  o->operand, o->operand2, near ? "; did you mean " : ".", near ? near : "", near ? "?" : "",
                  p->n_rows);
}

static int explain(const Options *o, const Outline *p)
{
    int at = 0;
    const OutlineRow *row = outline_find(p, o->operand2, &at);

    if (!row) return refuse_tensor(o, p);
    if (o->json) return json_emit(o, row_json(p, row));
    for (; row; row = outline_find(p, o->operand2, &at)) why_print(p, row, stdout);
    return EXIT_DONE;
}

int cmd_explain(const Options *o)
{
    Tide *t = NULL;
    Outline plan = { .n_rows = 0 };
    int rc;

    if (!o->operand2) return refuse(o, "give a plan file and the name of a tensor: tide explain PLAN TENSOR");
    if (tide_open("cpu", (TideDeviceOptions){ 0 }, &t)) {
        rc = refuse(o, "%s", tide_message(t));
    } else {
        rc = open_plan(o, t, o->operand, &plan);
        if (!rc) rc = explain(o, &plan);
        outline_close(&plan);
    }
    tide_close(t);
    return rc;
}
