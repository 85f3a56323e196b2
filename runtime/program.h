/* program.h - what program.c, graph.c and autodiff.c share while a program is declared. */
#ifndef TIDE_PROGRAM_H
#define TIDE_PROGRAM_H
#include "runtime/graph.h"

/* Remember a mistake; the first one wins. */
void program_refuse(TideProgram *p, TideStatus status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A new string, owned by the caller; NULL (and a mistake remembered) without memory. */
char *program_format(TideProgram *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Make room for item number n in *(T **)array, which grows by powers of two; false without memory. */
bool program_grow(TideProgram *p, void *array, int n, size_t item);
/* Append a tensor, taking over its name. Returns its id, 0 on failure. */
int program_add_tensor(TideProgram *p, Tensor t);
/* False if a dimension is below 1, or there are more than 2^46 elements or too many dimensions. */
bool shape_is_sane(TideShape s);
void graph_free(TideGraph *g);

#endif
