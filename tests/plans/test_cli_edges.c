/* test_cli_edges.c - the program where the world is odd: streams that are full or closed, devices that never
 * end, interrupts at any moment.
 *
 * Each case is a shell command over $TIDE_PROGRAM in a folder of its own; its exit code is the case's. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIDE "\"$TIDE_PROGRAM\" "
#define SMALL                                                                                                \
    "--model gpt-char --layers 1 --width 16 --heads 2 --batch 2 --seq 16 --device cpu --profile guess "
#define TRAIN TIDE "train " SMALL "--data corpus.txt "
/* Interrupt the command before it, which goes on in the background, after so many seconds. */
#define INTERRUPTED_AFTER(seconds) " & p=$!; sleep " seconds "; kill -INT $p; wait $p"

typedef struct Edge {
    const char *command;
    int rc;
    const char *word; /* that what it says must hold */
} Edge;

static char folder[32];

static void begin(void)
{
    if (!getenv("TIDE_PROGRAM") || !*getenv("TIDE_PROGRAM")) cr_skip_test("TIDE_PROGRAM names no program");
    strcpy(folder, "/tmp/tide-edge-XXXXXX");
    cr_assert(mkdtemp(folder) && chdir(folder) == 0, "no folder can be made in /tmp");
    FILE *f = fopen("corpus.txt", "w");
    cr_assert(f);
    for (int i = 0; i < 200; i++) fputs("It is a truth universally acknowledged.\n", f);
    fclose(f);
    f = fopen("b.csv", "w");
    cr_assert(f);
    fputs("id,lower,upper,size\na,0,2,3\nb,1,3,4\n", f);
    fclose(f);
}

static void end(void)
{
    char command[64];

    if (!*folder) return;
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}

TestSuite(cli_edges, .init = begin, .fini = end, .timeout = 300);

/* The last bytes of all that a command prints; a sample may be long, and holds any byte. */
static void read_tail(FILE *pipe, char *tail, size_t size)
{
    size_t n = 0;

    for (int c; (c = fgetc(pipe)) != EOF;) {
        if (n == size - 1) {
            memmove(tail, tail + size / 2, n - size / 2);
            n -= size / 2;
        }
        tail[n++] = c ? (char)c : '?';
    }
    tail[n] = 0;
}

static void expect_edges(const Edge *rows, size_t n)
{
    char line[1024], output[4096];

    for (size_t i = 0; i < n; i++) {
        snprintf(line, sizeof line, "{ %s\n} 2>stderr; rc=$?; cat stderr; exit $rc", rows[i].command);
        FILE *pipe = popen(line, "r");
        cr_assert(pipe);
        read_tail(pipe, output, sizeof output);
        int status = pclose(pipe), rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        cr_expect_eq(rc, rows[i].rc, "%s: exit %d, not %d: %s", rows[i].command, rc, rows[i].rc, output);
        cr_expect(strstr(output, rows[i].word), "%s: no '%s' in: %s", rows[i].command, rows[i].word, output);
    }
}

Test(cli_edges, lost_output_is_a_failure)
{
    static const Edge rows[] = {
        { TIDE "place b.csv --capacity 9 >/dev/full", 1, "standard output" },
        { TIDE "plan " SMALL ">/dev/full", 1, "No space left" },
        { TIDE "plan " SMALL "--json >/dev/full", 1, "standard output" },
        { TIDE "--help >/dev/full", 1, "No space left" },
        { TRAIN "--steps 2 >/dev/full", 1, "standard output" },
        { TRAIN "--steps 2 >&-", 1, "standard output" },
        { TRAIN "--steps 2 --dump /dev/full", 1, "No space left" },
        { TRAIN "--steps 2 --metrics /dev/full", 1, "No space left" },
        { TRAIN "--steps 2 --trace /dev/full", 1, "/dev/full" },
        { TIDE "place b.csv --capacity 9 -o /dev/full", 1, "No space left" },
        { TRAIN "--steps 2 --metrics m <&- >&- 2>&-; grep -v '^{.*}$' m; test $(wc -l <m) = 2", 0, "" },
    };

    expect_edges(rows, sizeof rows / sizeof *rows);
}

Test(cli_edges, interrupts_end_what_takes_long)
{
    static const Edge rows[] = {
        { TRAIN "--steps 1000000 --quiet" INTERRUPTED_AFTER("1"), 130, "weights:" },
        { TRAIN "--steps 9 --eval-every 1 --eval-batches 100000000" INTERRUPTED_AFTER("1"), 130, "1 steps" },
        { TRAIN "--steps 1 --sample 10000000" INTERRUPTED_AFTER("1"), 130, "weights:" },
        { TRAIN "--steps 9 --accum 1000000" INTERRUPTED_AFTER("1"), 130, "0 steps" },
        { "mkfifo pipe; " TIDE "train " SMALL "--data pipe" INTERRUPTED_AFTER("1"), 130, "" },
    };

    expect_edges(rows, sizeof rows / sizeof *rows);
}

/* Who reads a file while it is written anew reads the old one, to its end; links stay links. */
Test(cli_edges, files_appear_whole)
{
    static const Edge rows[] = {
        { TIDE "plan " SMALL "--dump x >log && cp x old && ln -s x link && chmod 600 x && exec 3<x && " TIDE
               "plan " SMALL
               "--layers 2 --dump link >log && cmp old - <&3 && ! cmp -s old x && test -L link && "
               "test $(stat -c %a x) = 600 && test \"$(ls | tr '\\n' ' ')\" = "
               "'b.csv corpus.txt link log old stderr x '",
          0, "" },
        { TIDE "plan " SMALL "--dump x >log; exec 3>&1; { " TIDE "plan " SMALL
               "--dump /dev/fd/4 4>&1 1>&3; } | grep -c tide_plan",
          0, "1" },
        { TIDE "place b.csv --capacity 9 -o b.csv && head -n1 b.csv && ls *.tmp", 2, "size,offset" },
    };

    expect_edges(rows, sizeof rows / sizeof *rows);
}

/* A step that is skipped does not advance the schedule: as many learning rates as updates. */
Test(cli_edges, skipped_steps_are_told)
{
    static const Edge rows[] = {
        { TRAIN "--steps 6 --warmup 20 --loss-scale 3e38 --metrics m && "
                "updates=$(grep -o '\"lr\":[^,]*' m | sort -u | wc -l) && "
                "skipped=$(tail -n1 m | sed 's/.*\"skipped\":\\([0-9]*\\).*/\\1/') && "
                "test $skipped -gt 0 && test $((updates + skipped)) = 6",
          0, "steps skipped" },
        { TRAIN "--steps 2 --json >j && grep -q '\"loss_scale\": null' j", 0, "" },
    };

    expect_edges(rows, sizeof rows / sizeof *rows);
}

Test(cli_edges, odd_input_is_refused)
{
    static const Edge rows[] = {
        { TIDE "place . --capacity 9", 2, "Is a directory" },
        { TIDE "place /dev/zero --capacity 9", 2, "268435456 bytes" },
        { TIDE "plan " SMALL "--gelu 'tanh erf'", 2, "must be one of" },
        { TIDE "plan " SMALL "--policy 'keep recompute'", 2, "must be one of" },
        { TIDE "plan --model gpt-char --device cpu --profile guess --batch 1000 --loss-chunk 1", 2,
          "64000 chunks" },
    };

    expect_edges(rows, sizeof rows / sizeof *rows);
}

/* A token file of llm.c: a header that counts 1024 tokens, and these, all 0. */
#define TOKEN_FILE(name)                                                                                     \
    "{ printf '\\210\\330\\064\\001\\001\\0\\0\\0\\0\\004\\0\\0'; head -c 3060 /dev/zero; } >" name " && "

Test(cli_edges, token_files_are_learnt_from)
{
    static const Edge rows[] = {
        { TOKEN_FILE("t1.bin") "cp t1.bin t2.bin && " TIDE "train " SMALL "--data 't*.bin' --steps 3 --json",
          0, "\"loss\"" },
        { TIDE "train " SMALL "--data t1.bin --val-data corpus.txt --steps 2 --quiet", 0, "weights:" },
        { TIDE "train " SMALL "--data t1.bin --sample 5", 2, "--tokenizer" },
        { TIDE "train " SMALL
               "--data t1.bin --steps 42 --metrics m --json >j && grep -q '\"epochs\": 1.5' j && "
               "sed -n 28p m | grep -q '\"epochs\":1.0' && " TIDE "train " SMALL
               "--data corpus.txt --steps 2 --json | grep -c '\"epochs\": null'",
          0, "1" },
        { TIDE "train " SMALL "--data t1.bin --batch 100", 2, "need 1601" },
        { TIDE "train " SMALL "--data 'none*.bin'", 2, "none*.bin: there is no such file" },
        { "head -c 3071 t1.bin >t3.bin && " TIDE "train " SMALL "--data 't*.bin'", 2,
          "t3.bin: has 3071 bytes" },
        { "tail -c 2048 t1.bin >t3.bin && " TIDE "train " SMALL "--data t3.bin", 2, "begins with 0" },
        { TIDE "train " SMALL "--data corpus.txt --tokenizer .", 2, "token files of llm.c" },
        { TIDE "train " SMALL "--data corpus.txt --tokenizer nowhere", 2, "nowhere" },
    };

    expect_edges(rows, sizeof rows / sizeof *rows);
}

#define WRITE TIDE "sample --model gpt-char --layers 1 --width 16 --heads 2 --seq 16 --device cpu "

Test(cli_edges, texts_are_written)
{
    static const Edge rows[] = {
        { WRITE "--tokens 5 --prompt 'It is' >a && " WRITE "--tokens 5 --prompt 'It is' >b && cmp a b && "
                "test $(wc -c <a) = 11 && cat a",
          0, "It is" },
        { WRITE "--tokens 40 --temperature 0 >a && " WRITE "--tokens 40 --temperature 0 --top-p 0.5 >b && "
                "cmp a b && test $(wc -c <a) = 41",
          0, "" },
        { WRITE "--tokens 9 --temperature 2 --json | grep -c text", 0, "1" },
        { WRITE "--top-p 1.5", 2, "--top-p 1.5" },
        { TIDE "sample --model mlp --device cpu", 2, "writes no text" },
        { WRITE "--tokenizer nowhere", 2, "nowhere" },
    };

    expect_edges(rows, sizeof rows / sizeof *rows);
}

/* A profile of a device that is not here, made of one of the cpu device. */
#define MEASURED "--model gpt-char --layers 1 --width 16 --heads 2 --seq 16 --device cpu "
#define ELSEWHERE                                                                                            \
    TIDE "profile " MEASURED "--batch 2 -o p.json && sed 's/\"cpu/\"cuda:7/' p.json >far.json && "
#define PLAN_ELSEWHERE                                                                                       \
    TIDE "plan --model gpt-char --layers 1 --width 16 --heads 2 --seq 16 --dtype f32 --profile far.json "

Test(cli_edges, profiles_serve_elsewhere_and_grow)
{
    static const Edge rows[] = {
        { TRAIN "--steps 3 --trace t.json && grep -q '\"block0/fc\"' t.json", 0, "traced micro-step" },
        { TRAIN "--steps 3 --trace /nowhere/t.json", 2, "--trace" },
        { TIDE "profile " MEASURED "--batch 2 -o q.json && " TIDE "profile " MEASURED
               "--batch 3 -o q.json && " TIDE "plan " MEASURED "--batch 2 --profile q.json && " TIDE
               "plan " MEASURED "--batch 3 --profile q.json",
          0, "checked" },
        { TIDE "plan " MEASURED "--batch 3 --profile q.json 2>&1 | grep lacks; test $? = 1", 0, "" },
        { ELSEWHERE PLAN_ELSEWHERE "--batch 2", 0, "only far.json describes" },
        { PLAN_ELSEWHERE "--batch 3", 0, "scaled from others" },
        { PLAN_ELSEWHERE "--batch 2 --dtype f16", 2, "f16" },
        { TIDE "train --model gpt-char --data corpus.txt --profile far.json", 2, "cuda:7" },
        { TIDE "profile " MEASURED "--batch 2 -o far.json", 2, "give another file" },
    };

    expect_edges(rows, sizeof rows / sizeof *rows);
}
