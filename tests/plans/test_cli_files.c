/* test_cli_files.c - models in files, from outside: what is saved is loaded, what is damaged is refused
 * before anything is written.
 *
 * Each case is a shell command in a folder of its own, which holds corpus.txt and m, a saved model. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIDE "\"$TIDE_PROGRAM\" "
#define CPU "--device cpu --profile guess --batch 2 "
#define SMALL "--model gpt-char --layers 1 --width 16 --heads 2 --seq 16 " CPU
#define TRAIN TIDE "train --data corpus.txt --steps 2 "
#define MODEL TRAIN "--model m " CPU
/* A copy of the model that the command before it may damage, and training with it. */
#define COPY "rm -rf d && cp -r m d && "
#define DAMAGED TRAIN "--model d --export e " CPU

typedef struct Case {
    const char *command;
    int rc;
    const char *word; /* that what it says must hold */
} Case;

static char folder[32];

static void begin(void)
{
    if (!getenv("TIDE_PROGRAM") || !*getenv("TIDE_PROGRAM")) cr_skip_test("TIDE_PROGRAM names no program");
    strcpy(folder, "/tmp/tide-files-XXXXXX");
    cr_assert(mkdtemp(folder) && chdir(folder) == 0, "no folder can be made in /tmp");
    FILE *f = fopen("corpus.txt", "w");
    cr_assert(f);
    for (int i = 0; i < 200; i++) fputs("It is a truth universally acknowledged.\n", f);
    fclose(f);
    cr_assert_eq(system(TRAIN SMALL "--export m >log 2>&1"), 0);
}

static void end(void)
{
    char command[64];

    if (!*folder) return;
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}

TestSuite(cli_files, .init = begin, .fini = end, .timeout = 300);

static void expect_cases(const Case *rows, size_t n)
{
    char line[1024], output[8192];

    for (size_t i = 0; i < n; i++) {
        snprintf(line, sizeof line, "{ %s\n} 2>stderr; rc=$?; cat stderr; exit $rc", rows[i].command);
        FILE *pipe = popen(line, "r");
        cr_assert(pipe);
        output[fread(output, 1, sizeof output - 1, pipe)] = 0;
        int status = pclose(pipe), rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        cr_expect_eq(rc, rows[i].rc, "%s: exit %d, not %d: %s", rows[i].command, rc, rows[i].rc, output);
        cr_expect(strstr(output, rows[i].word), "%s: no '%s' in: %s", rows[i].command, rows[i].word, output);
    }
}

Test(cli_files, a_saved_model_is_a_model)
{
    static const Case rows[] = {
        { "ls m | tr '\\n' ' '", 0, "config.json model.safetensors " },
        { TIDE "plan --model m " CPU, 0, "m: 1 layers, width 16, 2 heads" },
        { TIDE "plan --model m/ --seq 8 " CPU, 0, "m: 1 layers" },
        { MODEL "--export n", 0, "weights:" },
        { "! cmp -s m/model.safetensors n/model.safetensors && cmp m/config.json n/config.json", 0, "" },
        { MODEL "--lr 0 --weight-decay 0 --export m2 && cmp m/model.safetensors m2/model.safetensors", 0,
          "" },
        { MODEL "--seq 8 --lr 0 --export m2 && cmp m/model.safetensors m2/model.safetensors", 0, "" },
        { MODEL "--export m && cmp m/model.safetensors n/model.safetensors", 0, "" }, /* over itself */
        { MODEL "--verify --budget least", 0, "weights:" },
        { TIDE "sample --model m --device cpu --temperature 0 --tokens 20 --seed 1 >a 2>log && " TIDE
               "sample --model m --device cpu --temperature 0 --tokens 20 --seed 2 >b 2>log && cmp a b && "
               "test -s a",
          0, "" }, /* other starting weights, had they counted */
        { COPY "rm d/model.safetensors; " TIDE "sample --model d --device cpu", 2, "no weights" },
    };

    expect_cases(rows, sizeof rows / sizeof *rows);
}

Test(cli_files, options_that_contradict_the_files_are_refused)
{
    static const Case rows[] = {
        { MODEL "--seq 32", 2, "seq is 32, but the model has only 16 positions" },
        { MODEL "--heads 4", 2, "--heads would change what the weights of m mean" },
        { MODEL "--gelu erf", 2, "--gelu" },
        { MODEL "--vocab 300", 2, "--vocab" },
        { TRAIN "--model nowhere " CPU, 2, "no model nowhere" },
        { TRAIN "--model . " CPU, 2, "./config.json: cannot read it" },
        { TRAIN SMALL "--export corpus.txt", 2, "--export corpus.txt is no folder" },
        { TRAIN SMALL "--export no/where", 2, "--export no/where cannot be written" },
        { TRAIN "--model mlp --layers 1 --export e " CPU, 2, "family mlp" },
        { TRAIN SMALL "--kv-heads 1 --export e", 2, "keys and values" },
        { "! test -e e", 0, "" },
    };

    expect_cases(rows, sizeof rows / sizeof *rows);
}

Test(cli_files, damaged_files_are_refused_before_the_first_step)
{
    static const Case rows[] = {
        { COPY "head -c 2000 m/model.safetensors >d/model.safetensors; " DAMAGED, 2,
          "d/model.safetensors: its tensors" },
        { COPY "echo >>d/model.safetensors; " DAMAGED, 2, "something behind its end" },
        { COPY "head -c 5 m/model.safetensors >d/model.safetensors; " DAMAGED, 2, "has 5 bytes" },
        { COPY "head -c 20 m/model.safetensors >d/model.safetensors; " DAMAGED, 2, "only 12 follow" },
        { COPY "echo version https://git-lfs.github.com/spec/v1 >d/model.safetensors; " DAMAGED, 2,
          "git lfs pull" },
        { COPY "rm d/model.safetensors; " DAMAGED, 2, "no weights" },
        { COPY "rm d/config.json; " DAMAGED, 2, "config.json: cannot read it" },
        { COPY "echo '{' >d/config.json; " DAMAGED, 2, "config.json: line" },
        { COPY "sed -i s/gpt2/gpt3/ d/config.json; " DAMAGED, 2, "gpt3" },
        { COPY "sed -i '/n_layer/s/1/2/' d/config.json; " DAMAGED, 2, "no tensor h.1.ln_1.weight" },
        { COPY "sed -i '/n_embd/s/16/32/' d/config.json; " DAMAGED, 2,
          "has the shape [256, 16], but the model needs [256, 32]" },
        { COPY "sed -i '/tie_word/s/true/false/' d/config.json; " DAMAGED, 2, "no tensor lm_head.weight" },
        { "! test -e e", 0, "" },
    };

    expect_cases(rows, sizeof rows / sizeof *rows);
}

/* A limit of 8 blocks of 512 bytes, of which writing is told by a status and not by a signal. */
Test(cli_files, a_full_disk_leaves_what_was_there)
{
    static const Case rows[] = {
        { "cp -r m old; trap '' XFSZ; (ulimit -f 8; " MODEL "--export m)", 1,
          "model.safetensors cannot be written" },
        { "cmp m/model.safetensors old/model.safetensors && ls m | tr '\\n' ' '", 0,
          "config.json model.safetensors " },
    };

    expect_cases(rows, sizeof rows / sizeof *rows);
}
