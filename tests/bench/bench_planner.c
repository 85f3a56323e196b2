/* bench_planner.c - how good plans are, how quickly they come, and what others would take.
 *
 *     bench_planner build/tide [FILE.json ...]
 *
 * Not a test. Plans graph files, or else the cost graphs of cost_models.c, for an H200 and for a link four
 * times slower, at shares of what keeping everything takes beyond what must stay; prints a row a point. Each
 * plan is made by a process of its own, whose time on the processor and whose memory are the planner's.
 * Columns in milliseconds of a step: auto with its bounds and gaps, keep and recompute only, keep and offload
 * only, and the baselines; "-": no plan fits, or not known. */
#define _DEFAULT_SOURCE /* wait4, mkstemps */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/support/sketch.h"

enum { MOST_ARGS = 16, MOST_JSON = 1 << 20 };
static const char *program;

typedef struct Result {
    json_t *plan; /* NULL: none fits */
    double cpu_seconds, peak_mib;
} Result;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Run the program with these arguments, the last NULL, its standard output into text. */
static int run(char *const *args, char *text, struct rusage *usage)
{
    int ends[2], status;
    size_t n = 0;

    if (pipe(ends)) fail("pipe");
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        execv(program, args);
        _exit(127);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], text + n, MOST_JSON - 1 - n)) > 0;) n += (size_t)got;
    text[n] = 0;
    close(ends[0]);
    if (wait4(child, &status, 0, usage) != child) fail("wait4");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

typedef struct Point {
    const char *file, *budget, *link; /* link NULL: the file's */
} Point;

/* Plan a point with up to two words more. */
static Result plan(Point p, const char *option, const char *value)
{
    static char text[MOST_JSON];
    char *args[MOST_ARGS] = {
        "tide", "plan", "--json", "--model", (char *)(size_t)p.file, "--budget", (char *)(size_t)p.budget
    };
    struct rusage usage;
    int n = 7;

    if (p.link) args[n++] = "--link", args[n++] = (char *)(size_t)p.link;
    if (option) args[n++] = (char *)(size_t)option;
    if (value) args[n++] = (char *)(size_t)value;
    int rc = run(args, text, &usage);
    if (rc && rc != 3) {
        fprintf(stderr, "bench_planner: %s plan --model %s fails with %d\n", program, p.file, rc);
        exit(1);
    }
    return (Result){ .plan = rc ? NULL : json_loads(text, 0, NULL),
                     .cpu_seconds = (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec,
                     .peak_mib = (double)usage.ru_maxrss / 1024 };
}

static double number(const json_t *j, const char *key)
{
    const json_t *x = json_object_get(j, key);

    return json_is_number(x) ? json_number_value(x) : NAN;
}

static void put(double x, const char *format, int width)
{
    if (isfinite(x))
        printf(format, width, x);
    else
        printf(" %*s", width, "-");
}

static void put_other(Point p, const char *option, const char *value)
{
    Result r = plan(p, option, value);

    put(number(r.plan, "step_seconds") * 1e3, " %*.2f", 9);
    json_decref(r.plan);
}

static void print_head(void)
{
    printf("%-16s %5s %6s %8s %9s %9s %6s %6s %6s %5s %5s %9s %9s %9s %9s %9s %9s %9s\n", "graph", "link",
           "budget", "GiB", "auto", "bound", "gap%", "lp%", "plan s", "cpu s", "MiB", "+recomp.", "+offload",
           "keep", "recompute", "sqrt", "offload", "off-in");
}

static void print_row(const char *name, Point p)
{
    static const char *const baselines[] = { "keep", "recompute", "sqrt", "offload", "offload-inputs" };
    Result r = plan(p, NULL, NULL), keep = r;

    if (!r.plan) keep = plan((Point){ p.file, "least", p.link }, NULL, NULL);
    printf("%-16s %5s %6s", name, p.link ? "1/4" : "1", p.budget);
    put(number(r.plan, "budget_bytes") / 0x1p30, " %*.2f", 8);
    put(number(r.plan, "step_seconds") * 1e3, " %*.2f", 9);
    put(number(r.plan, "bound_seconds") * 1e3, " %*.2f", 9);
    put(number(r.plan, "gap") * 100, " %*.2f", 6);
    put(number(r.plan, "gap_lp") * 100, " %*.2f", 6);
    put(number(r.plan, "plan_seconds"), " %*.3f", 6);
    printf(" %5.2f %5.0f", r.cpu_seconds, r.peak_mib);
    put_other(p, "--host-budget", "0");
    put_other(p, "--no-recompute", NULL);
    for (size_t i = 0; i < sizeof baselines / sizeof *baselines; i++) put_other(p, "--policy", baselines[i]);
    if (!r.plan) printf("  least %.2f GiB", number(keep.plan, "least_budget_bytes") / 0x1p30);
    printf("\n");
    fflush(stdout);
    if (keep.plan != r.plan) json_decref(keep.plan);
    json_decref(r.plan);
}

static void print_graph(const char *name, const char *file, const char *const *budgets)
{
    char quarter[32];
    snprintf(quarter, sizeof quarter, "%.17g", sketch_h200.link_bytes_per_second / 4e9);
    const char *const links[] = { NULL, quarter };

    for (int l = 0; l < 2; l++)
        for (int i = 0; budgets[i]; i++) print_row(name, (Point){ file, budgets[i], links[l] });
}

static void print_sketch(Sketch *s, const char *name, const char *const *budgets)
{
    char path[] = "/tmp/bench-planner-XXXXXX.json";
    int file = mkstemps(path, 5);
    FILE *f = file < 0 ? NULL : fdopen(file, "w");

    if (!f || !sketch_write(s, f) || fclose(f)) fail(path);
    sketch_free(s);
    print_graph(name, path, budgets);
    unlink(path);
}

int main(int argc, char **argv)
{
    static const char *const deep[] = { "70%", "50%", "35%", "25%", "15%", "10%", NULL }, *const images[] = {
        "75%", "50%", "35%", NULL
    };

    if (argc < 2) {
        fprintf(stderr, "usage: bench_planner build/tide [FILE.json ...]\n");
        return 2;
    }
    program = argv[1];
    print_head();
    for (int i = 2; i < argc; i++) {
        const char *slash = strrchr(argv[i], '/');
        print_graph(slash ? slash + 1 : argv[i], argv[i], deep);
    }
    if (argc > 2) return 0;
    print_sketch(sketch_gpt2(12, 768, 32), "gpt2-124m", deep);
    print_sketch(sketch_gpt2(48, 1600, 16), "gpt2-1558m", deep);
    print_sketch(sketch_llama(32), "llama32", deep);
    print_sketch(sketch_llama(96), "llama96", deep);
    print_sketch(sketch_unet(16), "unet", images);
    print_sketch(sketch_resnet50(128), "resnet50", images);
    print_sketch(sketch_densenet121(128), "densenet121", images);
    return 0;
}
