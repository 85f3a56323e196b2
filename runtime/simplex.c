/* simplex.c - the revised simplex method with a dense inverse.
 *
 * Dantzig's rule chooses what enters. Right sides carry a tiny perturbation, so that no two rows tie and
 * the method cannot cycle. The inverse is computed anew after every REFRESH pivots. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base.h"
#include "runtime/pool.h"
#include "runtime/simplex.h"

enum { REFRESH = 100 };
static const double tiny_cost = 1e-9, tiny_pivot = 1e-9, perturbation = 1e-9;

typedef struct Column {
    double cost;
    int first, n; /* in entries */
    int place;    /* in the basis, -1 */
} Column;

typedef struct Nonzero {
    int row;
    double value;
} Nonzero;

struct Simplex {
    int m, n;
    double *rhs;     /* [m]                                        */
    double *inverse; /* [m][m] of the columns in the basis          */
    double *level;   /* [m]: of the variable at each place          */
    double *dual;    /* [m]                                         */
    double *step;    /* [m]: how levels change as a variable enters */
    double *work;    /* [m][m]                                      */
    int *basis;      /* [m]                                         */
    Column *columns;
    Nonzero *entries;
    int n_entries, room_columns, room_entries;
    Pool pool;
};

Simplex *simplex_new(int rows, const double *rhs)
{
    Simplex *s = calloc(1, sizeof *s);
    size_t m = (size_t)rows;

    if (!s) return NULL;
    s->m = rows;
    s->rhs = pool_new(&s->pool, m, sizeof *s->rhs);
    s->inverse = pool_new(&s->pool, m * m, sizeof *s->inverse);
    s->work = pool_new(&s->pool, m * m, sizeof *s->work);
    s->level = pool_new(&s->pool, m, sizeof *s->level);
    s->dual = pool_new(&s->pool, m, sizeof *s->dual);
    s->step = pool_new(&s->pool, m, sizeof *s->step);
    s->basis = pool_new(&s->pool, m, sizeof *s->basis);
    if (s->pool.failed) {
        simplex_free(s);
        return NULL;
    }
    for (int i = 0; i < rows; i++) s->rhs[i] = rhs[i] + perturbation * (1 + (i * 37 % 101) / 101.0);
    return s;
}

void simplex_free(Simplex *s)
{
    if (!s) return;
    free(s->columns);
    free(s->entries);
    pool_free(&s->pool);
    free(s);
}

/* ---- Columns ------------------------------------------------------------- */

static bool grow(void **array, int *room, int needed, size_t item)
{
    if (needed <= *room) return true;
    int more = needed > 2 * *room ? needed + 64 : 2 * *room;
    void *bigger = realloc(*array, (size_t)more * item);

    if (!bigger) return false;
    *array = bigger;
    *room = more;
    return true;
}

int simplex_add(Simplex *s, double cost, int n, const int *rows, const double *values)
{
    if (!grow((void **)&s->columns, &s->room_columns, s->n + 1, sizeof *s->columns)) return -1;
    if (!grow((void **)&s->entries, &s->room_entries, s->n_entries + n, sizeof *s->entries)) return -1;
    s->columns[s->n] = (Column){ .cost = cost, .first = s->n_entries, .n = n, .place = -1 };
    for (int i = 0; i < n; i++) s->entries[s->n_entries++] = (Nonzero){ rows[i], values[i] };
    return s->n++;
}

static double reduced_cost(const Simplex *s, int j)
{
    const Column *c = &s->columns[j];
    double cost = c->cost;

    for (int i = c->first; i < c->first + c->n; i++) cost -= s->dual[s->entries[i].row] * s->entries[i].value;
    return cost;
}

/* ---- The basis ----------------------------------------------------------- */

/* One elimination step on both matrices: row r of b becomes the unit of column k. */
static void eliminate(const Simplex *s, double *b, int r, int k)
{
    int m = s->m;
    double *brow = &b[r * m], *irow = &s->inverse[r * m], scale = 1 / brow[k];

    for (int j = 0; j < m; j++) brow[j] *= scale;
    for (int j = 0; j < m; j++) irow[j] *= scale;
    for (int i = 0; i < m; i++) {
        double f = b[i * m + k];
        if (i == r || f == 0) continue;
        for (int j = 0; j < m; j++) b[i * m + j] -= f * brow[j];
        for (int j = 0; j < m; j++) s->inverse[i * m + j] -= f * irow[j];
    }
}

static void swap_rows(double *a, int m, int i, int k)
{
    for (int j = 0; j < m && i != k; j++) {
        double x = a[i * m + j];
        a[i * m + j] = a[k * m + j];
        a[k * m + j] = x;
    }
}

/* Gauss and Jordan, with the largest pivot of each column. */
static void invert(Simplex *s)
{
    int m = s->m;
    double *b = s->work;

    memset(b, 0, (size_t)m * (size_t)m * sizeof *b);
    memset(s->inverse, 0, (size_t)m * (size_t)m * sizeof *b);
    for (int k = 0; k < m; k++) {
        const Column *c = &s->columns[s->basis[k]];
        for (int i = c->first; i < c->first + c->n; i++) b[s->entries[i].row * m + k] = s->entries[i].value;
        s->inverse[k * m + k] = 1;
    }
    for (int k = 0; k < m; k++) {
        int best = k;
        for (int i = k + 1; i < m; i++)
            if (fabs(b[i * m + k]) > fabs(b[best * m + k])) best = i;
        if (b[best * m + k] == 0) continue; /* singular: the multipliers are then poor, never wrong */
        swap_rows(b, m, k, best);
        swap_rows(s->inverse, m, k, best);
        eliminate(s, b, k, k);
    }
}

/* Levels and duals of the current basis. */
static void refresh(Simplex *s)
{
    int m = s->m;

    for (int i = 0; i < m; i++) {
        double sum = 0;
        for (int j = 0; j < m; j++) sum += s->inverse[i * m + j] * s->rhs[j];
        s->level[i] = sum;
    }
    memset(s->dual, 0, (size_t)m * sizeof *s->dual);
    for (int i = 0; i < m; i++) {
        double cost = s->columns[s->basis[i]].cost;
        if (cost != 0)
            for (int j = 0; j < m; j++) s->dual[j] += cost * s->inverse[i * m + j];
    }
}

void simplex_start(Simplex *s, const int *columns)
{
    for (int j = 0; j < s->n; j++) s->columns[j].place = -1;
    for (int i = 0; i < s->m; i++) {
        s->basis[i] = columns[i];
        s->columns[columns[i]].place = i;
    }
    invert(s);
    refresh(s);
}

/* ---- Pivots -------------------------------------------------------------- */

static int entering(const Simplex *s)
{
    int best = -1;
    double least = -tiny_cost;

    for (int j = 0; j < s->n; j++) {
        if (s->columns[j].place >= 0) continue;
        double cost = reduced_cost(s, j);
        if (cost >= least) continue;
        least = cost;
        best = j;
    }
    return best;
}

/* step = inverse * column j */
static void find_step(Simplex *s, int j)
{
    const Column *c = &s->columns[j];
    int m = s->m;

    for (int i = 0; i < m; i++) {
        double sum = 0;
        for (int e = c->first; e < c->first + c->n; e++)
            sum += s->inverse[i * m + s->entries[e].row] * s->entries[e].value;
        s->step[i] = sum;
    }
}

/* The place whose variable reaches zero first; -1: none does. */
static int leaving(const Simplex *s)
{
    int best = -1;
    double least = INFINITY;

    for (int i = 0; i < s->m; i++) {
        if (s->step[i] < tiny_pivot) continue;
        double ratio = (s->level[i] > 0 ? s->level[i] : 0) / s->step[i];
        if (ratio > least || (ratio == least && s->step[i] <= s->step[best])) continue;
        least = ratio;
        best = i;
    }
    return best;
}

static void pivot(Simplex *s, int place, int j)
{
    int m = s->m;
    double *row = &s->inverse[place * m], scale = 1 / s->step[place], cost = reduced_cost(s, j);

    for (int k = 0; k < m; k++) row[k] *= scale;
    s->level[place] *= scale;
    for (int i = 0; i < m; i++) {
        double f = s->step[i];
        if (i == place || f == 0) continue;
        for (int k = 0; k < m; k++) s->inverse[i * m + k] -= f * row[k];
        s->level[i] -= f * s->level[place];
    }
    for (int k = 0; k < m; k++) s->dual[k] += cost * row[k];
    s->columns[s->basis[place]].place = -1;
    s->columns[j].place = place;
    s->basis[place] = j;
}

long simplex_solve(Simplex *s, long most)
{
    long n = 0;

    for (; n < most; n++) {
        int j = entering(s);
        if (j < 0) break;
        find_step(s, j);
        int place = leaving(s);
        if (place < 0) break; /* no least cost: the caller's bounds end it */
        pivot(s, place, j);
        if (n % REFRESH < REFRESH - 1) continue;
        invert(s);
        refresh(s);
    }
    return n;
}

double simplex_value(const Simplex *s)
{
    double sum = 0;

    for (int i = 0; i < s->m; i++) sum += s->columns[s->basis[i]].cost * s->level[i];
    return sum;
}

double simplex_dual(const Simplex *s, int row)
{
    return s->dual[row];
}

double simplex_level(const Simplex *s, int column)
{
    return s->columns[column].place < 0 ? 0 : s->level[s->columns[column].place];
}
