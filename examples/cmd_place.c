/* cmd_place.c - `tide place`: give a list of buffers their offsets. */
#include <stdio.h>
#include "examples/buffers.h"
#include "examples/commands.h"
#include "examples/output.h"
#include "runtime/place.h"

static int check_options(const Options *o)
{
    if (!o->operand) return refuse(o, "name a file of buffers: tide place buffers.csv --capacity N");
    if (!o->capacity.text) return refuse(o, "--capacity is missing: how much must %s fit in?", o->operand);
    return check_writable(o, "-o", o->output);
}

static int report(const Options *o, const BufferFile *b, const Placed *placed)
{
    double ratio = placed->bound ? (double)placed->height / (double)placed->bound : 1;
    bool fits = (uint64_t)placed->height <= o->capacity.bytes;

    if (o->json)
        return json_emit(o, json_pack("{s:i, s:I, s:I, s:f, s:f, s:b}", "buffers", b->n, "height",
                                      (json_int_t)placed->height, "bound", (json_int_t)placed->bound, "ratio",
                                      ratio, "seconds", placed->seconds, "fits", (int)fits));
    if (!o->quiet)
        printf("%d buffers: height %lld, lower bound %lld, ratio %.4f, %.3f s\n", b->n,
               (long long)placed->height, (long long)placed->bound, ratio, placed->seconds);
    return EXIT_DONE;
}

static int place(const Options *o, BufferFile *b)
{
    Placed placed = { 0 };
    TideStatus status = place_buffers((Buffers){ b->n, b->lower, b->upper, b->size, b->offset },
                                      (int64_t)o->capacity.bytes, o->seconds, &placed);

    if (status) return refuse(o, "%s: no memory to place %d buffers", o->operand, b->n);
    int rc = report(o, b, &placed);
    if (rc) return rc;
    if ((uint64_t)placed.height > o->capacity.bytes) {
        refuse(o, "%s: the least height found is %lld, over --capacity %zu; no height can be below %lld",
               o->operand, (long long)placed.height, o->capacity.bytes, (long long)placed.bound);
        return EXIT_NO_PLAN;
    }
    return o->output ? buffers_write(o, b, o->output) : EXIT_DONE;
}

int cmd_place(const Options *o)
{
    BufferFile b;
    int rc = check_options(o);

    if (rc) return rc;
    rc = buffers_read(o, o->operand, &b);
    if (!rc) rc = place(o, &b);
    buffers_free(&b);
    return rc;
}
