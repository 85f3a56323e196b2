/* cmd_diff.c - `tide diff`: what two plans decide differently. */
#include <stdio.h>
#include "examples/commands.h"
#include "examples/output.h"
#include "runtime/report/outline.h"

static json_t *plan_json_of(const Outline *o)
{
    json_t *j =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:o}", "file", o->file.path, "program", o->program, "policy",
                  policy_names[o->policy], "device_bytes", (json_int_t)(o->fixed_bytes + o->arena_bytes),
                  "host_bytes", (json_int_t)o->stats.host_bytes, "seconds", json_number(o->stats.seconds));

    for (int fate = TIDE_KEEP; j && fate < TIDE_FATE_COUNT; fate++)
        json_object_set_new(j, fate_names[fate],
                            json_pack("{s:i, s:I}", "tensors", o->stats.fate[fate].tensors, "bytes",
                                      (json_int_t)o->stats.fate[fate].bytes));
    return j;
}

static json_t *names_json(const OutlineRow **rows, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++) json_array_append_new(list, json_string(rows[i]->text.name));
    return list;
}

static json_t *difference_json(const Outline *a, const Outline *b, const Difference *d)
{
    json_t *changes = json_array();

    for (int i = 0; i < d->n_changes; i++)
        json_array_append_new(changes, json_pack("{s:s, s:I, s:s, s:s}", "tensor", d->changes[i].a->text.name,
                                                 "bytes", (json_int_t)d->changes[i].a->text.bytes, "a",
                                                 fate_names[d->changes[i].a->decision.fate], "b",
                                                 fate_names[d->changes[i].b->decision.fate]));
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "a", plan_json_of(a), "b", plan_json_of(b), "changes",
                     changes, "only_a", names_json(d->only_a, d->n_only_a), "only_b",
                     names_json(d->only_b, d->n_only_b));
}

static int compare(const Options *o, const Outline *a, const Outline *b)
{
    Difference d;
    int rc = EXIT_DONE;

    if (diff_make(a, b, &d))
        rc = refuse(o, "%s", tide_message(a->file.tide));
    else if (o->json)
        rc = json_emit(o, difference_json(a, b, &d));
    else
        diff_print(a, b, &d, stdout);
    diff_free(&d);
    return rc;
}

int cmd_diff(const Options *o)
{
    Tide *t = NULL; /* holds messages */
    Outline a = { .n_rows = 0 }, b = { .n_rows = 0 };
    TideStatus status;
    int rc;

    if (!o->operand2) return refuse(o, "give two plan files: tide diff A B");
    status = tide_open("cpu", (TideDeviceOptions){ 0 }, &t);
    if (!status) status = outline_open(t, o->operand, &a);
    if (!status) status = outline_open(t, o->operand2, &b);
    rc = status ? refuse(o, "%s", tide_message(t)) : compare(o, &a, &b);
    outline_close(&a);
    outline_close(&b);
    tide_close(t);
    return rc;
}
