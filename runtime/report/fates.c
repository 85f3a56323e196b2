/* fates.c - the table of decisions, with equal layers folded into one row. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/graph.h"
#include "runtime/report/account.h"

/* The decisions of one layer: consecutive in the plan's list. "block7/fc" belongs to layer "block7",
 * whose stem is "block" and whose number is 7; number -1: the name has none. */
typedef struct Group {
    const char *layer;
    int stem, length, number; /* letters of the stem and of the layer's name */
    int first, n;             /* into plan->decisions */
    int row;                  /* the first group that decides alike; its own index if it is that */
} Group;

static Group group_at(const TideProgram *p, const TidePlan *plan, int first)
{
    const char *name = program_tensor(p, plan->decisions[first].tensor)->name;
    Group g = { .layer = name, .first = first, .length = (int)strcspn(name, "/."), .number = -1 };

    g.stem = g.length;
    while (g.stem > 0 && isdigit((unsigned char)name[g.stem - 1])) g.stem--;
    if (g.stem < g.length) g.number = atoi(name + g.stem);
    for (int i = first; i < plan->n_decisions; i++, g.n++) {
        const char *other = program_tensor(p, plan->decisions[i].tensor)->name;
        if (strncmp(other, name, (size_t)g.length) || (other[g.length] && !strchr("/.", other[g.length])))
            break;
    }
    return g;
}

static const char *name_in_layer(const TideProgram *p, const TidePlan *plan, const Group *g, int i)
{
    const char *name = program_tensor(p, plan->decisions[g->first + i].tensor)->name;

    return name[g->length] == '/' ? name + g->length + 1 : name;
}

static bool decides_alike(const TideProgram *p, const TidePlan *plan, const Group *a, const Group *b)
{
    if (a->n != b->n || a->stem != b->stem || strncmp(a->layer, b->layer, (size_t)a->stem)) return false;
    if (a->number < 0 || b->number < 0) return false;
    for (int i = 0; i < a->n; i++) {
        const Decision *x = &plan->decisions[a->first + i], *y = &plan->decisions[b->first + i];
        if (x->fate != y->fate || program_tensor(p, x->tensor)->bytes != program_tensor(p, y->tensor)->bytes)
            return false;
        if (strcmp(name_in_layer(p, plan, a, i), name_in_layer(p, plan, b, i))) return false;
    }
    return true;
}

/* "block0-3,5 (5)" for the groups that share the row of groups[row]. */
static void row_label(const Group *groups, int n, int row, char *text, size_t size)
{
    const Group *g = &groups[row];
    int layers = 0;
    size_t at = (size_t)snprintf(text, size, "%.*s", g->stem, g->layer);

    for (int i = row; i < n && at < size; i++) {
        int end = i;
        if (groups[i].row != row || g->number < 0) continue;
        while (end + 1 < n && groups[end + 1].row == row && groups[end + 1].number == groups[end].number + 1)
            end++;
        at += (size_t)snprintf(text + at, size - at, "%s%d", layers ? "," : "", groups[i].number);
        if (end > i && at < size) at += (size_t)snprintf(text + at, size - at, "-%d", groups[end].number);
        layers += end - i + 1;
        i = end;
    }
    if (layers > 1 && at < size) snprintf(text + at, size - at, " (%d layers)", layers);
}

static void print_row(const TideProgram *p, const TidePlan *plan, const Group *g, const char *label, FILE *to)
{
    char text[BYTES_TEXT];

    for (int i = 0; i < g->n; i++) {
        const Decision *d = &plan->decisions[g->first + i];
        fprintf(to, "%-30s %-12s %-10s %12s", i ? "" : label, name_in_layer(p, plan, g, i),
                fate_names[d->fate], bytes_text(program_tensor(p, d->tensor)->bytes, text));
        if (d->price > 0)
            fprintf(to, " %14.4f\n", d->price * 0x1p30);
        else
            fprintf(to, " %14s\n", "-");
    }
}

TideStatus fates_print(const TideProgram *p, const TidePlan *plan, FILE *to)
{
    Group *groups = malloc((size_t)(plan->n_decisions + 1) * sizeof *groups);
    int n = 0;
    char label[120];

    if (!groups) return tide_fail(p->tide, TIDE_NO_MEMORY, "no memory to print the plan");
    for (int i = 0; i < plan->n_decisions; i += groups[n++].n) {
        groups[n] = group_at(p, plan, i);
        groups[n].row = n;
        for (int j = n - 1; j >= 0 && groups[n].row == n; j--)
            if (decides_alike(p, plan, &groups[j], &groups[n])) groups[n].row = groups[j].row;
    }
    fprintf(to, "%-30s %-12s %-10s %12s %14s\n", "layers", "tensor", "fate", "bytes each", "seconds/GiB");
    for (int i = 0; i < n; i++) {
        if (groups[i].row != i) continue;
        row_label(groups, n, i, label, sizeof label);
        print_row(p, plan, &groups[i], label, to);
    }
    free(groups);
    return TIDE_OK;
}
