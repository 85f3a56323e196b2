/* simulate.c - when work on three lanes runs.
 *
 * Time jumps from one change to the next. Between two changes every copy moves at one speed, so the
 * result is exact; bytes are counted only when a speed changes. */
#include <math.h>
#include "runtime/base.h"
#include "runtime/simulate.h"

typedef enum State { IDLE, BY_CLOCK, MOVING } State;

typedef struct Doing {
    State state;
    Task *task, *end;   /* the current one, or the next one while idle; one past the last */
    int over;           /* tasks done                                                      */
    double change;      /* when the state changes if no other lane's does; INFINITY: idle   */
    double left, since; /* MOVING: bytes that were left at the moment since                */
} Doing;

static bool may_start(const Doing *d, const Task *task)
{
    return task->after[LANE_COMPUTE] <= d[LANE_COMPUTE].over && task->after[LANE_OUT] <= d[LANE_OUT].over &&
           task->after[LANE_IN] <= d[LANE_IN].over;
}

static void start_tasks(Doing *d, double now)
{
    for (int l = 0; l < LANE_COUNT; l++) {
        if (d[l].state != IDLE || d[l].task == d[l].end || !may_start(d, d[l].task)) continue;
        d[l].state = BY_CLOCK;
        d[l].task->start = now;
        d[l].change = now + d[l].task->seconds;
    }
}

static double own_speed(const Link *link, int lane)
{
    return lane == LANE_OUT ? link->out : link->in;
}

/* The set of moving lanes was `before` and changed now: count what moved, and set new speeds. */
static void change_speeds(Doing *d, const Link *link, bool both_before, double now)
{
    bool both = d[LANE_OUT].state == MOVING && d[LANE_IN].state == MOVING;

    for (int l = LANE_OUT; l <= LANE_IN; l++) {
        if (d[l].state != MOVING) continue;
        double own = own_speed(link, l), shared = link->duplex > 0 && link->duplex < own ? link->duplex : own;
        d[l].left = fmax(0, d[l].left - (both_before ? shared : own) * (now - d[l].since));
        d[l].since = now;
        d[l].change = now + d[l].left / (both ? shared : own);
    }
}

/* Lane l reaches its next change now: a copy begins to move its bytes, or a task ends. */
static void take_change(Doing *d, int l, const Link *link, double now)
{
    bool both_before = d[LANE_OUT].state == MOVING && d[LANE_IN].state == MOVING;
    bool was_moving = d[l].state == MOVING;

    if (!was_moving && d[l].task->bytes > 0) {
        d[l].state = MOVING;
        d[l].left = d[l].task->bytes;
        d[l].since = now;
    } else {
        d[l].task->end = now;
        d[l].task++;
        d[l].over++;
        d[l].state = IDLE;
        d[l].change = INFINITY;
    }
    if (was_moving || d[l].state == MOVING) change_speeds(d, link, both_before, now);
}

double simulate(Timeline *t)
{
    Doing d[LANE_COUNT];
    double now = t->origin;

    for (int l = 0; l < LANE_COUNT; l++)
        d[l] = (Doing){ .task = t->tasks[l], .end = t->tasks[l] + t->n_tasks[l], .change = INFINITY };
    for (;;) {
        start_tasks(d, now);
        int next = d[LANE_OUT].change < d[LANE_COMPUTE].change ? LANE_OUT : LANE_COMPUTE;
        if (d[LANE_IN].change < d[next].change) next = LANE_IN;
        if (isinf(d[next].change)) break;
        now = d[next].change;
        take_change(d, next, &t->link, now);
    }
    for (int l = 0; l < LANE_COUNT; l++) assert(d[l].task == d[l].end);
    return now;
}
