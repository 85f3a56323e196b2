/* cpu_gemm.c - products by OpenBLAS, one call a tile, tiles in parallel.
 *
 * OpenBLAS itself runs on one thread: its bits change with its threads. */
#include "kernels/cpu/cpu_gemm.h"
#include <cblas.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Set-up ---------------------------------------------------------------------------------- */

/* Does the processor have an instruction set, by its name in /proc/cpuinfo? */
static bool processor_has(const char *flag)
{
    char line[8192];
    bool found = false;
    FILE *f = fopen("/proc/cpuinfo", "r");

    if (!f) return false;
    while (!found && fgets(line, sizeof line, f)) {
        if (strncmp(line, "flags", 5)) continue;
        for (char *word = strtok(line, " \t\n:"); word && !found; word = strtok(NULL, " \t\n:"))
            found = !strcmp(word, flag);
        break;
    }
    fclose(f);
    return found;
}

/* Kinds of processor with kernels for AVX2 at least. */
static bool is_recent(const char *kind)
{
    static const char *const recent[] = { "Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids" };

    for (size_t i = 0; i < sizeof recent / sizeof *recent; i++)
        if (!strcasecmp(kind, recent[i])) return true;
    return false;
}

/* Call a function of OpenBLAS that its header does not declare, if this build of it has one. */
static bool call_hidden(void *program, const char *name)
{
    void *symbol = dlsym(program, name);
    void (*function)(void);

    if (!symbol) return false;
    memcpy(&function, &symbol, sizeof function);
    function();
    return true;
}

/* A processor younger than the library is taken for a Prescott of 2004: products then take eight
 * times as long (OpenBLAS 0.3.21 on an Emerald Rapids). What it can do decides, unless the user
 * already has, by the variable that OpenBLAS reads whenever it looks for the processor. */
static void choose_kernels(void)
{
    const char *variable = "OPENBLAS_CORETYPE";
    const char *kind = processor_has("avx512vl") ? "SkylakeX" : processor_has("avx2") ? "Haswell" : NULL;

    if (!kind || is_recent(openblas_get_corename()) || getenv(variable)) return;
    void *program = dlopen(NULL, RTLD_LAZY);
    if (!program) return;
    if (dlsym(program, "gotoblas_dynamic_init") && !setenv(variable, kind, 1)) {
        if (call_hidden(program, "gotoblas_dynamic_quit")) call_hidden(program, "gotoblas_dynamic_init");
        unsetenv(variable);
    }
    dlclose(program);
}

void gemm_setup(void)
{
    choose_kernels();
    openblas_set_num_threads(1);
}

const char *gemm_versions(void)
{
    return openblas_get_config();
}

/* ---- Products -------------------------------------------------------------------------------- */

enum {
    MOST_TILES = 16,
    TILE_STEP = 16,               /* tiles are multiples of this, but for the last            */
    TILE_SIDE = 96,               /* and no side is cut below this                            */
    TILE_FLOPS = 12 * 1000 * 1000 /* below, packing and the fork cost more than a thread gains */
};

/* Rows or columns of a tile when `size` is cut into `parts`. */
static int64_t tile_side(int64_t size, int64_t parts)
{
    int64_t side = (size + parts - 1) / parts;
    return (side + TILE_STEP - 1) / TILE_STEP * TILE_STEP;
}

/* Halve a side until there are enough tiles, or they would get too small. Every tile packs its rows of
 * a and its columns of b anew; OpenBLAS minds narrow tiles less than low ones (measured). */
static void cut(const Gemm *g, int64_t *row_parts, int64_t *column_parts)
{
    double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;

    *row_parts = *column_parts = 1;
    for (int64_t tiles = 1; tiles < MOST_TILES && flops / (double)tiles >= 2.0 * TILE_FLOPS; tiles *= 2) {
        int64_t rows = g->m / *row_parts, columns = g->n / *column_parts;
        bool low = rows < 2 * TILE_SIDE, narrow = columns < 2 * TILE_SIDE;
        if (low && narrow) break;
        if (low || (!narrow && 2 * columns >= rows))
            *column_parts *= 2;
        else
            *row_parts *= 2;
    }
}

/* The part of c from `row` and `column` on that is at most m by n. */
typedef struct Tile {
    int64_t row, column, m, n;
} Tile;

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void run_tile(const Gemm *g, Tile t)
{
    int64_t m = lesser(t.m, g->m - t.row), n = lesser(t.n, g->n - t.column);
    const float *a = g->a + (g->a_transposed ? t.row : t.row * g->lda);
    const float *b = g->b + (g->b_transposed ? t.column * g->ldb : t.column);
    float *c = g->c + t.row * g->ldc + t.column;

    if (m <= 0 || n <= 0) return; /* rounding the sides up left nothing for the last tile */
    for (int64_t i = 0; g->bias && i < m; i++)
        memcpy(c + i * g->ldc, g->bias + t.column, (size_t)n * sizeof *c);
    cblas_sgemm(CblasRowMajor, g->a_transposed ? CblasTrans : CblasNoTrans,
                g->b_transposed ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)g->k, 1.0f, a, (int)g->lda,
                b, (int)g->ldb, g->add || g->bias ? 1.0f : 0.0f, c, (int)g->ldc);
}

void gemm(const Gemm *g)
{
    int64_t row_parts, column_parts;

    cut(g, &row_parts, &column_parts);
    int64_t rows = tile_side(g->m, row_parts), columns = tile_side(g->n, column_parts);

#pragma omp parallel for schedule(dynamic) collapse(2)
    for (int64_t i = 0; i < row_parts; i++)
        for (int64_t j = 0; j < column_parts; j++)
            run_tile(g, (Tile){ i * rows, j * columns, rows, columns });
}
