/* cmd_plan.c - `tide plan`: make a plan, print it, save it; no training. */
#include <stdio.h>
#include "examples/commands.h"
#include "examples/report.h"
#include "runtime/base.h"
#include "runtime/report/account.h"

/* A plan from a file was made without knowing the costs of its graph. */
static TideStatus save_graph(Session *s)
{
    const char *name = s->model ? s->model->config.name : tide_graph_name(s->micro);

    TRY(session_profile(s));
    return tide_graph_save(s->program, s->profile, name, s->options->graph);
}

static int save_files(Session *s)
{
    const Options *o = s->options;
    TideStatus status = TIDE_OK;

    if (o->dump) status = tide_plan_save(s->program, s->plan, o->dump);
    if (!status && o->graph) status = save_graph(s);
    if (!status && o->trace) status = trace_save(s->program, s->plan, o->trace);
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
    if (s->options->list) {
        printf("\n");
        tide_plan_print(s->program, s->plan, stdout);
    }
    return EXIT_DONE;
}

int cmd_plan(const Options *o)
{
    Session s;
    int rc = check_writable(o, "--dump", o->dump);

    if (!rc) rc = check_writable(o, "--trace", o->trace);
    if (!rc) rc = check_writable(o, "--graph", o->graph);
    if (rc) return rc;
    rc = session_open(o, &s);
    if (!rc) rc = session_plan(&s);
    if (!rc) rc = save_files(&s);
    if (!rc) rc = o->json ? json_emit(o, plan_json(&s)) : print_plan(&s);
    session_close(&s);
    return rc;
}
