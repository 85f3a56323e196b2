/* options.h - what can be said to the program on a command line.
 *
 * One table holds every option of every command: its name, its range, its help. Parsing finds
 * every mistake that can be found without opening a file, before anything is done. */
#ifndef TIDE_EXAMPLES_OPTIONS_H
#define TIDE_EXAMPLES_OPTIONS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the program returns; docs/how-it-works.md lists them. */
enum {
    EXIT_DONE = 0,
    EXIT_WORLD = 1,      /* the world failed during the run: I/O, device      */
    EXIT_BAD_INPUT = 2,  /* bad input or usage, found before the first step   */
    EXIT_NO_PLAN = 3,    /* no plan fits the budget                           */
    EXIT_NOT_FINITE = 4, /* loss or gradient norm became infinite or NaN      */
    EXIT_DIFFERENT = 5,  /* --verify found a difference                       */
    EXIT_INTERRUPTED = 130
};

typedef enum Command {
    CMD_TRAIN = 1,
    CMD_PLAN = 2,
    CMD_PLACE = 4,
    CMD_DEVICES = 8,
    CMD_PROFILE = 16,
    CMD_EXPLAIN = 32,
    CMD_DIFF = 64,
    CMD_SAMPLE = 128
} Command;

typedef enum SizeKind { SIZE_DEFAULT, SIZE_BYTES, SIZE_PERCENT, SIZE_LEAST } SizeKind;
typedef struct Size {
    SizeKind kind;
    size_t bytes;     /* SIZE_BYTES   */
    double percent;   /* SIZE_PERCENT */
    const char *text; /* as it was written; borrowed from argv; NULL: not given */
} Size;

enum { MAX_FORCES = 64 };

/* Zero (negative for what may be zero) means: not given, the default of preset or command. */
typedef struct Options {
    Command command;
    /* model */
    const char *model, *gelu;
    int64_t layers, width, heads, kv_heads, seq, batch, vocab, loss_chunk, mlp_block, attn_block, accum;
    int64_t scale_interval;
    double dropout, attn_dropout, loss_scale;
    bool no_bias, batch_auto;
    /* device and plan */
    const char *device, *dtype, *grad_dtype, *state_dtype, *master;
    bool tf32, no_graph, no_pin, no_recompute;
    const char *policy, *profile, *plan, *dump, *trace, *graph, *csv, *dot;
    int64_t curve; /* points */
    const char *force[MAX_FORCES];
    int n_forces;
    Size budget, host_budget;
    double link; /* 1e9 bytes a second */
    bool list;
    /* training */
    const char *data, *val_data, *tokenizer, *prompt, *metrics, *schedule, *export_folder;
    int64_t steps, warmup, eval_every, eval_batches, sample, sample_every, seed;
    double lr, min_lr, weight_decay, beta1, beta2, clip, temperature, top_p;
    bool verify;
    /* place, profile, explain and diff */
    const char *operand, *operand2, *output; /* words that are no options */
    Size capacity;
    double seconds;
    /* all */
    bool json, quiet, help;
} Options;

/* Fill options from the words after the command. EXIT_DONE, or EXIT_BAD_INPUT after a message
 * on stderr. Strings are borrowed from argv. */
int options_parse(Command command, int argc, char **argv, Options *out);
/* Print what a command does and its options. */
void options_help(Command command);
/* The name of a command, for messages. */
const char *command_name(Command command);

enum { LONGEST_NAME = 64 }; /* of an option */

/* Of n names, the one that resembles word most; NULL if none is near. */
const char *nearest_name(const char *word, const char *const *names, int n);

/* Say on stderr what is wrong with the input, as one paragraph that begins with the command.
 * Returns EXIT_BAD_INPUT. */
int refuse(const Options *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Refuse a path that cannot be written; leaves no trace. NULL is fine. */
int check_writable(const Options *o, const char *option, const char *path);

#endif
