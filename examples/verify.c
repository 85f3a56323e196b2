/* verify.c - the same step under two plans must give the same bits. */
#include "examples/verify.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"

static TideStatus roomiest_plan(Session *s, TidePlan **out)
{
    TideBudget b = { .policy = TIDE_POLICY_KEEP };
    TideStatus status;

    if (s->default_bytes)
        b.device_bytes = s->default_bytes > s->fixed_bytes ? s->default_bytes - s->fixed_bytes : 1;
    status = session_replan(s, b, out);
    if (status != TIDE_NO_PLAN) return status;
    b.policy = TIDE_POLICY_AUTO;
    return session_replan(s, b, out);
}

TideStatus verify_reference(Session *s, const Text *text, unsigned char **bytes, const char **policy)
{
    TidePlan *plan = NULL;
    Trainer t = { 0 };
    TideStatus status = roomiest_plan(s, &plan);

    *bytes = NULL;
    if (!status) status = trainer_new(s, plan, text, &t);
    if (!status) status = trainer_gradients(&t, 0);
    if (!status) status = trainer_read_gradients(&t, bytes);
    trainer_close(&t);
    if (!status) *policy = policy_names[plan->policy];
    tide_plan_free(plan);
    return status;
}

static size_t first_difference(const unsigned char *a, const unsigned char *b, size_t n)
{
    size_t i = 0;

    while (i < n && a[i] == b[i]) i++;
    return i;
}

static int report_difference(const Trainer *t, TideTensor parameter, size_t element,
                             const unsigned char *both[2])
{
    const TideProgram *p = t->session->model->program;
    TideType type = tide_tensor_type(p, tide_gradient_of(p, parameter));
    float here, there;

    tide_widen(type, both[0] + element * type_bytes(type), 1, &here);
    tide_widen(type, both[1] + element * type_bytes(type), 1, &there);
    fprintf(stderr,
            "tide train: --verify: the gradient of %s differs at element %zu: %.9g under this plan, %.9g "
            "under the "
            "reference; this is a fault of the runtime, and the plan (--dump FILE) shows where\n",
            tide_tensor_name(p, parameter), element, (double)here, (double)there);
    return EXIT_DIFFERENT;
}

int verify_compare(Trainer *t, const unsigned char *reference, const char *policy)
{
    const TideProgram *p = t->session->model->program;
    unsigned char *bytes = NULL;
    size_t at = 0;
    int rc = EXIT_DONE;

    if (trainer_read_gradients(t, &bytes)) {
        session_fail(t->session, TIDE_DEVICE);
        rc = EXIT_WORLD;
    }
    for (int i = 0; !rc && i < tide_parameter_count(p); i++) {
        TideTensor x = tide_parameter_at(p, i);
        size_t n = tide_tensor_bytes(p, tide_gradient_of(p, x));
        size_t same = first_difference(bytes + at, reference + at, n);
        if (same < n)
            rc = report_difference(t, x, same / type_bytes(tide_tensor_type(p, tide_gradient_of(p, x))),
                                   (const unsigned char *[2]){ bytes + at, reference + at });
        at += n;
    }
    if (!rc && !t->session->options->quiet)
        fprintf(stderr, "verified: %zu bytes of gradients of step 1 equal those of policy %s bit by bit\n",
                at, policy);
    free(bytes);
    return rc;
}
