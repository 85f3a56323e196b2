/* simplex.h - linear programs: the least of cost * x where A x = rhs, x >= 0.
 *
 * A program starts with its rows; columns come one by one, also between two calls of simplex_solve(), which
 * goes on from where it was. What is proven with its multipliers must not trust them: they are
 * rounded, and a limit of pivots may have stopped them. */
#ifndef TIDE_SIMPLEX_H
#define TIDE_SIMPLEX_H
#include <stdbool.h>

typedef struct Simplex Simplex;

/* rows equations with these right sides, none negative; about 1 is best. NULL without memory. */
Simplex *simplex_new(int rows, const double *rhs);
void     simplex_free(Simplex *s);

/* One more variable, with n non-zero values in these rows. Returns its number; -1 without memory. */
int      simplex_add(Simplex *s, double cost, int n, const int *rows, const double *values);

/* Start from these variables, one a row, whose columns must be triangular or nearly so and their values
 * not negative. */
void     simplex_start(Simplex *s, const int *columns);

/* Pivot until no variable has a negative reduced cost, or so many pivots were made. Returns those. */
long     simplex_solve(Simplex *s, long most);

double   simplex_value(const Simplex *s);              /* cost of the current solution             */
double   simplex_dual(const Simplex *s, int row);      /* cost of one more on the right side       */
double   simplex_level(const Simplex *s, int column);  /* of a variable in the current solution    */

#endif
