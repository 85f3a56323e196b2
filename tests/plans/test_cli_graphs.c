/* test_cli_graphs.c - graph files, curves, and what saved plans say for themselves, from outside.
 *
 * Each test runs the program in a folder of its own. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 18 };
#define TINY                                                                                                 \
    "--model gpt-char --layers 3 --width 32 --heads 2 --batch 4 --device cpu --profile guess --link 0.5 "

static char folder[32], output[TEXT_BYTES];

/* Run tide in the folder and keep what it prints, messages too; its exit code. */
static int tide(const char *arguments)
{
    char line[1024];

    snprintf(line, sizeof line, "cd %s && \"$TIDE_PROGRAM\" %s 2>&1", folder, arguments);
    FILE *pipe = popen(line, "r");
    cr_assert(pipe);
    output[fread(output, 1, TEXT_BYTES - 1, pipe)] = 0;
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static json_t *tide_json(const char *arguments)
{
    char line[1024];
    int rc = (snprintf(line, sizeof line, "%s --json", arguments), tide(line));
    json_t *j = json_loads(output, JSON_REJECT_DUPLICATES, NULL);

    cr_assert(rc == 0 && j, "%s: exit %d: %s", arguments, rc, output);
    return j;
}

static void expect(const char *arguments, int rc, const char *words)
{
    char copy[256];
    int got = tide(arguments);

    cr_expect_eq(got, rc, "%s: exit %d, not %d: %.900s", arguments, got, rc, output);
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, "|"); word; word = strtok(NULL, "|"))
        cr_expect(strstr(output, word), "%s: '%s' is missing in: %.900s", arguments, word, output);
}

static double number(const json_t *j, const char *key)
{
    cr_assert(json_is_number(json_object_get(j, key)), "%s", key);
    return json_number_value(json_object_get(j, key));
}

static const char *text(const json_t *j, const char *key)
{
    cr_assert(json_is_string(json_object_get(j, key)), "%s", key);
    return json_string_value(json_object_get(j, key));
}

static void begin(void)
{
    if (!getenv("TIDE_PROGRAM") || !*getenv("TIDE_PROGRAM")) cr_skip_test("TIDE_PROGRAM names no program");
    strcpy(folder, "/tmp/tide-cli-XXXXXX");
    cr_assert(mkdtemp(folder), "no folder can be made in /tmp");
}

static void end(void)
{
    char line[64];

    if (!*folder) return;
    snprintf(line, sizeof line, "rm -r %s", folder);
    cr_expect_eq(system(line), 0);
}

TestSuite(cli_graphs, .init = begin, .fini = end, .timeout = 300);

/* ---- Graph files -------------------------------------------------------------- */

/* The file plans like the model, whose other graphs cost time but decide nothing. Padding between persistent
 * tensors lies elsewhere, so that placing differs by luck. */
Test(cli_graphs, a_graph_file_plans_like_its_model)
{
    char line[256];
    json_t *a = tide_json("plan " TINY "--policy keep --graph g.json"),
           *b = tide_json("plan --model g.json --policy keep");

    cr_expect_eq(number(a, "static_bytes"), number(b, "static_bytes"));
    cr_expect_eq(number(a, "least_bound_bytes"), number(b, "least_bound_bytes"));
    cr_expect_eq(number(a, "arena_bound_bytes"), number(b, "arena_bound_bytes"));
    cr_expect_float_eq(number(a, "keep_bytes"), number(b, "keep_bytes"), 0.02 * number(a, "keep_bytes"));
    cr_expect_lt(number(b, "step_seconds"), number(a, "step_seconds"));
    cr_expect(json_equal(json_object_get(a, "kept"), json_object_get(b, "kept")));
    cr_expect_str_eq(text(b, "model"), "gpt-char");
    cr_expect(json_is_null(json_object_get(b, "batch")));
    snprintf(line, sizeof line, "plan --model g.json --budget %.0f --graph h.json",
             0.7 * number(a, "keep_bytes"));
    json_decref(a);
    json_decref(b);
    a = tide_json(line);
    memcpy(strstr(line, "--graph"), "\0", 1);
    memcpy(strstr(line, "g.json"), "h", 1);
    b = tide_json(line);
    cr_expect_eq(number(a, "step_seconds"), number(b, "step_seconds"));
    cr_expect_eq(number(a, "arena_bytes"), number(b, "arena_bytes"));
    json_decref(a);
    json_decref(b);
}

Test(cli_graphs, a_graph_file_is_only_planned)
{
    json_decref(tide_json("plan " TINY "--graph g.json"));
    expect("train --model g.json --data g.json", 2, "g.json|tide plan");
    expect("profile --model g.json", 2, "g.json|tide plan");
    expect("plan --model g.json --batch 4", 2, "--batch|g.json");
    expect("plan --model g.json --device cpu", 2, "--device|g.json");
    expect("plan --model g.json --profile guess", 2, "--profile|g.json");
    expect("plan --model nowhere.json", 2, "nowhere.json");
    expect("plan --model g.json --budget 1", 3, "least budget found");
    expect("plan --model g.json --graph no/g.json", 2, "--graph|no/g.json");
    expect("plan --model g.json --force offload:nothing", 2, "nothing");
    expect("plan --model g.json --budget 40% --list --trace t.json --dump p.json --dot d.dot", 0,
           "block0|offload|compute  run");
    expect("plan --model g.json --plan p.json", 0, "block0|policy auto");
    expect("plan " TINY "--plan p.json", 2, "p.json");
}

Test(cli_graphs, a_faster_link_takes_more)
{
    json_decref(tide_json("plan " TINY "--graph g.json"));
    json_t *slow = tide_json("plan --model g.json --budget 40% --link 0.001"),
           *fast = tide_json("plan --model g.json --budget 40% --link 1000");

    cr_expect_gt(number(slow, "step_seconds"), number(fast, "step_seconds"));
    cr_expect_gt(number(json_object_get(fast, "offloaded"), "bytes"),
                 number(json_object_get(slow, "offloaded"), "bytes"));
    json_decref(slow);
    json_decref(fast);
}

/* ---- Curves --------------------------------------------------------------------- */

Test(cli_graphs, a_curve_falls)
{
    json_t *j = tide_json("plan " TINY "--curve 6 --csv c.csv"), *curve = json_object_get(j, "curve"), *point;
    double budget = 0, seconds = 1e9;
    size_t i;

    cr_assert_eq(json_array_size(curve), 6);
    json_array_foreach(curve, i, point)
    {
        cr_expect_gt(number(point, "budget_bytes"), budget);
        cr_expect_leq(number(point, "step_seconds"), seconds);
        cr_expect_geq(number(point, "seconds_per_gib"), 0);
        cr_expect_leq(number(point, "bound_seconds"), number(point, "step_seconds") * (1 + 1e-9));
        budget = number(point, "budget_bytes");
        seconds = number(point, "step_seconds");
    }
    cr_expect_eq(number(json_array_get(curve, 0), "budget_bytes"), number(j, "least_budget_bytes"));
    cr_expect_eq(budget, number(j, "keep_bytes"));
    cr_expect_eq(number(json_array_get(curve, 5), "recomputed"), 0);
    cr_expect_eq(number(json_array_get(curve, 5), "offloaded"), 0);
    json_decref(j);
    char path[64], line[256];
    int lines = 0;
    snprintf(path, sizeof path, "%s/c.csv", folder);
    FILE *f = fopen(path, "r");
    cr_assert(f);
    while (fgets(line, sizeof line, f)) lines++;
    fclose(f);
    cr_expect_eq(lines, 7);
    expect("plan " TINY "--curve 4", 0, "budget|s/GiB more|MiB");
    expect("plan " TINY "--csv c.csv", 2, "--csv|--curve");
    expect("plan " TINY "--curve 1", 2, "--curve 1");
}

/* ---- Plans that speak ------------------------------------------------------------ */

static const char *fate_of(const char *plan, const char *tensor, char fate[16])
{
    char line[128];

    snprintf(line, sizeof line, "explain %s %s", plan, tensor);
    json_t *j = tide_json(line);
    snprintf(fate, 16, "%s", text(j, "fate"));
    json_decref(j);
    return fate;
}

/* What explain says is what the planner does: kept from the flip budget on, if it was given up below. */
Test(cli_graphs, explain_names_the_budget_of_a_change)
{
    char line[256], fate[16];

    json_decref(tide_json("plan " TINY "--budget 30% --dump p.json"));
    json_t *j = tide_json("explain p.json block1/fc");
    cr_expect_str_neq(text(j, "fate"), "keep");
    cr_expect_gt(strlen(text(j, "moment")), 0);
    cr_expect_gt(number(j, "moment_bytes"), number(j, "bytes"));
    cr_expect_geq(number(j, "price"), 0);
    double flip = number(j, "flip_budget_bytes");
    cr_assert_gt(flip, 0);
    snprintf(line, sizeof line, "plan " TINY "--budget %.0f --dump q.json", flip);
    json_decref(tide_json(line));
    cr_expect_str_eq(fate_of("q.json", "block1/fc", fate), "keep");
    json_decref(j);
    expect("explain p.json block1/fc", 0, "block1/fc (|It would be kept at a budget of");
}

/* Forced fates make the price plain: what it would save to keep a tensor is what the two plans differ by. */
Test(cli_graphs, prices_are_differences)
{
    json_t *keep = tide_json("plan " TINY "--policy keep --dump k.json"),
           *again = tide_json("plan " TINY "--policy keep --force recompute:block1/gelu --dump r.json"),
           *row = tide_json("explain r.json block1/gelu");
    double seconds = number(again, "step_seconds") - number(keep, "step_seconds");

    cr_expect_str_eq(text(row, "fate"), "recompute");
    cr_expect_gt(seconds, 0);
    cr_expect_float_eq(number(row, "price") * number(row, "bytes"), seconds, 1e-9);
    json_decref(row);
    row = tide_json("explain k.json block1/gelu");
    cr_expect_float_eq(number(row, "recompute_seconds") - number(row, "keep_seconds"), seconds, 1e-9);
    cr_expect_leq(number(row, "price") * number(row, "bytes"), seconds + 1e-9);
    json_decref(keep);
    json_decref(again);
    json_decref(row);
}

Test(cli_graphs, diff_lists_what_changes)
{
    json_decref(tide_json("plan " TINY "--policy keep --dump k.json"));
    json_decref(tide_json("plan " TINY "--policy keep --force offload:block*/fc --dump o.json"));
    json_t *j = tide_json("diff k.json o.json"), *changes = json_object_get(j, "changes");

    cr_assert_eq(json_array_size(changes), 3);
    cr_expect_str_eq(text(json_array_get(changes, 1), "tensor"), "block1/fc");
    cr_expect_str_eq(text(json_array_get(changes, 1), "a"), "keep");
    cr_expect_str_eq(text(json_array_get(changes, 1), "b"), "offload");
    cr_expect_eq(json_array_size(json_object_get(j, "only_a")), 0);
    json_decref(j);
    expect("diff k.json o.json", 0, "keep -> offload  block0-2/fc  3 x");
    expect("diff k.json k.json", 0, "0 of");
    json_decref(tide_json("plan --model gpt-char --layers 2 --width 32 --heads 2 --batch 4 --device cpu "
                          "--profile guess --policy keep --dump two.json"));
    expect("diff k.json two.json", 0, "different programs|only in a: block2/");
}

Test(cli_graphs, what_cannot_be_explained_is_refused)
{
    json_decref(tide_json("plan " TINY "--dump p.json"));
    expect("explain", 2, "tide explain PLAN TENSOR");
    expect("explain p.json", 2, "tide explain PLAN TENSOR");
    expect("explain p.json block1/fd", 2, "block1/fd|did you mean block1/fc");
    expect("explain p.json a b", 2, "one word too many");
    expect("explain nowhere.json x", 2, "nowhere.json");
    expect("explain p.json x --budget 3", 2, "--budget");
    expect("diff p.json", 2, "tide diff A B");
    expect("diff p.json nowhere.json", 2, "nowhere.json");
    json_decref(tide_json("plan " TINY "--graph g.json"));
    expect("diff p.json g.json", 2, "g.json|tide_plan");
    expect("explain g.json x", 2, "g.json|tide_plan");
    expect("explain --help", 0, "tide explain PLAN TENSOR");
}

/* ---- The largest batch ------------------------------------------------------------ */

#define ANY_BATCH                                                                                            \
    "--model gpt-char --layers 3 --width 32 --heads 2 --device cpu --profile guess --budget 6MiB "

Test(cli_graphs, batch_auto_is_the_largest_that_fits)
{
    char line[256];
    json_t *j = tide_json("plan " ANY_BATCH "--batch auto"),
           *again = tide_json("plan " ANY_BATCH "--batch auto");
    double batch = number(j, "batch"), larger;

    cr_expect_eq(number(again, "batch"), batch);
    cr_expect_gt(batch, 1);
    cr_expect_leq(number(j, "arena_bytes"), 6 << 20);
    json_decref(again);
    snprintf(line, sizeof line, "plan " ANY_BATCH "--batch %.0f", batch);
    again = tide_json(line);
    cr_expect_eq(number(again, "arena_bytes"), number(j, "arena_bytes"));
    snprintf(line, sizeof line, "plan " ANY_BATCH "--batch %.0f", batch + 1);
    expect(line, 3, "no plan fits");
    json_decref(again);
    json_decref(j);
    j = tide_json("plan " ANY_BATCH "--batch auto --policy keep");
    larger = number(j, "batch");
    cr_expect_lt(larger, batch);
    json_decref(j);
    expect("plan " ANY_BATCH "--batch auto --budget 500KiB", 3, "a batch of 1|500.00 KiB");
    expect("plan " ANY_BATCH "--batch auto --budget 50%", 2, "50%|bytes");
    expect("plan " ANY_BATCH "--batch auto --budget least", 2, "least|bytes");
    expect("plan " ANY_BATCH "--batch auto --plan p.json", 2, "p.json");
    expect("plan " ANY_BATCH "--batch automatic", 2, "--batch automatic");
    expect("profile --model gpt-char --batch auto", 2, "--batch auto");
    expect("plan --model g.json --batch auto", 2, "--batch|g.json");
}

/* The data holds 40 windows of 65 bytes side by side, whatever would fit. */
Test(cli_graphs, batch_auto_is_no_more_than_the_data_holds)
{
    char line[256];

    snprintf(line, sizeof line, "%s/c.txt", folder);
    FILE *f = fopen(line, "w");
    cr_assert(f);
    for (int i = 0; i < 40 * 65; i++) fputc(i % 19 ? 'a' + i % 26 : '\n', f);
    fclose(f);
    json_t *j = tide_json("train " ANY_BATCH "--budget 60MiB --batch auto --data c.txt --steps 1 --quiet");
    cr_expect_eq(number(j, "batch"), 40);
    cr_expect_eq(number(j, "arena_bytes"), number(j, "predicted_arena_bytes"));
    json_decref(j);
}
