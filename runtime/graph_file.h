/* graph_file.h - what writing and reading a graph file agree on. */
#ifndef TIDE_GRAPH_FILE_H
#define TIDE_GRAPH_FILE_H
#include "runtime/graph.h"

enum { GRAPH_VERSION = 1, GRAPH_PHASES = 3 };

extern const char *const graph_kind_names[TIDE_KIND_COUNT], *const graph_phase_names[GRAPH_PHASES];

#endif
