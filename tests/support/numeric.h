/* numeric.h - the plain reference: runs the nodes of a graph one after the other on the CPU
 * kernels, every tensor in memory of its own. No planner, no executor, no lanes: what a plan must
 * reproduce bit for bit. Random numbers and errors for tests besides. */
#ifndef TIDE_TESTS_NUMERIC_H
#define TIDE_TESTS_NUMERIC_H
#include "runtime/graph.h"

/* Memory for every tensor of a program, by tensor id; a view points into its flat tensor.
 * Persistent tensors are zero, all others hold NaN until something writes them. NULL without
 * memory. */
void **numeric_memory_new(const TideProgram *p);
void numeric_memory_free(const TideProgram *p, void **memory);

/* Let every tensor that is not persistent hold NaN again, inputs excepted. */
void numeric_forget(const TideProgram *p, void **memory);

/* Run all nodes in order (`again` nodes excepted). Scratch is filled with NaN before each. */
TideStatus numeric_run(const TideGraph *g, void **memory);
/* Run one node, `again` or not. */
TideStatus numeric_run_node(const TideGraph *g, int node, void **memory);

/* Let OpenMP use n threads from here on; false if the library was built without it. */
bool numeric_threads(int n);

/* A program of one graph on the CPU device, for tests of single ops. */
typedef struct Scene {
    Tide *tide;
    TideProgram *p;
    TideGraph *g;
    void **memory; /* by tensor id, once ready */
} Scene;

/* Without a device or memory s->g is NULL. */
void scene_open(Scene *s);
/* A flat persistent tensor with one view of that shape; gradients go to a view of their own. */
TideTensor scene_persistent(Scene *s, const char *name, TideKind kind, TideShape shape);
/* A parameter and its gradient, both as above. */
TideTensor scene_parameter(Scene *s, const char *name, TideShape shape);
/* Get memory for all that was declared. The message of the first mistake; NULL if there is none. */
const char *scene_ready(Scene *s);
void scene_close(Scene *s);
/* The memory of a tensor, and its elements. */
float *scene_f32(const Scene *s, TideTensor x);
int32_t *scene_i32(const Scene *s, TideTensor x);
int64_t scene_elements(const Scene *s, TideTensor x);

/* Fill with numbers in [-scale, scale), the same for equal seeds everywhere. */
void numeric_random(float *x, int64_t n, float scale, uint64_t seed);
/* Fill with numbers in [0, below). */
void numeric_random_ints(int32_t *x, int64_t n, int32_t below, uint64_t seed);

/* max |a - b| / max |b|, and max |a - b| where b is 0 all over; infinite where a is not finite. */
double numeric_error(const float *a, const double *b, int64_t n);
/* FNV-1a over bytes; start with NUMERIC_HASH. */
uint64_t numeric_hash(uint64_t hash, const void *bytes, size_t n);
static const uint64_t NUMERIC_HASH = 14695981039346656037u;

#endif
