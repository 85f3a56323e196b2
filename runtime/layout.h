/* layout.h - a schedule gets its offsets. */
#ifndef TIDE_LAYOUT_H
#define TIDE_LAYOUT_H
#include "runtime/schedule.h"

typedef struct Layout {
    const Facts *facts;
    size_t      *offsets; /* [n_stays] of the schedule that was placed last */
    size_t       height;  /* device bytes, static ones included             */
    struct Span *spans;
    int         *span_of; /* [n_stays]                                      */
    int          n_spans;
    Pool         pool;
} Layout;

/* Room for any schedule. TIDE_NO_MEMORY is the only failure. */
TideStatus layout_new(const Facts *f, Layout **out);
void       layout_free(Layout *l);

/* Place all stays around the fixed tensors, trying until the height is at most enough (0: as low
 * as it can) or some orders were tried. Depends on its arguments only. */
TideStatus layout_place(Layout *l, const Schedule *s, size_t enough);

#endif
