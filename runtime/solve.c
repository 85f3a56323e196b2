/* solve.c - solutions that fit: live bytes are decided, heights are placed. */
#include <string.h>
#include "runtime/base.h"
#include "runtime/emit.h"
#include "runtime/planner.h"

enum { PLACE_ORDERS = 24, TIGHTEN_ROUNDS = 6 };

static TideStatus no_memory(const Planner *pl)
{
    return tide_fail(pl->program->tide, TIDE_NO_MEMORY, "no memory to plan a program of %d tensors",
                     pl->program->n_tensors);
}

TideStatus planner_new_solution(Planner *pl, Solution *out)
{
    *out = (Solution){ .fates = pool_new(&pl->pool, (size_t)pl->work[0].problem->n_tensors, sizeof *out->fates) };
    return out->fates ? TIDE_OK : no_memory(pl);
}

TideStatus planner_apply(Planner *pl, const Solution *s)
{
    GraphWork *w = &pl->work[0];

    evaluate(w->evaluator, s->fates, s->live_limit);
    return layout_place(w->layout, w->evaluator->schedule, s->enough, PLACE_ORDERS) ? no_memory(pl) : TIDE_OK;
}

TideStatus planner_find_extremes(Planner *pl)
{
    TRY(planner_new_solution(pl, &pl->keep));
    baseline_fates(pl->work[0].facts, TIDE_POLICY_KEEP, pl->keep.fates);
    pl->keep.live_limit = SIZE_MAX;
    TRY(planner_apply(pl, &pl->keep));
    pl->keep.height = pl->work[0].layout->height;
    pl->keep.found = true;
    pl->least = pl->keep;
    return TIDE_OK;
}

TideStatus planner_solve(Planner *pl, const Solution *also, Solution *out)
{
    (void)also;
    *out = pl->keep;
    out->found = pl->keep.height <= pl->device_limit && pl->others <= pl->device_limit;
    return TIDE_OK;
}
