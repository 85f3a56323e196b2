/* why.c - one decision of a plan in a paragraph. */
#include <math.h>
#include "runtime/base.h"
#include "runtime/report/account.h"
#include "runtime/report/outline.h"

static void put_bytes(size_t bytes, FILE *to)
{
    char text[BYTES_TEXT];

    fputs(bytes_text(bytes, text), to);
}

/* "+1.234 ms", "nothing". */
static void put_change(double seconds, FILE *to)
{
    if (fabs(seconds) < 1e-9)
        fputs("nothing", to);
    else
        fprintf(to, "%+.3f ms", seconds * 1e3);
}

static void put_fate(const OutlineRow *row, FILE *to)
{
    static const char *const what[TIDE_FATE_COUNT] = {
        [TIDE_AUTO] = "has no fate",
        [TIDE_KEEP] = "is kept on the device until the backward pass has read it",
        [TIDE_RECOMPUTE] =
            "is recomputed: dropped after its last use in the forward pass and made again before "
            "the backward pass reads it",
        [TIDE_OFFLOAD] = "is offloaded: copied to the host after it was made and fetched back before the "
                         "backward pass reads it",
    };

    fprintf(to, "%s (", row->text.name);
    put_bytes(row->text.bytes, to);
    fprintf(to, ") %s.", what[row->decision.fate]);
}

static void put_moment(const Outline *o, const OutlineRow *row, FILE *to)
{
    const Decision *d = &row->decision;

    if (d->node < 0) return;
    fprintf(to, " %s the device is fullest while %s runs: ",
            d->fate == TIDE_KEEP ? "Of the time that it lies there unused," : "Of the time that it is away,",
            row->text.node);
    put_bytes(d->live_bytes, to);
    fputs(" are taken then, of an arena of ", to);
    put_bytes(o->arena_bytes, to);
    fputs(".", to);
}

static void put_price(const Decision *d, FILE *to)
{
    if (d->price > 0)
        fprintf(to, " A GiB of that moment is worth %.4f s of the step to it", d->price * 0x1p30);
    else
        fputs(" Bytes of that moment are worth no time to it", to);
}

static void put_others(const Decision *d, FILE *to)
{
    static const char *const would[TIDE_FATE_COUNT] = { "", "keeping", "recomputing", "offloading" };
    int n = 0;

    for (int fate = TIDE_KEEP; fate < TIDE_FATE_COUNT; fate++) {
        if (fate == (int)d->fate) continue;
        fprintf(to, "%s%s it ", n++ ? ", " : ": ", would[fate]);
        if (d->seconds[fate] < 0) {
            fputs("cannot be", to);
            continue;
        }
        fprintf(to, "%s changes the step by ", fate == TIDE_KEEP ? "(if it fitted)" : "instead");
        put_change(d->seconds[fate] - d->seconds[d->fate], to);
    }
    fputs(".", to);
}

static void put_flip(const Outline *o, const Decision *d, FILE *to)
{
    if (!d->flip_bytes) {
        fputs(d->fate == TIDE_KEEP ? " No smaller budget that was tried gives it up."
                                   : " No larger budget that was tried keeps it.",
              to);
        return;
    }
    fputs(d->fate == TIDE_KEEP ? " It would be given up at a budget of "
                               : " It would be kept at a budget of ",
          to);
    put_bytes(o->fixed_bytes + d->flip_bytes, to);
    fputs(".", to);
}

void why_print(const Outline *o, const OutlineRow *row, FILE *to)
{
    put_fate(row, to);
    put_moment(o, row, to);
    put_price(&row->decision, to);
    put_others(&row->decision, to);
    put_flip(o, &row->decision, to);
    fputs("\n", to);
}
