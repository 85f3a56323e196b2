/* cmd_plan.c - `tide plan`: make a plan, print it, save it; no training. */
#include <stdio.h>
#include "examples/commands.h"
#include "examples/curve.h"
#include "examples/report.h"
#include "runtime/base.h"
#include "runtime/report/account.h"
#include "runtime/report/dot.h"

/* A plan from a file was made without knowing the costs of its graph. */
static TideStatus save_graph(Session *s)
{
    const char *name = s->model ? s->model->config.name : tide_graph_name(s->micro);

    TRY(session_profile(s));
    return tide_graph_save(s->program, s->profile, name, s->options->graph);
}

/* What is saved can be explained, so it says when each decision would change. */
static TideStatus save_plan(Session *s)
{
    if (!s->options->plan) TRY(tide_plan_find_flips(s->program, s->profile, s->budget, s->plan));
    return tide_plan_save(s->program, s->plan, s->options->dump);
}

static int save_files(Session *s)
{
    const Options *o = s->options;
    TideStatus status = TIDE_OK;

    if (o->dump) status = save_plan(s);
    if (!status && o->graph) status = save_graph(s);
    if (!status && o->trace) status = trace_save(s->program, s->plan, o->trace);
    if (!status && o->dot) status = dot_save(s->program, s->plan, o->dot);
    if (!status) return EXIT_DONE;
    session_fail(s, status);
    return EXIT_WORLD;
}

static int print_plan(const Session *s)
{
    Account account;
    TideStatus status = account_make(s->program, s->plan, &account);

    if (status) return session_fail(s, status);
    plan_headline(s, stdout);
    printf("\n");
    account_print(&account, s->fixed_bytes, stdout);
    printf("\n");
    status = fates_print(s->program, s->plan, stdout);
    if (status) return session_fail(s, status);
    printf("\n");
    plan_summary(s, stdout);
    return EXIT_DONE;
}

static int print_text(const Session *s, const Curve *c)
{
    int rc = EXIT_DONE;

    if (c->n) {
        plan_headline(s, stdout);
        printf("\n");
        curve_print(c, stdout);
    } else {
        rc = print_plan(s);
    }
    if (!rc && s->options->list) {
        printf("\n");
        tide_plan_print(s->program, s->plan, stdout);
    }
    return rc;
}

static json_t *document(const Session *s, const Curve *c)
{
    json_t *j = plan_json(s);

    if (!j || !c->n) return j;
    json_object_set_new(j, "curve", curve_json(c));
    json_object_set_new(j, "knee_budget_bytes",
                        c->knee < 0 ? json_null() : json_integer((json_int_t)c->points[c->knee].budget));
    return j;
}

static int check_files(const Options *o)
{
    int rc = check_writable(o, "--dump", o->dump);

    if (!rc) rc = check_writable(o, "--trace", o->trace);
    if (!rc) rc = check_writable(o, "--graph", o->graph);
    if (!rc) rc = check_writable(o, "--dot", o->dot);
    if (!rc) rc = check_writable(o, "--csv", o->csv);
    if (!rc && o->csv && !o->curve) rc = refuse(o, "--csv %s writes a curve; give --curve N too", o->csv);
    return rc;
}

int cmd_plan(const Options *o)
{
    Session s = { .options = o };
    Curve curve = { .n = 0 };
    int rc = check_files(o);

    if (rc) return rc;
    rc = session_open(o, &s);
    if (!rc) rc = session_plan(&s);
    if (!rc) rc = save_files(&s);
    if (!rc && o->curve) rc = curve_make(&s, (int)o->curve, &curve);
    if (!rc && o->csv) rc = curve_save(&s, &curve, o->csv);
    if (!rc) rc = o->json ? json_emit(o, document(&s, &curve)) : print_text(&s, &curve);
    curve_free(&curve);
    session_close(&s);
    return rc;
}
