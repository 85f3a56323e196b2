/* test_graph_file.c - a graph file is planned like the program it came from; nothing malformed is read. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/graph.h"
#include "runtime/planner.h"
#include "tests/support/fake.h"
#include "tests/support/random_graph.h"
#include "tests/support/sketch.h"

enum { TEXT_BYTES = 1 << 20 };

static char path[64];

static void make_path(void)
{
    strcpy(path, "/tmp/tide-graph-XXXXXX");
    int file = mkstemp(path);
    cr_assert(file >= 0);
    close(file);
}

static void remove_path(void)
{
    unlink(path);
}

TestSuite(graph_file, .init = make_path, .fini = remove_path, .timeout = 120);

static void write_bytes(const char *text, size_t n)
{
    FILE *f = fopen(path, "wb");

    cr_assert(f);
    cr_assert_eq(fwrite(text, 1, n, f), n);
    fclose(f);
}

/* What a file holds once read. */
typedef struct Read {
    Tide *t;
    TideProgram *p;
    TideProfile *f;
    TideStatus status;
} Read;

static Read read_graph(void)
{
    Read r;

    r.status = tide_graph_load(path, &r.t, &r.p, &r.f);
    cr_assert(r.t);
    cr_assert_eq(r.status == TIDE_OK, r.p != NULL && r.f != NULL);
    return r;
}

static void drop(Read *r)
{
    tide_profile_free(r->f);
    tide_program_free(r->p);
    tide_close(r->t);
}

/* ---- There and back --------------------------------------------------------------- */

static int sum(const int *list, int n)
{
    int s = 0;

    for (int i = 0; i < n; i++) s += list[i];
    return s;
}

static void same_nodes(const Problem *a, const Problem *b)
{
    cr_assert_eq(a->n_nodes, b->n_nodes);
    cr_expect_eq(a->turn, b->turn);
    for (int i = 0; i < a->n_nodes; i++) {
        const CostNode *x = &a->nodes[i], *y = &b->nodes[i];
        cr_expect_str_eq(x->name, y->name);
        cr_expect_str_eq(a->layers[x->layer], b->layers[y->layer]);
        cr_expect_eq(x->phase, y->phase);
        cr_expect_eq(x->seconds, y->seconds);
        cr_expect_eq(x->scratch_bytes, y->scratch_bytes);
        cr_expect_eq(x->once, y->once, "%s", x->name);
        cr_expect_eq(x->again, y->again);
        cr_assert_eq(x->n_in, y->n_in);
        cr_assert_eq(x->n_out, y->n_out);
        cr_expect_eq(sum(x->in, x->n_in), sum(y->in, y->n_in));
        cr_expect_eq(sum(x->out, x->n_out), sum(y->out, y->n_out));
        if (x->in_place < 0 || a->tensors[x->in[x->in_place]].fixed) continue;
        cr_expect_eq(y->in_place, 0);
        cr_expect_eq(x->in[x->in_place], y->in[0]);
    }
}

/* The file may hold one tensor more, for bytes that the graph never touches. */
static void same_tensors(const Problem *a, const Problem *b)
{
    cr_assert(b->n_tensors == a->n_tensors || b->n_tensors == a->n_tensors + 1);
    cr_expect_eq(a->static_bytes, b->static_bytes);
    for (int t = 0; t < a->n_tensors; t++) {
        const CostTensor *x = &a->tensors[t], *y = &b->tensors[t];
        cr_expect_str_eq(x->name, y->name);
        cr_expect_eq(x->bytes, y->bytes, "%s: %zu and %zu", x->name, x->bytes, y->bytes);
        cr_expect_eq(x->kind, y->kind);
        cr_expect_eq(x->fixed, y->fixed);
        cr_expect_eq(x->live_in, y->live_in, "%s", x->name);
        cr_expect_eq(x->live_out, y->live_out, "%s", x->name);
        cr_expect_eq(x->producer, y->producer);
        cr_expect_eq(x->again, y->again);
        cr_expect_eq(x->input, y->input);
        cr_expect_eq(x->output, y->output);
    }
}

static void compare(const Planner *a, const Planner *b)
{
    const Facts *x = a->work[0].facts, *y = b->work[0].facts;

    same_nodes(x->problem, y->problem);
    same_tensors(x->problem, y->problem);
    cr_assert_eq(x->n_choices, y->n_choices);
    for (int i = 0; i < x->n_choices; i++) cr_expect_eq(x->choices[i], y->choices[i]);
    for (int i = 0; i < x->problem->n_nodes; i++) cr_expect_eq(x->repeatable[i], y->repeatable[i]);
    cr_expect_eq(a->keep.seconds, b->keep.seconds, "%.17g and %.17g", a->keep.seconds, b->keep.seconds);
    cr_expect_eq(a->bound.bytes, b->bound.bytes);
}

static void there_and_back(TideProgram *p)
{
    Planner *a, *b;
    TideProfile *f;

    cr_assert_eq(tide_profile_guess(p, &f), TIDE_OK, "%s", tide_message(p->tide));
    cr_assert_eq(tide_graph_save(p, f, "there \"and\" back", path), TIDE_OK, "%s", tide_message(p->tide));
    Read r = read_graph();
    cr_assert_eq(r.status, TIDE_OK, "%s", tide_message(r.t));
    cr_expect_str_eq(tide_graph_name(tide_graph_at(r.p, 0)), "there \"and\" back");
    cr_assert_eq(planner_open(p, f, (TideBudget){ 0 }, &a), TIDE_OK);
    cr_assert_eq(planner_open(r.p, r.f, (TideBudget){ 0 }, &b), TIDE_OK);
    a->bound.bytes = 0; /* that of the other graphs */
    cr_assert_eq(planner_find_extremes(a), TIDE_OK);
    cr_assert_eq(planner_find_extremes(b), TIDE_OK);
    compare(a, b);
    planner_close(a);
    planner_close(b);
    drop(&r);
    tide_profile_free(f);
    tide_program_free(p);
}

Test(graph_file, brings_random_programs_back)
{
    Tide *t = fake_open();

    for (uint64_t seed = 0; seed < 40; seed++)
        there_and_back(random_program(t, (RandomSpec){ .seed = seed, .accumulate = seed % 2 }));
    tide_close(t);
    cr_assert_eq(tide_open("cpu", (TideDeviceOptions){ 0 }, &t), TIDE_OK);
    for (uint64_t seed = 0; seed < 10; seed++)
        there_and_back(random_program(t, (RandomSpec){ .seed = seed, .real = true, .accumulate = seed % 2 }));
    tide_close(t);
}

/* ---- By hand ----------------------------------------------------------------------- */

/* Two activations of 100 bytes, a loss and the way back. Each line is one that a case may change. */
static const char *const good =
    "{ \"tide_graph\": 1, \"name\": \"two\", \"fixed_bytes\": 7, \"alignment\": 1,\n"
    "  \"link\": { \"out_bytes_per_second\": 10, \"in_bytes_per_second\": 10,\n"
    "    \"duplex_bytes_per_second\": 8, \"latency_seconds\": 0.5 },\n"
    "  \"tensors\": [\n"
    "    { \"name\": \"x\", \"bytes\": 10, \"kind\": \"input\" },\n"
    "    { \"name\": \"w\", \"bytes\": 30, \"kind\": \"parameter\" },\n"
    "    { \"name\": \"a\", \"bytes\": 100, \"kind\": \"activation\" },\n"
    "    { \"name\": \"b\", \"bytes\": 100, \"kind\": \"activation\" },\n"
    "    { \"name\": \"db\", \"bytes\": 100, \"kind\": \"other\" },\n"
    "    { \"name\": \"dw\", \"bytes\": 30, \"kind\": \"gradient\" },\n"
    "    { \"name\": \"m\", \"bytes\": 60, \"kind\": \"state\" } ],\n"
    "  \"nodes\": [\n"
    "    { \"name\": \"l0/fc\", \"layer\": \"l0\", \"phase\": \"forward\", \"seconds\": 2,\n"
    "      \"in\": [0, 1], \"out\": [2], \"scratch_bytes\": 16, \"recompute\": true, \"in_place\": false },\n"
    "    { \"name\": \"l1/fc\", \"layer\": \"l1\", \"phase\": \"forward\", \"seconds\": 3,\n"
    "      \"in\": [2, 1], \"out\": [3] },\n"
    "    { \"name\": \"l1/fc.again\", \"layer\": \"l1\", \"phase\": \"forward\", \"seconds\": 1,\n"
    "      \"in\": [2], \"out\": [3], \"again\": true },\n"
    "    { \"name\": \"l1/back\", \"layer\": \"l1\", \"phase\": \"backward\", \"seconds\": 4,\n"
    "      \"in\": [3, 2, 1], \"out\": [4, 5], \"in_place\": true },\n"
    "    { \"name\": \"l0/back\", \"layer\": \"l0\", \"phase\": \"backward\", \"seconds\": 5,\n"
    "      \"in\": [4, 0, 5], \"out\": [5] },\n"
    "    { \"name\": \"step\", \"layer\": \"\", \"phase\": \"update\", \"seconds\": 1,\n"
    "      \"in\": [1, 5, 6], \"out\": [1, 6], \"recompute\": false }\n"
    "] }\n";

static TidePlanStats stats_for(const Read *r, TideBudget b, TideStatus expected)
{
    TidePlan *plan = NULL;
    TidePlanStats stats = { 0 };

    cr_assert_eq(tide_plan_make(r->p, r->f, b, &plan, NULL), expected, "%s", tide_message(r->t));
    if (!plan) return stats;
    cr_assert_eq(tide_plan_check(r->p, plan), TIDE_OK, "%s", tide_message(r->t));
    stats = tide_plan_stats(plan);
    tide_plan_free(plan);
    return stats;
}

/* 120 bytes are persistent: w, m and dw. The fullest moment of keeping everything is the first backward node,
 * with x, a and b, whose bytes db takes: 210 more. The input comes in 1.5 s before 15 s of work. */
Test(graph_file, is_planned_by_its_numbers)
{
    write_bytes(good, strlen(good));
    Read r = read_graph();

    cr_assert_eq(r.status, TIDE_OK, "%s", tide_message(r.t));
    TidePlanStats keep = stats_for(&r, (TideBudget){ 0 }, TIDE_OK);
    cr_expect_eq(keep.static_bytes, 120);
    cr_expect_eq(keep.keep_bytes, 330);
    cr_expect_eq(keep.fate[TIDE_KEEP].tensors, 2);
    cr_expect_float_eq(keep.seconds, 16.5, 1e-9);
    /* Where a and b must lie together there is nothing to save. */
    stats_for(&r, (TideBudget){ .device_bytes = 329 }, TIDE_NO_PLAN);
    drop(&r);
}

/* Names need not differ, nothing need be kept, and things may be worth nothing. */
Test(graph_file, may_hold_tensors_without_bytes)
{
    static const char text[] =
        "{\"tide_graph\": 1, \"alignment\": 1, \"tensors\": [{\"name\": \"x\", \"bytes\": 0, \"kind\": "
        "\"input\"},"
        "{\"name\": \"x\", \"bytes\": 0, \"kind\": \"activation\"},"
        "{\"name\": \"y\", \"bytes\": 5, \"kind\": \"activation\"},"
        "{\"name\": \"z\", \"bytes\": 0, \"kind\": \"other\"}], \"nodes\": ["
        "{\"name\": \"n\", \"phase\": \"forward\", \"seconds\": 0, \"in\": [0], \"out\": [1]},"
        "{\"name\": \"n\", \"phase\": \"forward\", \"seconds\": 1, \"in\": [1], \"out\": [2]},"
        "{\"name\": \"n\", \"phase\": \"backward\", \"seconds\": 1, \"in\": [1, 2], \"out\": [3]}]}";

    write_bytes(text, strlen(text));
    Read r = read_graph();
    cr_assert_eq(r.status, TIDE_OK, "%s", tide_message(r.t));
    cr_expect_eq(stats_for(&r, (TideBudget){ 0 }, TIDE_OK).device_bytes, 5);
    for (int policy = 0; policy < TIDE_POLICY_COUNT; policy++)
        stats_for(&r, (TideBudget){ .policy = (TidePolicy)policy }, TIDE_OK);
    drop(&r);
}

Test(graph_file, runs_nothing)
{
    TidePlan *plan;
    TideRun *run;

    write_bytes(good, strlen(good));
    Read r = read_graph();
    cr_assert_eq(tide_plan_make(r.p, r.f, (TideBudget){ 0 }, &plan, NULL), TIDE_OK);
    cr_expect_neq(tide_run_new(r.p, plan, &run), TIDE_OK);
    cr_expect(strstr(tide_message(r.t), "planned, not run"), "%s", tide_message(r.t));
    tide_plan_free(plan);
    drop(&r);
}

/* ---- What is refused ------------------------------------------------------------------ */

/* The first place where the good file says from says to instead; words: what the message must hold. */
typedef struct Damage {
    const char *from, *to, *words;
} Damage;

// clang-format off
static const Damage damages[] = {
    { "\"tide_graph\": 1, ", "", "tide_graph" },
    { "\"tide_graph\": 1", "\"tide_graph\": 2", "version 2" },
    { "\"tide_graph\": 1", "\"tide_graph\": \"1\"", "tide_graph is \"1\"" },
    { "\"tide_graph\": 1", "\"tide_plan\": 1", "tide_graph" },
    { "\"name\": \"two\"", "\"name\": \"two\", \"author\": \"me\"", "author" },
    { "\"name\": \"two\"", "\"name\": \"two\", \"name\": \"three\"", "duplicate" },
    { "\"name\": \"two\"", "\"name\": 2", "name is 2" },
    { "\"name\": \"two\"", "\"name\": \"\"", "name is empty" },
    { "\"name\": \"two\"", "\"name\": \"a\\u001bb\"", "control character" },
    { "\"fixed_bytes\": 7", "\"fixed_bytes\": -7", "fixed_bytes is -7" },
    { "\"fixed_bytes\": 7", "\"fixed_bytes\": 7.5", "fixed_bytes is 7.5" },
    { "\"alignment\": 1", "\"alignment\": 3", "power of two" },
    { "\"alignment\": 1", "\"alignment\": 0", "power of two" },
    { "\"alignment\": 1", "\"alignment\": 1073741824", "alignment is 1073741824" },
    { "\"link\": {", "\"link\": { \"speed\": 1,", "speed" },
    { "\"out_bytes_per_second\": 10", "\"out_bytes_per_second\": -1", "link.out_bytes_per_second is -1" },
    { "\"out_bytes_per_second\": 10", "\"out_bytes_per_second\": \"fast\"", "\"fast\"" },
    { "\"out_bytes_per_second\": 10", "\"out_bytes_per_second\": 1e300", "1e+300" },
    { "\"duplex_bytes_per_second\": 8", "\"duplex_bytes_per_second\": 0", "while both are busy" },
    { "\"latency_seconds\": 0.5", "\"latency_seconds\": null", "latency_seconds is null" },
    { "\"tensors\": [", "\"tensors\": {", "line" },
    { "\"tensors\"", "\"tensor\"", "tensor" },
    { "{ \"name\": \"x\", \"bytes\": 10, \"kind\": \"input\" },", "5,", "tensors[0] is 5" },
    { "\"name\": \"x\", ", "", "tensors[0] lacks the key \"name\"" },
    { "\"name\": \"x\"", "\"name\": \"\"", "tensors[0].name is empty" },
    { "\"name\": \"x\"", "\"name\": \"a\\nb\"", "control character" },
    { "\"bytes\": 10, ", "", "tensors[0] lacks the key \"bytes\"" },
    { "\"bytes\": 10,", "\"bytes\": -1,", "tensors[0].bytes is -1" },
    { "\"bytes\": 10,", "\"bytes\": 1e3,", "tensors[0].bytes is 1000" },
    { "\"bytes\": 10,", "\"bytes\": 9223372036854775807,", "tensors[0].bytes is 9223372036854775807" },
    { "\"bytes\": 10,", "\"bytes\": 99999999999999999999,", "line" },
    { "\"kind\": \"input\"", "\"kind\": \"weight\"", "tensors[0].kind is \"weight\"|activation" },
    { "\"kind\": \"input\"", "\"kind\": 0", "tensors[0].kind is 0" },
    { "\"kind\": \"input\"", "\"kind\": \"activation\"", "l0/fc|tensor 0 (x)|no earlier node" },
    { "\"kind\": \"state\"", "\"kind\": \"input\"", "step|tensor 6 (m)|input" },
    { "\"kind\": \"other\"", "\"kind\": \"input\"", "l1/back|tensor 4 (db)|input" },
    { "\"kind\": \"state\" }",
      "\"kind\": \"state\" }, { \"name\": \"u\", \"bytes\": 1, \"kind\": \"other\" }",
      "tensors[7] (u) is written by no node" },
    { "\"kind\": \"state\" }", "\"kind\": \"state\", \"shape\": [3] }", "shape" },
    { "\"nodes\": [", "\"nodes\": [ ], \"rest\": [", "rest" },
    { "\"name\": \"l0/fc\", ", "", "nodes[0] lacks the key \"name\"" },
    { "\"name\": \"l0/fc\"", "\"name\": [\"l0/fc\"]", "nodes[0].name is an array" },
    { "\"layer\": \"l0\"", "\"layer\": 0", "nodes[0].layer is 0" },
    { "\"phase\": \"forward\", \"seconds\": 2", "\"phase\": \"fwd\", \"seconds\": 2",
      "nodes[0].phase is \"fwd\"|backward" },
    { "\"seconds\": 2", "\"seconds\": -2", "nodes[0].seconds is -2" },
    { "\"seconds\": 2", "\"seconds\": 1e9", "nodes[0].seconds is" },
    { "\"seconds\": 2", "\"seconds\": NaN", "line" },
    { "\"seconds\": 2", "\"seconds\": true", "nodes[0].seconds is true" },
    { ", \"seconds\": 2", "", "nodes[0] lacks the key \"seconds\"" },
    { "\"in\": [0, 1]", "\"in\": [0, 7]", "nodes[0].in[1] is 7|0 to 6" },
    { "\"in\": [0, 1]", "\"in\": [0, -1]", "nodes[0].in[1] is -1" },
    { "\"in\": [0, 1]", "\"in\": [0, 1.0]", "nodes[0].in[1] is 1" },
    { "\"in\": [0, 1]", "\"in\": [0, 3]", "l0/fc|tensor 3 (b)|no earlier node" },
    { "\"in\": [0, 1]", "\"in\": [0, 2]", "l0/fc|tensor 2 (a)|no earlier node" },
    { "\"in\": [0, 1]", "\"in\": 0", "nodes[0].in is 0" },
    { "\"in\": [0, 1], ", "", "nodes[0] lacks the key \"in\"" },
    { "\"out\": [2]", "\"out\": []", "nodes[0].out has 0 items" },
    { "\"out\": [2]", "\"out\": [2, 2]", "l0/fc|tensor 2 (a)|twice" },
    { "\"out\": [2]", "\"out\": [4294967298]", "nodes[0].out[0] is 4294967298" },
    { "\"out\": [2]", "\"out\": [0]", "l0/fc|tensor 0 (x)|input" },
    { "\"out\": [2]", "\"out\": [2,3,4,5,6,1,2,3,4,5,6,1,2,3,4,5,6]", "nodes[0].out has 17 items" },
    { "\"in\": [2, 1], \"out\": [3]", "\"in\": [2, 1], \"out\": [3, 2]", "l1/fc|tensor 2 (a)|earlier node" },
    { "\"in\": [4, 0, 5], \"out\": [5]", "\"in\": [0, 5], \"out\": [5, 4]", "l0/back|tensor 4 (db)" },
    { "\"scratch_bytes\": 16", "\"scratch_bytes\": -16", "nodes[0].scratch_bytes is -16" },
    { "\"recompute\": true", "\"recompute\": 1", "nodes[0].recompute is 1" },
    { "\"in_place\": false", "\"in_place\": true", "l0/fc|in_place|100 bytes" },
    { "\"again\": true", "\"again\": true, \"recompute\": false", "l1/fc.again|again" },
    { "\"out\": [3], \"again\": true", "\"out\": [4], \"again\": true", "l1/fc.again|tensor 4 (db)" },
    { "\"out\": [3], \"again\": true", "\"out\": [5], \"again\": true", "l1/fc.again|tensor 5 (dw)" },
    { "\"in\": [2], \"out\": [3], \"again\": true", "\"in\": [3], \"out\": [3], \"again\": true",
      "l1/fc.again" },
    { "{ \"name\": \"l1/back\"",
      "{ \"name\": \"2nd\", \"phase\": \"forward\", \"seconds\": 1, \"in\": [2], \"out\": [3], "
      "\"again\": true }, { \"name\": \"l1/back\"", "2nd|second node" },
    { "\"out\": [3] }", "\"out\": [3], \"flops\": 5 }", "flops" },
};
// clang-format on
enum { N_DAMAGES = sizeof damages / sizeof *damages };

static void expect_words(const char *message, const char *words)
{
    char copy[256];

    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, "|"); word; word = strtok(NULL, "|"))
        cr_expect(strstr(message, word), "the message lacks '%s': %s", word, message);
}

Test(graph_file, refuses_what_is_malformed)
{
    static char text[TEXT_BYTES];

    for (int i = 0; i < N_DAMAGES; i++) {
        const char *at = strstr(good, damages[i].from);
        cr_assert(at, "case %d: %s", i, damages[i].from);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, damages[i].to,
                 at + strlen(damages[i].from));
        write_bytes(text, strlen(text));
        Read r = read_graph();
        cr_expect_eq(r.status, TIDE_BAD_FILE, "case %d, %s: status %d", i, damages[i].to, (int)r.status);
        cr_expect(strstr(tide_message(r.t), path), "%s", tide_message(r.t));
        expect_words(tide_message(r.t), damages[i].words);
        drop(&r);
    }
}

Test(graph_file, refuses_sums_of_bytes_that_no_machine_has)
{
    FILE *f = fopen(path, "w");

    cr_assert(f);
    fputs("{\"tide_graph\": 1, \"tensors\": [", f);
    for (int i = 0; i < 20000; i++)
        fprintf(f, "%s{\"name\": \"x\", \"bytes\": %lld, \"kind\": \"state\"}", i ? "," : "", 1LL << 46);
    fputs("], \"nodes\": [{\"name\": \"n\", \"phase\": \"update\", \"seconds\": 1, \"in\": [0], \"out\": "
          "[0]}]}",
          f);
    fclose(f);
    Read r = read_graph();
    cr_expect_eq(r.status, TIDE_BAD_FILE);
    expect_words(tide_message(r.t), "tensors[16384].bytes|no machine");
    drop(&r);
}

Test(graph_file, refuses_every_beginning_of_a_file)
{
    size_t n = strlen(good);

    for (size_t cut = 0; cut + 2 < n; cut++) {
        write_bytes(good, cut);
        Read r = read_graph();
        cr_expect_eq(r.status, TIDE_BAD_FILE, "the first %zu bytes", cut);
        drop(&r);
    }
}

Test(graph_file, survives_random_damage)
{
    static char text[TEXT_BYTES];
    uint64_t state = 5;
    size_t n = strlen(good);
    int read = 0;

    for (int i = 0; i < 3000; i++) {
        memcpy(text, good, n);
        for (uint32_t k = 1 + chance(&state, 3); k > 0; k--) {
            size_t at = chance(&state, (uint32_t)n);
            text[at] =
                chance(&state, 2) ? (char)('0' + chance(&state, 10)) : good[chance(&state, (uint32_t)n)];
        }
        write_bytes(text, n);
        Read r = read_graph();
        if (!r.status) { /* another graph, then, that can be planned as well */
            TidePlan *plan = NULL;
            TideStatus status = tide_plan_make(r.p, r.f, (TideBudget){ 0 }, &plan, NULL);
            cr_expect_eq(status, TIDE_OK, "%s\n%s", tide_message(r.t), text);
            if (plan) cr_expect_eq(tide_plan_check(r.p, plan), TIDE_OK, "%s\n%s", tide_message(r.t), text);
            tide_plan_free(plan);
            read++;
        }
        drop(&r);
    }
    cr_expect(read > 100 && read < 2900, "%d of 3000 were read", read);
}

Test(graph_file, says_when_it_cannot_be_read_or_written)
{
    Tide *t = fake_open();
    TideProgram *p = random_program(t, (RandomSpec){ .seed = 1 });
    TideProfile *f;

    cr_assert_eq(tide_profile_guess(p, &f), TIDE_OK);
    cr_expect_eq(tide_graph_save(p, f, "g", "/nowhere/g.json"), TIDE_IO);
    expect_words(tide_message(t), "/nowhere/g.json");
    unlink(path);
    Read r = read_graph();
    cr_expect_eq(r.status, TIDE_IO);
    expect_words(tide_message(r.t), path);
    drop(&r);
    tide_profile_free(f);
    tide_program_free(p);
    tide_close(t);
    make_path();
}
