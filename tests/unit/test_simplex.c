/* test_simplex.c - linear programs whose optimum is proven by their multipliers. */
#include <criterion/criterion.h>
#include <math.h>
#include "runtime/simplex.h"
#include "tests/support/random_graph.h"

enum { MOST_ROWS = 8, MOST_COLUMNS = 30 };

typedef struct Program {
    int rows, columns;
    double rhs[MOST_ROWS], cost[MOST_COLUMNS], a[MOST_COLUMNS][MOST_ROWS];
} Program;

/* Columns that start the method: slacks at a high cost, so that the program is feasible and bounded. */
static Program random_program_of(uint64_t *state)
{
    Program p = { .rows = 1 + (int)chance(state, MOST_ROWS) };

    p.columns = p.rows + 1 + (int)chance(state, MOST_COLUMNS - MOST_ROWS - 1);
    for (int i = 0; i < p.rows; i++) {
        p.rhs[i] = chance(state, 5) ? chance(state, 100) / 100.0 : 0;
        p.a[i][i] = 1;
        p.cost[i] = 50;
    }
    for (int j = p.rows; j < p.columns; j++) {
        p.cost[j] = chance(state, 100) / 10.0;
        for (int i = 0; i < p.rows; i++) p.a[j][i] = chance(state, 3) ? 0 : (chance(state, 120) - 20.0) / 50;
    }
    return p;
}

static int add(Simplex *s, const Program *p, int j)
{
    int rows[MOST_ROWS];

    for (int i = 0; i < p->rows; i++) rows[i] = i;
    return simplex_add(s, p->cost[j], p->rows, rows, p->a[j]);
}

/* Feasible, priced out, and of equal value from both sides: optimal. */
static void check_optimal(const Simplex *s, const Program *p, int trial)
{
    double dual = 0, cost = 0;

    for (int i = 0; i < p->rows; i++) {
        double sum = 0;
        for (int j = 0; j < p->columns; j++) sum += p->a[j][i] * simplex_level(s, j);
        cr_expect(fabs(sum - p->rhs[i]) < 1e-6, "trial %d: row %d is %g, not %g", trial, i, sum, p->rhs[i]);
        dual += simplex_dual(s, i) * p->rhs[i];
    }
    for (int j = 0; j < p->columns; j++) {
        double reduced = p->cost[j];
        for (int i = 0; i < p->rows; i++) reduced -= simplex_dual(s, i) * p->a[j][i];
        cr_expect(reduced > -1e-6, "trial %d: column %d would lower the cost by %g", trial, j, -reduced);
        cr_expect(simplex_level(s, j) > -1e-6);
        cost += p->cost[j] * simplex_level(s, j);
    }
    cr_expect(fabs(cost - simplex_value(s)) < 1e-6 * (1 + fabs(cost)));
    cr_expect(fabs(cost - dual) < 1e-4 * (1 + fabs(cost)), "trial %d: %g above %g", trial, cost, dual);
}

Test(simplex, optimal_at_once_and_column_by_column)
{
    uint64_t state = 3;

    for (int trial = 0; trial < 2000; trial++) {
        Program p = random_program_of(&state);
        Simplex *s = simplex_new(p.rows, p.rhs);
        int start[MOST_ROWS];
        cr_assert_not_null(s);
        for (int i = 0; i < p.rows; i++) start[i] = add(s, &p, i);
        if (trial % 2) simplex_start(s, start);
        for (int j = p.rows; j < p.columns; j++) {
            cr_assert_eq(add(s, &p, j), j);
            if (trial % 2) simplex_solve(s, 1000);
        }
        if (trial % 2 == 0) simplex_start(s, start);
        cr_expect_lt(simplex_solve(s, 1000), 1000, "trial %d does not end", trial);
        check_optimal(s, &p, trial);
        simplex_free(s);
    }
}

Test(simplex, a_known_diet)
{
    /* Least of 2 x + 3 y where x + y >= 1 and x + 3 y >= 2: x = y = 1/2, 2.5; prices 1.5 and 0.5. */
    int rows[] = { 0, 1 };
    Simplex *s = simplex_new(2, (double[]){ 1, 2 });
    double minus = -1;
    int artificial[2];

    for (int i = 0; i < 2; i++) artificial[i] = simplex_add(s, 1e4, 1, &rows[i], (double[]){ 1 });
    simplex_add(s, 0, 1, &rows[0], &minus);
    simplex_add(s, 0, 1, &rows[1], &minus);
    int x = simplex_add(s, 2, 2, rows, (double[]){ 1, 1 }),
        y = simplex_add(s, 3, 2, rows, (double[]){ 1, 3 });
    simplex_start(s, artificial);
    simplex_solve(s, 100);
    cr_expect(fabs(simplex_value(s) - 2.5) < 1e-6 && fabs(simplex_level(s, x) - 0.5) < 1e-6 &&
              fabs(simplex_level(s, y) - 0.5) < 1e-6);
    cr_expect(fabs(simplex_dual(s, 0) - 1.5) < 1e-6 && fabs(simplex_dual(s, 1) - 0.5) < 1e-6);
    simplex_free(s);
}
