/* cmd_profile.c - `tide profile`: time the operations of a model and the copies of a device. */
#include <stdio.h>
#include "examples/commands.h"
#include "examples/session.h"
#include "runtime/report/times.h"

/* What fails here is the device or the disk, not what was asked for. */
static int world(const Session *s, TideStatus status)
{
    if (!status) return EXIT_DONE;
    session_fail(s, status);
    return EXIT_WORLD;
}

static int report(const Session *s)
{
    const Options *o = s->options;

    if (o->json)
        times_json(s->profile, stdout);
    else if (!o->output)
        times_print(s->profile, stdout);
    else if (!o->quiet)
        times_summary(s->profile, stdout);
    if (fflush(stdout) == 0 && !ferror(stdout)) return EXIT_DONE;
    refuse(o, "standard output cannot be written");
    return EXIT_WORLD;
}

static bool is_there(const char *path)
{
    FILE *f = path ? fopen(path, "r") : NULL;
    bool filled = f && fgetc(f) != EOF;

    if (f) fclose(f);
    return filled;
}

/* A file that is there keeps what it knows of other shapes, and its choices of algorithms hold here. */
static int measure(Session *s)
{
    const char *path = s->options->output;
    const TideProgram *p = s->program;
    TideProfile *older = NULL;
    TideStatus status = is_there(path) ? tide_profile_load(p, path, &older) : TIDE_OK;

    if (status) return session_fail(s, status);
    int rc = world(s, session_measure(p, &s->profile));
    if (!rc && older) status = tide_profile_merge(p, s->profile, older);
    if (status) rc = session_fail(s, status);
    if (!rc && path) rc = world(s, tide_profile_save(p, s->profile, path));
    tide_profile_free(older);
    return rc;
}

int cmd_profile(const Options *o)
{
    Session s;
    int rc = check_writable(o, "-o", o->output);

    if (rc) return rc;
    rc = session_open(o, &s);
    if (!rc) rc = measure(&s);
    if (!rc) rc = report(&s);
    session_close(&s);
    return rc;
}
