/* test_cpu_math.c - the vector functions against those of the C library in double. */
#include <criterion/criterion.h>
#include "kernels/cpu/cpu_math.h"

typedef struct Range {
    float from, to;
} Range;

/* The greatest relative error of f against g over many points of a range, the ends included. Near 0 the
 * smallest normal number bounds the denominator. */
static double worst(float (*f)(float), double (*g)(double), Range r, float *where)
{
    enum { POINTS = 400000 };
    double most = 0;

    for (int i = 0; i <= POINTS; i++) {
        float x = (float)((double)r.from + ((double)r.to - (double)r.from) * i / POINTS);
        double right = g((double)x);
        double error = fabs((double)f(x) - right) / fmax(fabs(right), 1.2e-38);
        if (error <= most) continue; /* a NaN goes on */
        most = error;
        *where = x;
    }
    return most;
}

static void expect_close(const char *name, float (*f)(float), double (*g)(double), Range r)
{
    float where = 0;
    double error = worst(f, g, r, &where);

    cr_expect(error < 2.5e-7, "%s over [%g, %g]: error %g at %g", name, (double)r.from, (double)r.to, error,
              (double)where);
}

Test(cpu_math, exp_is_close)
{
    expect_close("exp", math_exp, exp, (Range){ -87.3f, 88.3f });
    expect_close("exp", math_exp, exp, (Range){ -1e-3f, 1e-3f });
}

Test(cpu_math, exp_at_the_ends)
{
    cr_expect(math_exp(-INFINITY) == 0.0f);
    cr_expect(math_exp(-1000.0f) == 0.0f);
    cr_expect(math_exp(0.0f) == 1.0f);
    cr_expect(isinf(math_exp(1000.0f)));
    cr_expect(isinf(math_exp(INFINITY)));
    cr_expect(isnan(math_exp(NAN)));
}

Test(cpu_math, tanh_is_close)
{
    expect_close("tanh", math_tanh, tanh, (Range){ -10.0f, 10.0f });
    expect_close("tanh", math_tanh, tanh, (Range){ -0.7f, 0.7f });
    expect_close("tanh", math_tanh, tanh, (Range){ -1e-4f, 1e-4f });
    expect_close("tanh", math_tanh, tanh, (Range){ -1e4f, 1e4f });
}

Test(cpu_math, erf_is_close)
{
    expect_close("erf", math_erf, erf, (Range){ -6.0f, 6.0f });
    expect_close("erf", math_erf, erf, (Range){ -1.1f, 1.1f });
    expect_close("erf", math_erf, erf, (Range){ -1e-4f, 1e-4f });
    expect_close("erf", math_erf, erf, (Range){ -1e4f, 1e4f });
}

Test(cpu_math, odd_functions_keep_what_is_not_a_number)
{
    cr_expect(math_tanh(INFINITY) == 1.0f && math_tanh(-INFINITY) == -1.0f);
    cr_expect(math_erf(INFINITY) == 1.0f && math_erf(-INFINITY) == -1.0f);
    cr_expect(isnan(math_tanh(NAN)) && isnan(math_erf(NAN)));
}
