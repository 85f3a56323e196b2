/* outline.c - reads what a plan file says for itself. */
#include "runtime/report/outline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"

enum { MOST_ROWS = 1 << 24 };
static const size_t most_file_bytes = (size_t)64 << 20; /* as the loader of plans reads */

static TideStatus read_head(const JsonAt *root, Outline *o)
{
    JsonAt at, device;
    int word = 0;

    TRY(read_version(root, "tide_plan", PLAN_VERSION));
    TRY(read_member(root, "program", &at));
    TRY(read_text(&at, &o->program));
    TRY(read_member(root, "policy", &at));
    TRY(read_word(&at, policy_names, TIDE_POLICY_COUNT, &word));
    o->policy = (TidePolicy)word;
    TRY(read_member(root, "fixed_bytes", &at));
    TRY(read_size(&at, &o->fixed_bytes));
    TRY(read_member(root, "arena", &at));
    TRY(read_member(&at, space_names[SPACE_DEVICE], &device));
    return read_size(&device, &o->arena_bytes);
}

static TideStatus read_rows(const JsonAt *root, Outline *o)
{
    JsonAt list;
    size_t n = 0;

    TRY(read_member(root, "decisions", &list));
    TRY(read_array(&list, 0, MOST_ROWS, &n));
    o->rows = calloc(n + 1, sizeof *o->rows);
    if (!o->rows)
        return tide_fail(list.file->tide, TIDE_NO_MEMORY, "%s: no memory for %zu decisions", list.file->path,
                         n);
    for (; o->n_rows < (int)n; o->n_rows++) {
        OutlineRow *row = &o->rows[o->n_rows];
        JsonAt at = read_item(&list, (size_t)o->n_rows);
        TRY(plan_read_decision(&at, &row->decision, &row->text));
    }
    return TIDE_OK;
}

TideStatus outline_open(Tide *t, const char *path, Outline *out)
{
    *out = (Outline){ .n_rows = 0 };
    TRY(read_open(t, path, most_file_bytes, &out->file));
    JsonAt root = read_root(&out->file);

    TRY(read_head(&root, out));
    TRY(read_rows(&root, out));
    return plan_read_stats(&root, &out->stats);
}

void outline_close(Outline *o)
{
    free(o->rows);
    read_close(&o->file);
}

const OutlineRow *outline_find(const Outline *o, const char *name, int *at)
{
    while (*at < o->n_rows)
        if (strcmp(o->rows[(*at)++].text.name, name) == 0) return &o->rows[*at - 1];
    return NULL;
}
