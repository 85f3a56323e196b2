/* tide.h - train a model inside a fixed amount of device memory.
 *
 * The life of a program:
 *
 *     open a device -> declare persistent tensors and graphs -> differentiate
 *     -> profile -> plan under a budget -> run the plan, step after step.
 *
 * Everything before tide_run_new() only describes work (profiling borrows
 * memory for one node and gives it back). tide_run_new() makes the only two
 * lasting allocations, one arena on the device and one of pinned host memory;
 * no step ever allocates. */
#ifndef TIDE_H
#define TIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ------------------------------------------------------------ */

/* What can go wrong for reasons outside the program. Mistakes in the calling
 * program (a NULL graph, a tensor of another program) are asserted instead. */
typedef enum TideStatus {
    TIDE_OK = 0,
    TIDE_NO_MEMORY, /* the host or the device refused an allocation          */
    TIDE_NO_PLAN,   /* nothing fits the budget; the message says the least   */
    TIDE_BAD_GRAPH, /* an op refused its inputs, or a forced fate cannot be; the message names it */
    TIDE_BAD_FILE,  /* malformed, or made for another program                */
    TIDE_IO,        /* a file that cannot be read or written                 */
    TIDE_DEVICE,    /* the device is missing or one of its libraries failed  */
} TideStatus;

typedef struct Tide        Tide;        /* a device and the last message     */
typedef struct TideProgram TideProgram; /* persistent tensors and the graphs over them */
typedef struct TideGraph   TideGraph;   /* one straight order of nodes, owned by a program */
typedef struct TideProfile TideProfile; /* how long each part takes          */
typedef struct TidePlan    TidePlan;    /* when and where to compute it      */
typedef struct TideRun     TideRun;     /* a plan with memory behind it      */

/* Zero means: the device's own speed, pinned memory, captured graphs. */
typedef struct TideDeviceOptions {
    double link_bytes_per_second; /* CPU device: slow each copy lane to this speed */
    int    threads;               /* CPU device: threads of a kernel; 0: as OpenMP chooses */
    bool   no_pin;                /* CUDA: pageable host memory                   */
    bool   no_graph;              /* CUDA: issue each step instead of replaying   */
    bool   tf32;                  /* CUDA: f32 products on tensor cores, 10 bits of each factor */
} TideDeviceOptions;

/* Open "cpu", "cuda" or "cuda:0". Also on failure *out is an object that holds
 * the message and wants tide_close(); it is NULL only without memory for that. */
TideStatus tide_open(const char *device, TideDeviceOptions options, Tide **out);
/* Open a device that is not here, only described by a file of tide_profile_save(): programs can be declared
 * and planned for it, with its types, sizes and choices of algorithms, but nothing can be timed or run. */
TideStatus tide_open_profile(const char *path, TideDeviceOptions options, Tide **out);
void       tide_close(Tide *t);
/* The device's name: "cpu", "cuda:0". Borrowed. */
const char *tide_name_of(const Tide *t);

/* The text of the last failure, never NULL; valid until the next call. */
const char *tide_message(const Tide *t);

/* What the device says of its memory; host_free is what the system and the cgroup still
 * let this process take of the machine's own, 0 where that is not known. */
typedef struct TideMemory {
    size_t total, free; /* of the device                                       */
    size_t process;     /* taken by this process; 0 if the device cannot tell  */
    size_t host_free;
} TideMemory;
TideStatus  tide_memory(Tide *t, TideMemory *out);
/* Device, driver and library versions on one line. Borrowed from the device. */
const char *tide_versions(const Tide *t);

/* ---- Tensors ----------------------------------------------------------- */

typedef enum TideType { TIDE_F32, TIDE_BF16, TIDE_F16, TIDE_I32, TIDE_TYPE_COUNT } TideType;

typedef struct TideTensor { int id; } TideTensor; /* 0 is "no tensor" */

enum { TIDE_MAX_DIMS = 4 };
typedef struct TideShape { int n; int64_t dim[TIDE_MAX_DIMS]; } TideShape;

/* Does the device compute with tensors of this type? */
bool tide_has_type(const Tide *t, TideType type);

/* Numbers of a float type as f32, and f32 rounded to the nearest of a type. */
void tide_widen(TideType from_type, const void *from, int64_t n, float *to);
void tide_narrow(TideType to_type, const float *from, int64_t n, void *to);

/* What a tensor is for. Parameters, gradients and states are persistent: they
 * belong to the program, live in flat tensors and stand at the same place in
 * every graph. The others belong to one graph. */
typedef enum TideKind {
    TIDE_INPUT,      /* written by the host before a step                        */
    TIDE_PARAMETER,  /* has a gradient                                           */
    TIDE_GRADIENT,   /* written by backward; its bytes are free before that      */
    TIDE_STATE,      /* masters, moments, counters: carried from step to step    */
    TIDE_ACTIVATION, /* may be kept, recomputed or offloaded                     */
    TIDE_OTHER,      /* lives from its first write to its last read, no choice   */
    TIDE_KIND_COUNT
} TideKind;

/* ---- Program: declare freely, check once -------------------------------- */

/* A program remembers its first mistake: after it every builder returns tensor
 * 0 and does nothing, so model code needs no checks. tide_program_check() tells;
 * profiling and planning ask it themselves. */
TideProgram *tide_program_new(Tide *t);
void         tide_program_free(TideProgram *p);
TideStatus   tide_program_check(const TideProgram *p);
/* The device that the program was made for. Borrowed. */
Tide        *tide_program_device(const TideProgram *p);

/* An empty flat persistent tensor of elements of one type. Views are appended
 * to it until the first graph node uses it or one of its views. */
TideTensor tide_flat(TideProgram *p, const char *name, TideKind kind, TideType type);

/* Append a view of the given shape to a flat tensor and return it. Every view
 * starts at a multiple of 128 elements, so that equal shapes appended to two
 * flat tensors of different types get equal element offsets. */
TideTensor tide_flat_view(TideProgram *p, TideTensor flat, const char *name, TideShape shape);

/* Say where the gradient of a parameter goes: a view of a TIDE_GRADIENT flat
 * of the same shape. accumulate: several micro-steps add to it before an update
 * that sets it to zero; else the first write of a micro-step replaces it. */
void tide_set_gradient(TideProgram *p, TideTensor parameter, TideTensor gradient, bool accumulate);

/* Walk the parameters that are views, in order of declaration. */
int        tide_parameter_count(const TideProgram *p);
TideTensor tide_parameter_at(const TideProgram *p, int i);
TideTensor tide_gradient_of(const TideProgram *p, TideTensor parameter); /* 0: none */

/* Facts about a tensor. Strings are borrowed from the program. */
const char *tide_tensor_name(const TideProgram *p, TideTensor x);
TideShape   tide_tensor_shape(const TideProgram *p, TideTensor x);
TideType    tide_tensor_type(const TideProgram *p, TideTensor x);
size_t      tide_tensor_bytes(const TideProgram *p, TideTensor x);
/* The tensor of that name, in the given graph or among the persistent ones
 * (graph NULL); 0 if there is none. */
TideTensor  tide_tensor_find(const TideProgram *p, const TideGraph *g, const char *name);

/* ---- Graph --------------------------------------------------------------- */

/* A graph is one straight order of nodes that tide_step() runs as a whole: a
 * micro-step (forward and backward), an update, an evaluation, a sampling. */
TideGraph   *tide_graph_new(TideProgram *p, const char *name); /* owned by p */
TideProgram *tide_graph_program(const TideGraph *g);
int          tide_graph_index(const TideGraph *g);  /* what tide_step() takes */
TideGraph   *tide_graph_at(const TideProgram *p, int index); /* NULL: there is none */
const char  *tide_graph_name(const TideGraph *g);   /* borrowed */

/* Inputs are written by tide_write() before a step; outputs are readable by
 * tide_read() after it. The ops between them are declared in kernels/ops.h. */
TideTensor tide_input(TideGraph *g, const char *name, TideType type, TideShape shape);
void       tide_output(TideGraph *g, TideTensor x);

/* Device bytes that the inputs of g take together. */
size_t     tide_input_bytes(const TideGraph *g);

/* Name the layer that the next nodes belong to; layers nest ("block0/mlp"). */
void       tide_layer_begin(TideGraph *g, const char *name);
void       tide_layer_end(TideGraph *g);

/* Give x, the output of the newest node, its name inside the current layer. */
TideTensor tide_name(TideGraph *g, TideTensor x, const char *name);

/* Append the backward pass of y, whose gradient is dy (of the same shape): the
 * gradients of all parameters that y depends on are written where
 * tide_set_gradient() said. After it tide_grad() finds d / d x of any tensor
 * of the graph that y depends on; 0 if there is none. */
void       tide_backward(TideGraph *g, TideTensor y, TideTensor dy);
TideTensor tide_grad(const TideGraph *g, TideTensor x);

/* ---- Profile ------------------------------------------------------------- */

/* Time every distinct node alone, and the copies in both directions. Needs
 * memory for one node at a time, so it works for models that do not fit. */
TideStatus tide_profile_measure(const TideProgram *p, int repeats, TideProfile **out);
/* Guess from FLOPs and bytes, measuring nothing. Plans made from it are as safe
 * as any other, only their predicted seconds are rough. */
TideStatus tide_profile_guess(const TideProgram *p, TideProfile **out);
TideStatus tide_profile_save(const TideProgram *p, const TideProfile *f, const char *path);
/* What the file lacks is filled by scaling; tide_profile_filled() counts it. The device takes over the
 * choices of algorithms in the file if it is of that kind and has those libraries; TIDE_BAD_FILE if they
 * contradict what was chosen or given before. */
TideStatus tide_profile_load(const TideProgram *p, const char *path, TideProfile **out);
/* Add to f what an older profile knows that f did not measure. TIDE_BAD_FILE if it is of another kind of
 * device or other versions. */
TideStatus tide_profile_merge(const TideProgram *p, TideProfile *f, const TideProfile *older);
/* The profile of p scaled from that of another program: entries of equal ops and shapes are taken over. */
TideStatus tide_profile_scale(const TideProgram *p, const TideProfile *from, TideProfile **out);
/* Device bytes that a process takes outside its arena. */
size_t     tide_profile_fixed(const TideProfile *f);
int        tide_profile_filled(const TideProfile *f);
/* Plan with copies of that many bytes a second, each way and both at once. */
void       tide_profile_set_link(TideProfile *f, double bytes_per_second);
void       tide_profile_free(TideProfile *f);

/* ---- Plan ---------------------------------------------------------------- */

typedef enum TideFate { TIDE_AUTO, TIDE_KEEP, TIDE_RECOMPUTE, TIDE_OFFLOAD, TIDE_FATE_COUNT } TideFate;

typedef enum TidePolicy {
    TIDE_POLICY_AUTO,           /* the planner's search                              */
    TIDE_POLICY_KEEP,           /* keep everything                                   */
    TIDE_POLICY_RECOMPUTE,      /* every layer again from its input                  */
    TIDE_POLICY_SQRT,           /* Chen et al. 2016: segments of about sqrt(n) layers */
    TIDE_POLICY_OFFLOAD,        /* offload whatever can be                           */
    TIDE_POLICY_OFFLOAD_INPUTS, /* recompute layers, offload their inputs            */
    TIDE_POLICY_COUNT
} TidePolicy;

/* Tie the planner's hands for activations of g whose name matches the pattern
 * (fnmatch, flags 0). Returns how many matched, those aside that have no choice,
 * for backward does not read them; -1 if one was already forced to another fate. */
int tide_force(TideGraph *g, const char *pattern, TideFate fate);

/* Zero means: no limit. */
typedef struct TideBudget {
    size_t     device_bytes; /* the device arena: everything the plan places    */
    size_t     host_bytes;   /* pinned memory, the staging of inputs included    */
    TidePolicy policy;
    bool       no_recompute;
    bool       no_offload;
} TideBudget;

typedef struct TideTally { int tensors; size_t bytes; } TideTally;

/* Sizes are the whole plan's; times and tallies are those of the first graph. */
typedef struct TidePlanStats {
    size_t    device_bytes, host_bytes;  /* sizes of the two arenas                     */
    size_t    static_bytes;              /* persistent tensors                          */
    size_t    live_bytes;                /* most bytes alive at once: height's lower bound */
    size_t    keep_bytes;                /* device bytes that keep-everything takes      */
    size_t    least_bytes;               /* least device bytes for which a plan was found */
    size_t    least_bound_bytes;         /* no plan of this graph can take less          */
    size_t    bytes_out, bytes_in;       /* traffic of one micro-step                    */
    TideTally fate[TIDE_FATE_COUNT];
    double    seconds, keep_seconds;     /* predicted; keep_seconds of keep-everything   */
    double    recompute_seconds, stall_seconds;
    double    bound_seconds;             /* no schedule takes less: bound_time.h        */
    double    bound_lp_seconds;          /* no plan with one fate a tensor does; 0: not known */
    double    plan_seconds;              /* time that planning took, the proof included  */
    bool      checked;                   /* proven safe: by the planner, or after loading */
} TidePlanStats;

/* Plan every graph of a program and prove the plan; the first graph is the one whose
 * activations have fates. On TIDE_NO_PLAN the message names the least feasible budget found
 * and what sets it, and *least (if not NULL) is that budget. */
TideStatus    tide_plan_make(const TideProgram *p, const TideProfile *f, TideBudget b, TidePlan **out,
                             size_t *least);
/* The least device bytes for which a plan was found, and a bound below which there is none: what
 * tide_plan_make() would say, without planning. Where the bound alone exceeds b.device_bytes (0: no limit),
 * *least is the bound. TIDE_NO_PLAN if the host bytes are too few for any plan. */
TideStatus    tide_plan_least(const TideProgram *p, const TideProfile *f, TideBudget b, size_t *least,
                              size_t *bound);
/* Plans for budgets that ascend in device_bytes and are alike otherwise, so that the predicted seconds never
 * rise with the budget: each plan is a candidate for the next budget. plans[i] is NULL where nothing
 * fits; the caller frees the others. */
TideStatus    tide_plan_sweep(const TideProgram *p, const TideProfile *f, const TideBudget *budgets, int n,
                              TidePlan **plans);
/* Find the budget at which each decision of a plan would change, by planning for a few budgets around the
 * plan's own (six at most), which b gives but for device_bytes. */
TideStatus    tide_plan_find_flips(const TideProgram *p, const TideProfile *f, TideBudget b, TidePlan *plan);
/* Prove a plan safe for this program, trusting nothing: see plan_check.c. */
TideStatus    tide_plan_check(const TideProgram *p, const TidePlan *plan);
TideStatus    tide_plan_save(const TideProgram *p, const TidePlan *plan, const char *path); /* JSON */
/* Also checks the plan, and lets the device take over its choices of algorithms, as of a profile. */
TideStatus    tide_plan_load(const TideProgram *p, const char *path, TidePlan **out);
void          tide_plan_print(const TideProgram *p, const TidePlan *plan, FILE *to);  /* one step a line */
TidePlanStats tide_plan_stats(const TidePlan *plan);
TideFate      tide_plan_fate(const TidePlan *plan, TideTensor x); /* TIDE_AUTO: had no choice */
void          tide_plan_free(TidePlan *plan);

/* ---- Graph files ----------------------------------------------------------- */

/* Write the first graph of p, with its costs, under a name of its own: bytes, seconds, who reads and writes
 * what. Nothing else is needed to plan it. TIDE_IO if the file cannot be written. */
TideStatus tide_graph_save(const TideProgram *p, const TideProfile *f, const char *name, const char *path);
/* Read such a file, whoever wrote it: *t is a device that exists as numbers only, *p a program of one graph
 * on it, which can be planned and not run, *f its costs; the caller frees all three, the device last. On
 * failure *t holds the message and wants tide_close(), and the others are NULL; it is NULL only without
 * memory. */
TideStatus tide_graph_load(const char *path, Tide **t, TideProgram **p, TideProfile **f);

/* ---- Run ----------------------------------------------------------------- */

/* The plan and the program must outlive the run. Persistent tensors are zero. */
TideStatus tide_run_new(const TideProgram *p, const TidePlan *plan, TideRun **out);
void       tide_run_free(TideRun *r);

/* Enqueue one run of a graph and return; at most one step runs ahead. */
TideStatus tide_step(TideRun *r, int graph);
/* Wait until all that was enqueued is done, and report what failed in it. */
TideStatus tide_sync(TideRun *r);

/* Set an input for the next tide_step() of its graph, or a persistent tensor
 * now. bytes must be the tensor's. The source may be reused on return. */
TideStatus tide_write(TideRun *r, TideTensor x, const void *from, size_t bytes);
/* Fetch an output as the newest enqueued tide_step() of its graph leaves it, or
 * a persistent tensor; waits for it. */
TideStatus tide_read(TideRun *r, TideTensor x, void *to, size_t bytes);
/* Fetch an output of the step before the newest one, which may still run. */
TideStatus tide_read_previous(TideRun *r, TideTensor x, void *to, size_t bytes);

/* What a run really did. arena_bytes is the highest byte of the device arena
 * that was written so far (found by a fill pattern), not the size asked for. */
typedef struct TideRunStats {
    size_t arena_bytes;        /* highest byte touched                          */
    size_t process_bytes;      /* device memory of this process, highest seen   */
    size_t host_bytes;         /* pinned arena                                  */
    size_t bytes_out, bytes_in; /* copied between the arenas by the last section run */
} TideRunStats;
TideStatus tide_run_stats(TideRun *r, TideRunStats *out); /* waits */

/* Time every node and copy of the next tide_step() of a graph, which is then issued anew where others are
 * replayed; its results are the same. Makes now what timing needs, and does not let the device rest: after a
 * rest it would be faster for a while. runtime/report/account.h writes the timeline. */
TideStatus tide_run_trace(TideRun *r, int graph);

/* For tests of races: wait this long, at random up to it, before every copy. */
void tide_run_delay_copies(TideRun *r, double seconds, uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
