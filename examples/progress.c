/* progress.c - what a run says while it works. */
#include "examples/progress.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "examples/output.h"
#include "runtime/base.h"
#include "runtime/report/account.h"

enum { PLAIN_LINES = 20 }; /* of a whole run, where there is no terminal */

double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int progress_open(const Options *o, Progress *p)
{
    FILE *to = o->json ? stderr : stdout;

    *p = (Progress){
        .to = o->quiet ? NULL : to, .terminal = isatty(fileno(to)), .steps = o->steps, .started = now()
    };
    p->every = o->steps > PLAIN_LINES ? o->steps / PLAIN_LINES : 1;
    if (!o->metrics) return EXIT_DONE;
    p->metrics = fopen(o->metrics, "w");
    return p->metrics ? EXIT_DONE
                      : refuse(o, "--metrics %s cannot be written: %s", o->metrics, strerror(errno));
}

static void end_line(Progress *p)
{
    if (p->open_line) fputc('\n', p->to);
    p->open_line = false;
}

void progress_say(Progress *p, const char *format, ...)
{
    va_list args;

    if (!p->to) return;
    end_line(p);
    va_start(args, format);
    vfprintf(p->to, format, args);
    va_end(args);
    fputc('\n', p->to);
    fflush(p->to);
}

static void print_step(Progress *p, const StepRecord *r)
{
    char memory[BYTES_TEXT];
    double left = (now() - p->started) / (double)r->step * (double)(p->steps - r->step);

    fprintf(p->to, "%sstep %lld/%lld  loss %.4f  %.0f tokens/s  memory %s  %.0f s left",
            p->terminal ? "\r\033[K" : "", (long long)r->step, (long long)p->steps, r->loss,
            (double)r->tokens / r->seconds, bytes_text(r->process_bytes, memory), left);
    p->open_line = p->terminal;
    if (!p->terminal) fputc('\n', p->to);
    fflush(p->to);
}

/* Stalls inside a step are not measured, only predicted: null. */
static bool write_metrics(FILE *to, const StepRecord *r)
{
    json_t *j = json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:n}", "step", (json_int_t)r->step,
        "loss", json_number(r->loss), "lr", json_number(r->lr), "grad_norm", json_number(r->norm),
        "loss_scale", json_number(r->loss_scale), "skipped", (json_int_t)r->skipped, "tokens",
        (json_int_t)r->tokens, "epochs", json_number(r->epochs), "seconds", json_number(r->seconds),
        "tokens_per_second", json_number((double)r->tokens / r->seconds), "process_bytes",
        (json_int_t)r->process_bytes, "host_bytes", (json_int_t)r->host_bytes, "stall_seconds");
    bool ok = j && json_dumpf(j, to, JSON_COMPACT) == 0 && fputc('\n', to) != EOF && fflush(to) == 0;

    json_decref(j);
    return ok;
}

bool progress_step(Progress *p, const StepRecord *r)
{
    bool shown = p->terminal || r->step == 1 || r->step == p->steps || r->step % p->every == 0;

    if (p->to && shown) print_step(p, r);
    return !p->metrics || write_metrics(p->metrics, r);
}

bool progress_close(Progress *p)
{
    bool ok = true;

    if (p->to) end_line(p);
    if (p->metrics) ok = fclose(p->metrics) == 0;
    p->metrics = NULL;
    return ok;
}
