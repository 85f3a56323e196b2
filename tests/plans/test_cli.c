/* test_cli.c - the program from outside: what it refuses, what it says, what it leaves behind.
 *
 * Each case runs the program in a folder of its own; %s in a command stands for that folder. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 16 };

static char folder[64];

/* Run a shell command that may name the folder as %s, and keep what it prints. The exit status. */
static int run(const char *command, char *output)
{
    char line[2048];
    size_t n;

    snprintf(line, sizeof line, command, folder, folder, folder, folder, folder, folder);
    FILE *pipe = popen(line, "r");
    cr_assert(pipe, "%s cannot be started", line);
    n = fread(output, 1, TEXT_BYTES - 1, pipe);
    output[n] = 0;
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Run tide with what it says on stderr captured. */
static int tide(const char *arguments, char *output)
{
    char line[2048];

    snprintf(line, sizeof line, "\"$TIDE_PROGRAM\" %s 2>&1 >/dev/null", arguments);
    return run(line, output);
}

static json_t *tide_json(const char *arguments)
{
    char line[2048], *output = malloc(TEXT_BYTES);
    json_error_t error;

    snprintf(line, sizeof line, "\"$TIDE_PROGRAM\" %s --json 2>%%s/stderr", arguments);
    int rc = run(line, output);
    json_t *j = json_loads(output, JSON_REJECT_DUPLICATES, &error);
    cr_assert(rc == 0 && j, "%s: exit %d, and its JSON: %s\n%s", arguments, rc, error.text, output);
    free(output);
    return j;
}

static void write_file(const char *name, const char *content, int repeats)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    cr_assert(f, "%s cannot be written", path);
    for (int i = 0; i < repeats; i++) fputs(content, f);
    fclose(f);
}

static void begin(void)
{
    if (!getenv("TIDE_PROGRAM") || !*getenv("TIDE_PROGRAM")) cr_skip_test("TIDE_PROGRAM names no program");
    strcpy(folder, "/tmp/tide-test-XXXXXX");
    cr_assert(mkdtemp(folder), "no folder can be made in /tmp");
    write_file("corpus.txt", "It is a truth universally acknowledged, that a byte is a token.\n", 200);
    write_file("short.txt", "Too short for a context of 64.\n", 1);
    write_file("empty.txt", "", 1);
    write_file("cut.json", "{ \"tide_plan\": 1, \"program\": \"00", 1);
    write_file("other.json", "{ \"name\": \"something else\" }", 1);
    write_file("b.csv", "id,lower,upper,size\na,0,2,3\nb,1,3,4\nc,2,4,3\n", 1);
    write_file("columns.csv", "size,name,upper,id,lower\n3,x,2,a,0\n4,y,3,b,1\n", 1);
    write_file("words.csv", "id,lower,upper,size\na,0,2,three\n", 1);
    write_file("order.csv", "id,lower,upper,size\na,2,2,3\n", 1);
    write_file("twice.csv", "id,lower,upper,size\na,0,2,3\na,1,2,3\n", 1);
    write_file("missing.csv", "id,lower,upper\na,0,2\n", 1);
    write_file("wide.csv", "id,lower,upper,size\na,0,2,3,4\n", 1);
}

static void end(void)
{
    char output[64 * 1024];

    if (*folder) run("rm -r %s", output);
}

TestSuite(cli, .init = begin, .fini = end, .timeout = 300);

/* ---- what is refused ------------------------------------------------------------------------ */

/* Arguments, exit code, and words (separated by |) that the message must hold. */
typedef struct Refusal {
    const char *arguments;
    int rc;
    const char *words;
} Refusal;

#define TINY "--model gpt-char --layers 3 --width 32 --heads 2 --batch 4 --device cpu "
#define SMALL TINY "--profile guess "
#define BITS SMALL "--dropout 0.1 --attn-dropout 0.1 --accum 2 "
#define TRAIN "train " SMALL "--steps 2 "

// clang-format off
static const Refusal usage[] = {
    { "", 2, "usage" },
    { "trian", 2, "trian|did you mean train" },
    { "explode", 2, "train, plan, explain, diff, profile, sample, place and devices" },
    { "train", 2, "--data is missing" },
    { "train --data %s/corpus.txt", 2, "--model|gpt-char" },
    { "train --model gpt-chat --data %s/corpus.txt", 2, "gpt-chat|did you mean gpt-char" },
    { TRAIN "--data %s/corpus.txt --buget 1GiB", 2, "unknown option --buget|did you mean --budget" },
    { TRAIN "--data %s/corpus.txt --frobnicate", 2, "unknown option --frobnicate|--help" },
    { TRAIN "--data %s/corpus.txt --capacity 7", 2, "--capacity|tide place" },
    { TRAIN "--data %s/corpus.txt stray", 2, "stray" },
    { TRAIN "--data", 2, "--data needs a value" },
    { TRAIN "--data %s/corpus.txt --batch 0", 2, "--batch 0|1 to" },
    { TRAIN "--data %s/corpus.txt --batch 1.5", 2, "--batch 1.5|whole number" },
    { TRAIN "--data %s/corpus.txt --batch 99999999999999999999", 2, "--batch 9999" },
    { TRAIN "--data %s/corpus.txt --steps 0", 2, "--steps 0" },
    { TRAIN "--data %s/corpus.txt --lr nan", 2, "--lr nan" },
    { TRAIN "--data %s/corpus.txt --lr -1", 2, "--lr -1" },
    { TRAIN "--data %s/corpus.txt --dropout 1", 2, "--dropout 1" },
    { TRAIN "--data %s/corpus.txt --schedule step", 2, "--schedule step|constant linear cosine" },
    { TRAIN "--data %s/corpus.txt --gelu relu", 2, "tanh erf" },
    { TRAIN "--data %s/corpus.txt --heads 5", 2, "5|32" },
    { TRAIN "--data %s/corpus.txt --lr 1e-4 --min-lr 1e-3", 2, "--min-lr 0.001|0.0001" },
    { TRAIN "--data %s/corpus.txt --quiet=yes", 2, "--quiet takes no value" },
    { TRAIN "--data %s/corpus.txt --dtype bf16", 2, "bf16|f32" },
    { TRAIN "--data %s/corpus.txt --dtype f16", 2, "f16|f32" },
    { TRAIN "--data %s/corpus.txt --loss-scale 0.5", 2, "--loss-scale|0.5" },
    { "profile", 2, "--model|gpt-char" },
    { "profile --model gpt-char --budget 1GiB", 2, "--budget|not of tide profile" },
    { "profile --model gpt-char --device cpu -o %s/no/p.json", 2, "-o|p.json" },
    { "plan --model gpt-char --device gpu", 2, "gpu|cuda" },
    { "plan --model gpt-char --device cpu:x", 2, "cpu:x" },
    { "plan " SMALL "--link 0", 2, "--link 0" },
};

static const Refusal data[] = {
    { TRAIN, 2, "--data is missing" },
    { TRAIN "--data %s/nowhere.txt", 2, "nowhere.txt" },
    { TRAIN "--data %s", 2, "irectory" },
    { TRAIN "--data %s/empty.txt", 2, "empty.txt|empty" },
    { TRAIN "--data %s/short.txt", 2, "short.txt|31|65" },
    { TRAIN "--data %s/corpus.txt --val-data %s/short.txt", 2, "short.txt|31|65" },
    { TRAIN "--data %s/corpus.txt --seq 20000", 2, "corpus.txt|20001" },
    { TRAIN "--data %s/corpus.txt --vocab 100", 2, "256|100" },
    { TRAIN "--data %s/corpus.txt --metrics %s/no/where.jsonl", 2, "--metrics|where.jsonl" },
    { TRAIN "--data %s/corpus.txt --dump %s/no/plan.json", 2, "--dump|plan.json" },
    { TRAIN "--data %s/corpus.txt --dump %s", 2, "--dump" },
};

static const Refusal budgets[] = {
    { "plan " SMALL "--budget 0", 2, "--budget 0|least" },
    { "plan " SMALL "--budget 6QiB", 2, "6QiB|6GiB" },
    { "plan " SMALL "--budget -1", 2, "-1" },
    { "plan " SMALL "--budget 30%% --host-budget 10%%", 2, "--host-budget 10%" },
    { "plan " SMALL "--budget 1", 3, "least" },
    { "plan " SMALL "--budget 0%%", 3, "least" },
    { "plan " SMALL "--budget 64KiB --policy keep", 3, "keep" },
    { TRAIN "--data %s/corpus.txt --budget 64KiB --dump %s/x.json --metrics %s/x.jsonl", 3, "least" },
    { "plan " SMALL "--policy greedy", 2, "auto keep recompute" },
    { "plan " SMALL "--force keep", 2, "FATE:GLOB" },
    { "plan " SMALL "--force kept:block0/fc", 2, "kept|recompute" },
    { "plan " SMALL "--force keep:block9/*", 2, "block9/*" },
    { "plan " SMALL "--force offload:block0/proj", 2, "block0/proj|backward" },
    { "plan " SMALL "--force keep:block0/fc --force 'offload:block*/fc'", 2, "contradict|block*/fc" },
    { "plan " SMALL "--plan %s/nowhere.json", 2, "nowhere.json" },
    { "plan " SMALL "--plan %s/empty.txt", 2, "empty.txt" },
    { "plan " SMALL "--plan %s/cut.json", 2, "cut.json" },
    { "plan " SMALL "--plan %s/other.json", 2, "other.json" },
    { "plan " SMALL "--plan %s/cut.json --policy keep", 2, "--policy|--plan" },
    { "plan " SMALL "--profile %s/other.json", 2, "other.json" },
    { "plan " SMALL "--trace %s/no/trace.json", 2, "--trace" },
};

static const Refusal placements[] = {
    { "place", 2, "buffers.csv|--capacity" },
    { "place %s/b.csv", 2, "--capacity" },
    { "place %s/nowhere.csv --capacity 7", 2, "nowhere.csv" },
    { "place %s/empty.txt --capacity 7", 2, "empty.txt|id,lower,upper,size" },
    { "place %s/words.csv --capacity 7", 2, "line 2|size" },
    { "place %s/order.csv --capacity 7", 2, "line 2|lower must be below upper" },
    { "place %s/twice.csv --capacity 7", 2, "id a|twice" },
    { "place %s/missing.csv --capacity 7", 2, "column: size" },
    { "place %s/wide.csv --capacity 7", 2, "line 2|columns" },
    { "place %s/b.csv %s/b.csv --capacity 7", 2, "one file" },
    { "place %s/b.csv --capacity 7 -o %s/no/placed.csv", 2, "-o|placed.csv" },
    { "place %s/b.csv --capacity 6 -o %s/x.csv", 3, "7|6" },
};
// clang-format on

static void expect_words(const Refusal *r, char *output)
{
    char words[256];

    snprintf(words, sizeof words, "%s", r->words);
    for (char *word = strtok(words, "|"); word; word = strtok(NULL, "|"))
        cr_expect(strstr(output, word), "tide %s: the message lacks '%s': %s", r->arguments, word, output);
}

static void expect_refusals(const Refusal *rows, size_t n)
{
    char *output = malloc(TEXT_BYTES);

    for (size_t i = 0; i < n; i++) {
        int rc = tide(rows[i].arguments, output);
        cr_expect(rc == rows[i].rc, "tide %s: exit %d, not %d: %s", rows[i].arguments, rc, rows[i].rc,
                  output);
        expect_words(&rows[i], output);
    }
    int rc = run("ls %s/x.json %s/x.jsonl %s/x.csv 2>/dev/null | grep .", output);
    cr_expect(rc == 1, "a refused command left files behind: %s", output);
    free(output);
}

Test(cli, wrong_usage_is_refused)
{
    expect_refusals(usage, sizeof usage / sizeof *usage);
}
Test(cli, wrong_data_is_refused)
{
    expect_refusals(data, sizeof data / sizeof *data);
}
Test(cli, wrong_budgets_and_plans_are_refused)
{
    expect_refusals(budgets, sizeof budgets / sizeof *budgets);
}
Test(cli, wrong_buffers_are_refused)
{
    expect_refusals(placements, sizeof placements / sizeof *placements);
}

/* ---- what works ------------------------------------------------------------------------------- */

static long long number(const json_t *j, const char *key)
{
    const json_t *value = json_object_get(j, key);

    cr_assert(json_is_integer(value), "the JSON lacks a whole number %s", key);
    return json_integer_value(value);
}

static const char *string(const json_t *j, const char *key)
{
    const char *value = json_string_value(json_object_get(j, key));

    cr_assert(value, "the JSON lacks a string %s", key);
    return value;
}

Test(cli, plan_says_all_that_it_promises)
{
    static const char *const keys[] = {
        "model",
        "batch",
        "seq",
        "dtype",
        "device",
        "policy",
        "budget_bytes",
        "fixed_bytes",
        "static_bytes",
        "arena_bytes",
        "arena_bound_bytes",
        "host_bytes",
        "keep_bytes",
        "least_budget_bytes",
        "least_bound_bytes",
        "step_seconds",
        "keep_seconds",
        "bound_seconds",
        "gap",
        "bound_lp_seconds",
        "gap_lp",
        "recompute_seconds",
        "stall_seconds",
        "bytes_out",
        "bytes_in",
        "kept",
        "recomputed",
        "offloaded",
        "plan_seconds",
        "checked",
        "numerics",
    };
    json_t *j = tide_json("plan " SMALL "--budget 50%%");

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cr_expect(json_object_get(j, keys[i]), "plan --json lacks %s", keys[i]);
    long long fixed = number(j, "static_bytes"), keep = number(j, "keep_bytes");
    cr_expect(number(j, "budget_bytes") == fixed + (keep - fixed) / 2, "50 %% lies halfway from %lld to %lld",
              fixed, keep);
    cr_expect(number(j, "arena_bytes") + number(j, "fixed_bytes") <= number(j, "budget_bytes"));
    cr_expect(number(j, "arena_bound_bytes") <= number(j, "arena_bytes"));
    cr_expect(number(j, "least_bound_bytes") <= number(j, "least_budget_bytes"));
    double gap = json_number_value(json_object_get(j, "gap"));
    cr_expect(gap > -1e-9 && gap < 1 && json_is_real(json_object_get(j, "bound_seconds")), "%g", gap);
    cr_expect(json_is_true(json_object_get(j, "checked")));
    json_decref(j);
}

Test(cli, least_is_feasible_and_one_byte_less_is_not)
{
    json_t *j = tide_json("plan " SMALL "--budget least");
    char arguments[256], output[4096];
    long long least = number(j, "budget_bytes");

    cr_expect(number(j, "arena_bytes") + number(j, "fixed_bytes") <= least);
    snprintf(arguments, sizeof arguments, "plan " SMALL "--budget %lld", least);
    cr_expect(tide(arguments, output) == 0, "the least, %lld bytes, must be enough: %s", least, output);
    snprintf(arguments, sizeof arguments, "plan " SMALL "--budget %lld", least / 2);
    cr_expect(tide(arguments, output) == 3, "half of the least must not be enough");
    json_decref(j);
}

/* Budgets, policies and saved plans change when and where, never what. */
Test(cli, every_plan_gives_the_same_hashes)
{
    static const char *const plans[] = {
        "--policy keep",           "--policy recompute",
        "--policy sqrt",           "--policy offload",
        "--policy offload-inputs", "--budget 50%%",
        "--budget least",          "--budget 30%% --verify",
        "--plan %s/saved.json",    "--budget 25%% --link 1 --eval-every 1",
    };
    char line[512], grads[32] = "", weights[32] = "", output[TEXT_BYTES / 16];

    cr_assert(tide("plan " BITS "--budget 20%% --dump %s/saved.json", output) == 0, "%s", output);
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        snprintf(line, sizeof line, "train " BITS "--steps 3 --data %%s/corpus.txt %s", plans[i]);
        json_t *j = tide_json(line);
        if (!*grads) snprintf(grads, sizeof grads, "%s", string(j, "grads_hash"));
        if (!*weights) snprintf(weights, sizeof weights, "%s", string(j, "weights_hash"));
        cr_expect_str_eq(string(j, "grads_hash"), grads, "%s gives other gradients", plans[i]);
        cr_expect_str_eq(string(j, "weights_hash"), weights, "%s gives other weights", plans[i]);
        cr_expect(number(j, "arena_bytes") == number(j, "predicted_arena_bytes"),
                  "%s: arena %lld, predicted %lld", plans[i], number(j, "arena_bytes"),
                  number(j, "predicted_arena_bytes"));
        json_decref(j);
    }
}

/* Words separated by spaces, each a key of the object. */
static void expect_keys(const json_t *j, const char *keys, const char *what)
{
    char words[512];

    snprintf(words, sizeof words, "%s", keys);
    for (char *key = strtok(words, " "); key; key = strtok(NULL, " "))
        cr_expect(json_object_get(j, key), "%s lacks %s", what, key);
}

Test(cli, train_says_all_that_it_promises)
{
    static const char keys[] =
        "steps tokens loss val_loss tokens_per_second mfu step_seconds predicted_step_seconds "
        "predicted_arena_bytes arena_bytes process_bytes host_rss_bytes budget_bytes bytes_out bytes_in "
        "grads_hash weights_hash loss_scale skipped_steps";
    static const char columns[] = "step loss lr grad_norm tokens seconds tokens_per_second process_bytes "
                                  "host_bytes stall_seconds loss_scale skipped";
    char path[128], line[1024];
    int lines = 0;
    json_t *j =
        tide_json("train " SMALL "--steps 5 --accum 2 --data %s/corpus.txt --sample 20 --metrics %s/m.jsonl");

    expect_keys(j, keys, "train --json");
    cr_expect(number(j, "steps") == 5);
    cr_expect(number(j, "tokens") == 5 * 2 * 4 * 64, "5 steps of 2 micro-steps of 4 sequences of 64");
    cr_expect(strlen(string(j, "sample")) == 20);
    snprintf(path, sizeof path, "%s/m.jsonl", folder);
    FILE *f = fopen(path, "r");
    cr_assert(f, "no metrics were written");
    for (; fgets(line, sizeof line, f); lines++) {
        json_t *row = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        cr_assert(row, "this line of the metrics is no JSON: %s", line);
        expect_keys(row, columns, "a line of the metrics");
        cr_expect(number(row, "step") == lines + 1 && number(row, "tokens") == 512);
        json_decref(row);
    }
    cr_expect(lines == 5, "%d lines of metrics for 5 steps", lines);
    fclose(f);
    json_decref(j);
}

Test(cli, a_profile_serves_plans)
{
    static const char *const keys[] = { "tide_profile", "device", "versions",     "fixed_bytes",
                                        "alignment",    "link",   "link_by_size", "nodes" };
    json_t *j = tide_json("profile " TINY "-o %s/p.json");
    char output[TEXT_BYTES / 16];

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cr_expect(json_object_get(j, keys[i]), "profile --json lacks %s", keys[i]);
    json_decref(j);
    cr_expect(tide("plan " TINY "--profile %s/p.json --dump %s/saved.json", output) == 0, "%s", output);
    cr_expect_str_eq(output, "", "nothing of this model is missing");
    cr_expect(tide("train " TINY "--steps 2 --data %s/corpus.txt --plan %s/saved.json --profile %s/p.json",
                   output) == 0,
              "%s", output);
}

Test(cli, losses_do_not_depend_on_evaluation)
{
    json_t *plain = tide_json("train " SMALL "--steps 6 --data %s/corpus.txt");
    json_t *looked =
        tide_json("train " SMALL "--steps 6 --data %s/corpus.txt --eval-every 2 --sample-every 3 --sample 5");

    cr_expect_str_eq(string(plain, "weights_hash"), string(looked, "weights_hash"),
                     "evaluation or sampling changed the weights");
    json_decref(plain);
    json_decref(looked);
}

Test(cli, a_text_is_learned)
{
    json_t *j = tide_json("train " SMALL "--steps 60 --lr 1e-2 --data %s/corpus.txt");
    double loss = json_real_value(json_object_get(j, "loss"));

    cr_expect(loss > 0 && loss < 3.0, "the loss of a text of one sentence is %g after 60 steps", loss);
    json_decref(j);
}

Test(cli, a_plan_of_another_graph_is_refused)
{
    static const Refusal other[] = {
        { "plan " SMALL "--batch 3 --plan %s/saved.json", 2, "saved.json" },
        { TRAIN "--data %s/corpus.txt --seq 32 --plan %s/saved.json", 2, "saved.json" },
        { TRAIN "--data %s/corpus.txt --plan %s/saved.json --budget 64KiB", 3, "saved.json|65536" },
    };
    char output[TEXT_BYTES / 16];

    cr_assert(tide("plan " SMALL "--budget 50%% --dump %s/saved.json", output) == 0, "%s", output);
    expect_refusals(other, sizeof other / sizeof *other);
    cr_expect(tide(TRAIN "--data %s/corpus.txt --plan %s/saved.json --quiet", output) == 0, "%s", output);
    cr_expect_str_eq(output, "", "a quiet run says nothing");
}

Test(cli, a_run_that_diverges_stops)
{
    static const Refusal diverges[] = {
        { "train " SMALL
          "--data %s/corpus.txt --steps 100 --lr 1e6 --clip 0 --weight-decay 10 --schedule constant",
          4, "loss|--lr" },
        { "train " SMALL "--data %s/corpus.txt --steps 100 --lr 1e6 --clip 0 --weight-decay 10 "
          "--schedule constant --loss-scale 64",
          4, "loss|--lr|loss scale of 1;" },
    };

    expect_refusals(diverges, 2);
}

Test(cli, an_interrupted_run_finishes_its_step)
{
    char output[TEXT_BYTES / 16];
    int rc = run(
        "\"$TIDE_PROGRAM\" train " SMALL "--data %s/corpus.txt --steps 1000000 --quiet --metrics %s/m.jsonl "
        ">%s/out 2>&1 & pid=$!; i=0; while [ ! -s %s/m.jsonl ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); "
        "done; kill -INT $pid; wait $pid",
        output);

    cr_expect(rc == 130, "exit %d after an interrupt: %s", rc, output);
    run("cat %s/out", output);
    cr_expect(strstr(output, "weights:"), "an interrupted run still sums up: %s", output);
}

Test(cli, placement_is_written_with_its_offsets)
{
    char output[TEXT_BYTES / 16];
    json_t *j = tide_json("place %s/columns.csv --capacity 7 -o %s/placed.csv");

    cr_expect(number(j, "height") == 7 && number(j, "bound") == 7, "two buffers of 3 and 4 that meet take 7");
    cr_expect(json_is_true(json_object_get(j, "fits")));
    run("cat %s/placed.csv", output);
    cr_expect(!strncmp(output, "size,name,upper,id,lower,offset\n3,x,2,a,0,", 42), "%s", output);
    json_decref(j);
}

Test(cli, models_devices_and_help_are_listed)
{
    char output[TEXT_BYTES / 4];

    cr_expect(run("\"$TIDE_PROGRAM\" train --model list", output) == 0 && strstr(output, "gpt2-1558m"));
    cr_expect(run("\"$TIDE_PROGRAM\" train --help", output) == 0 && strstr(output, "--budget"));
    json_t *j = tide_json("devices");
    cr_expect(json_array_size(json_object_get(j, "devices")) >= 1, "there is always a cpu device");
    json_decref(j);
}
