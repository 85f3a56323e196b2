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

int cmd_profile(const Options *o)
{
    Session s;
    int rc = check_writable(o, "-o", o->output);

    if (rc) return rc;
    rc = session_open(o, &s);
    if (!rc) rc = world(&s, session_measure(s.program, &s.profile));
    if (!rc && o->output) rc = world(&s, tide_profile_save(s.program, s.profile, o->output));
    if (!rc) rc = report(&s);
    session_close(&s);
    return rc;
}
