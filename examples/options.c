/* options.c - the table of options, and how a line of words is matched against it. */
#include "examples/options.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum OptionKind { FLAG, INTEGER, NUMBER, TEXT, SIZE, FORCE, BATCH } OptionKind;

/* An option: where its value goes and what values are possible. */
typedef struct Option {
    const char *name, *value, *help;
    unsigned commands; /* sum of Command */
    OptionKind kind;
    size_t offset; /* into Options */
    double least, most;
    const char *choices; /* TEXT: space-separated words; NULL: anything */
} Option;

enum {
    PLANS = CMD_TRAIN | CMD_PLAN,
    MODELS = PLANS | CMD_PROFILE | CMD_SAMPLE,
    ALL = MODELS | CMD_PLACE | CMD_DEVICES | CMD_EXPLAIN | CMD_DIFF
};

// clang-format off
static const Option options[] = {
    { "--model", "NAME", "preset (`--model list`) or a folder with a config.json; plan: or a graph.json",
      MODELS, TEXT, offsetof(Options, model), 0, 0, NULL },
    { "--layers", "N", "number of blocks", MODELS, INTEGER, offsetof(Options, layers), 1, 4096, NULL },
    { "--width", "N", "channels", MODELS, INTEGER, offsetof(Options, width), 1, 1 << 20, NULL },
    { "--heads", "N", "attention heads", MODELS, INTEGER, offsetof(Options, heads), 1, 4096, NULL },
    { "--kv-heads", "N", "key and value heads", MODELS, INTEGER, offsetof(Options, kv_heads), 1, 4096, NULL },
    { "--seq", "N", "positions of a sequence (the context)",
      MODELS, INTEGER, offsetof(Options, seq), 1, 1 << 20, NULL },
    { "--batch", "N", "sequences of a micro-step; train, plan: or auto, the most that fit the budget",
      MODELS, BATCH, offsetof(Options, batch), 1, 1 << 20, NULL },
    { "--vocab", "N", "size of the vocabulary", MODELS, INTEGER, offsetof(Options, vocab), 1, 1 << 24, NULL },
    { "--dropout", "P", "of embeddings and residuals, 0 to below 1",
      MODELS, NUMBER, offsetof(Options, dropout), 0, 0.999999, NULL },
    { "--attn-dropout", "P", "of attention probabilities",
      MODELS, NUMBER, offsetof(Options, attn_dropout), 0, 0.999999, NULL },
    { "--no-bias", NULL, "no biases in linear layers and layernorms",
      MODELS, FLAG, offsetof(Options, no_bias), 0, 0, NULL },
    { "--gelu", "KIND", "tanh or erf", MODELS, TEXT, offsetof(Options, gelu), 0, 0, "tanh erf" },
    { "--loss-chunk", "N", "rows of logits at a time",
      MODELS, INTEGER, offsetof(Options, loss_chunk), 1, 1 << 30, NULL },
    { "--mlp-block", "N", "rows of an MLP at a time",
      MODELS, INTEGER, offsetof(Options, mlp_block), 1, 1 << 30, NULL },
    { "--attn-block", "N", "sequences of attention's backward at a time",
      MODELS, INTEGER, offsetof(Options, attn_block), 1, 1 << 24, NULL },
    { "--accum", "N", "micro-steps of an update",
      MODELS, INTEGER, offsetof(Options, accum), 1, 1 << 20, NULL },
    { "--device", "NAME", "cpu, cuda or cuda:N; default: cuda if there is one, else cpu",
      MODELS, TEXT, offsetof(Options, device), 0, 0, NULL },
    { "--dtype", "TYPE", "f32, bf16 or f16; default: bf16 on a GPU; the cpu device: f32",
      MODELS, TEXT, offsetof(Options, dtype), 0, 0, "f32 bf16 f16" },
    { "--grad-dtype", "TYPE", "f32 or the dtype; default: the dtype, f32 where micro-steps add up",
      MODELS, TEXT, offsetof(Options, grad_dtype), 0, 0, "f32 bf16 f16" },
    { "--state-dtype", "TYPE", "of the optimizer's moments: f32 (default) or bf16",
      MODELS, TEXT, offsetof(Options, state_dtype), 0, 0, "f32 bf16" },
    { "--master", "TYPE", "f32 (default) or none: no f32 copy of narrow parameters, stochastic rounding",
      MODELS, TEXT, offsetof(Options, master), 0, 0, "f32 none" },
    { "--loss-scale", "X", "first scale of dynamic loss scaling (default: 65536 in f16, else no scaling)",
      MODELS, NUMBER, offsetof(Options, loss_scale), 1, 3e38, NULL },
    { "--scale-interval", "N", "steps without overflow after which the scale doubles (default 2000)",
      MODELS, INTEGER, offsetof(Options, scale_interval), 1, 1 << 30, NULL },
    { "--tf32", NULL, "GPU: f32 products with 10 bits of each factor, on tensor cores",
      MODELS, FLAG, offsetof(Options, tf32), 0, 0, NULL },
    { "--no-graph", NULL, "GPU: issue each step instead of replaying a captured one",
      MODELS, FLAG, offsetof(Options, no_graph), 0, 0, NULL },
    { "--no-pin", NULL, "GPU: host memory is not page-locked; copies are several times slower",
      MODELS, FLAG, offsetof(Options, no_pin), 0, 0, NULL },
    { "--budget", "SIZE", "most device memory: 6GiB, 512MiB, bytes, 40% of what is free to choose, or least",
      PLANS | CMD_SAMPLE, SIZE, offsetof(Options, budget), 0, 0, NULL },
    { "--host-budget", "SIZE", "most pinned host memory; 0: offload nothing",
      PLANS, SIZE, offsetof(Options, host_budget), 0, 0, NULL },
    { "--no-recompute", NULL, "recompute nothing: keep or offload",
      PLANS, FLAG, offsetof(Options, no_recompute), 0, 0, NULL },
    { "--policy", "NAME", "auto, keep, recompute, sqrt, offload or offload-inputs",
      PLANS, TEXT, offsetof(Options, policy), 0, 0, "auto keep recompute sqrt offload offload-inputs" },
    { "--force", "FATE:GLOB",
      "keep:, recompute: or offload: the activations whose names match; may be repeated",
      PLANS, FORCE, offsetof(Options, force), 0, 0, NULL },
    { "--profile", "FILE", "plan with these times instead of measuring; the word guess: estimate them",
      PLANS, TEXT, offsetof(Options, profile), 0, 0, NULL },
    { "--link", "GBPS", "cpu device, graph file: copies of this many 1e9 bytes/s each way",
      MODELS, NUMBER, offsetof(Options, link), 1e-6, 1e6, NULL },
    { "--plan", "FILE", "use this plan", PLANS, TEXT, offsetof(Options, plan), 0, 0, NULL },
    { "--dump", "FILE", "save the plan", PLANS, TEXT, offsetof(Options, dump), 0, 0, NULL },
    { "--trace", "FILE", "predicted timeline as a Chrome trace (opens in Perfetto)",
      CMD_PLAN, TEXT, offsetof(Options, trace), 0, 0, NULL },
    { "--trace", "FILE", "measured timeline of one step as a Chrome trace (opens in Perfetto)",
      CMD_TRAIN, TEXT, offsetof(Options, trace), 0, 0, NULL },
    { "--graph", "FILE", "write the graph of a micro-step with its costs, which --model reads",
      CMD_PLAN, TEXT, offsetof(Options, graph), 0, 0, NULL },
    { "--dot", "FILE", "write the graph of a micro-step and its fates for Graphviz",
      CMD_PLAN, TEXT, offsetof(Options, dot), 0, 0, NULL },
    { "--curve", "N", "plan for N budgets from the least to keeping everything: step time against budget",
      CMD_PLAN, INTEGER, offsetof(Options, curve), 2, 10000, NULL },
    { "--csv", "FILE", "write the curve as a table",
      CMD_PLAN, TEXT, offsetof(Options, csv), 0, 0, NULL },
    { "--list", NULL, "print the plan, one step a line",
      CMD_PLAN, FLAG, offsetof(Options, list), 0, 0, NULL },
    { "--data", "FILE", "text to learn from, or token files of llm.c (*.bin, also as a quoted pattern)",
      CMD_TRAIN, TEXT, offsetof(Options, data), 0, 0, NULL },
    { "--val-data", "FILE", "what to validate on, likewise; default: the last 10 % of --data",
      CMD_TRAIN, TEXT, offsetof(Options, val_data), 0, 0, NULL },
    { "--tokenizer", "DIR", "with encoder.json and vocab.bpe, or llama2.c's tokenizer.bin; default: bytes",
      CMD_TRAIN | CMD_SAMPLE, TEXT, offsetof(Options, tokenizer), 0, 0, NULL },
    { "--prompt", "TEXT", "the text to continue; default: begin one",
      CMD_SAMPLE, TEXT, offsetof(Options, prompt), 0, 0, NULL },
    { "--tokens", "N", "tokens to write at most (default 256)",
      CMD_SAMPLE, INTEGER, offsetof(Options, sample), 1, 1e7, NULL },
    { "--steps", "N", "updates (default 500)", CMD_TRAIN, INTEGER, offsetof(Options, steps), 1, 1e12, NULL },
    { "--lr", "X", "learning rate after warm-up (default 0.0003)",
      CMD_TRAIN, NUMBER, offsetof(Options, lr), 0, 1e6, NULL },
    { "--warmup", "N", "steps of linear warm-up (default: a twentieth of the steps)",
      CMD_TRAIN, INTEGER, offsetof(Options, warmup), 0, 1e12, NULL },
    { "--schedule", "KIND", "constant, linear or cosine (default) down to --min-lr",
      CMD_TRAIN, TEXT, offsetof(Options, schedule), 0, 0, "constant linear cosine" },
    { "--min-lr", "X", "learning rate at the last step (default: a tenth of --lr)",
      CMD_TRAIN, NUMBER, offsetof(Options, min_lr), 0, 1e6, NULL },
    { "--weight-decay", "X", "of AdamW, for matrices",
      CMD_TRAIN, NUMBER, offsetof(Options, weight_decay), 0, 1e3, NULL },
    { "--beta1", "X", "of AdamW", CMD_TRAIN, NUMBER, offsetof(Options, beta1), 0, 0.9999999, NULL },
    { "--beta2", "X", "of AdamW", CMD_TRAIN, NUMBER, offsetof(Options, beta2), 0, 0.9999999, NULL },
    { "--clip", "X", "largest global norm of the gradient; 0: no clipping",
      CMD_TRAIN, NUMBER, offsetof(Options, clip), 0, 1e9, NULL },
    { "--eval-every", "N", "validate every N steps; 0 (default): at the end only",
      CMD_TRAIN, INTEGER, offsetof(Options, eval_every), 0, 1e12, NULL },
    { "--eval-batches", "N", "batches of a validation (default 20)",
      CMD_TRAIN, INTEGER, offsetof(Options, eval_batches), 1, 1e9, NULL },
    { "--seed", "N", "of weights, data order, dropout and sampling (default 0)",
      PLANS | CMD_SAMPLE, INTEGER, offsetof(Options, seed), 0, 9e15, NULL },
    { "--verify", NULL, "also run step 1 keeping everything and compare all gradients bit by bit",
      CMD_TRAIN, FLAG, offsetof(Options, verify), 0, 0, NULL },
    { "--metrics", "FILE", "one JSON line a step", CMD_TRAIN, TEXT, offsetof(Options, metrics), 0, 0, NULL },
    { "--export", "DIR", "save config.json and model.safetensors at the end, as transformers reads them",
      CMD_TRAIN, TEXT, offsetof(Options, export_folder), 0, 0, NULL },
    { "--sample", "N", "print a text of N tokens at the end",
      CMD_TRAIN, INTEGER, offsetof(Options, sample), 0, 1e7, NULL },
    { "--sample-every", "N", "print a sample every N steps too",
      CMD_TRAIN, INTEGER, offsetof(Options, sample_every), 0, 1e12, NULL },
    { "--temperature", "X", "of sampling (default 0.8); 0: always the likeliest token",
      CMD_TRAIN | CMD_SAMPLE, NUMBER, offsetof(Options, temperature), 0, 100, NULL },
    { "--top-p", "P", "sample from the likeliest tokens that have this share (default 1: from all)",
      CMD_TRAIN | CMD_SAMPLE, NUMBER, offsetof(Options, top_p), 0, 1, NULL },
    { "--capacity", "SIZE", "bytes (or units of the file) that the buffers must fit",
      CMD_PLACE, SIZE, offsetof(Options, capacity), 0, 0, NULL },
    { "--seconds", "S", "search at most this long (default 1)",
      CMD_PLACE, NUMBER, offsetof(Options, seconds), 0, 1e6, NULL },
    { "-o", "FILE", "write the input's columns and an offset",
      CMD_PLACE, TEXT, offsetof(Options, output), 0, 0, NULL },
    { "-o", "FILE", "add to this profile, for planning elsewhere; default: print a table",
      CMD_PROFILE, TEXT, offsetof(Options, output), 0, 0, NULL },
    { "--quiet", NULL, "no progress", ALL, FLAG, offsetof(Options, quiet), 0, 0, NULL },
    { "--json", NULL, "one JSON document on stdout, progress on stderr",
      ALL, FLAG, offsetof(Options, json), 0, 0, NULL },
    { "--help", NULL, "this text", ALL, FLAG, offsetof(Options, help), 0, 0, NULL },
};
// clang-format on
enum { N_OPTIONS = sizeof options / sizeof *options };

static const struct {
    Command command;
    const char *name, *usage, *what;
    int operands; /* words that are no options */
} commands[] = {
    { CMD_TRAIN, "train", "tide train --model NAME --data FILE [options]", "Train a model inside a budget.",
      0 },
    { CMD_PLAN, "plan", "tide plan --model NAME [options]", "Make a plan, print it, save it; no training.",
      0 },
    { CMD_PROFILE, "profile", "tide profile --model NAME [-o FILE] [options]",
      "Time the operations of a model and the copies of a device.", 0 },
    { CMD_EXPLAIN, "explain", "tide explain PLAN TENSOR [--json]",
      "Say why a saved plan keeps, recomputes or offloads a tensor, and what would change it.", 2 },
    { CMD_DIFF, "diff", "tide diff A B [--json]", "Say what two saved plans decide differently.", 2 },
    { CMD_PLACE, "place", "tide place buffers.csv --capacity N [options]",
      "Give a list of buffers (columns id, lower, upper, size) offsets that do not overlap.", 1 },
    { CMD_SAMPLE, "sample", "tide sample --model NAME [--prompt TEXT] [options]",
      "Write a text, or continue one, with a model.", 0 },
    { CMD_DEVICES, "devices", "tide devices [options]", "Say what this machine offers.", 0 },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

const char *command_name(Command command)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].command == command) return commands[i].name;
    return "";
}

int refuse(const Options *o, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "tide %s: ", command_name(o->command));
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return EXIT_BAD_INPUT;
}

int check_writable(const Options *o, const char *option, const char *path)
{
    if (!path) return EXIT_DONE;
    bool there = access(path, F_OK) == 0;
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return refuse(o, "%s %s cannot be written: %s", option, path, strerror(errno));
    close(file);
    if (!there) unlink(path);
    return EXIT_DONE;
}

/* ---- values ----------------------------------------------------------------- */

static int refuse_unknown(const Options *o, const char *word)
{
    const char *names[N_OPTIONS];
    int n = 0;

    for (int i = 0; i < N_OPTIONS; i++)
        if (options[i].commands & o->command) names[n++] = options[i].name;
    for (int i = 0; i < N_OPTIONS; i++)
        for (int c = 0; c < N_COMMANDS; c++)
            if (!strcmp(options[i].name, word) && (options[i].commands & commands[c].command))
                return refuse(o, "%s is an option of tide %s, not of tide %s", word, commands[c].name,
                              command_name(o->command));
    const char *near = nearest_name(word, names, n);
    if (near) return refuse(o, "unknown option %s; did you mean %s?", word, near);
    return refuse(o, "unknown option %s; tide %s --help lists all", word, command_name(o->command));
}

/* ---- values ----------------------------------------------------------------- */

/* Read "6GiB", "6GB", "512MiB", "40%", "least" or bytes. False if it is none of them. */
static bool size_parse(const char *text, Size *out)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {
        { "", 1 },      { "B", 1 },        { "KB", 1e3 },        { "MB", 1e6 },     { "GB", 1e9 },
        { "TB", 1e12 }, { "KiB", 1024.0 }, { "MiB", 1048576.0 }, { "GiB", 0x1p30 }, { "TiB", 0x1p40 },
    };
    char *end;
    double value;

    *out = (Size){ .text = text };
    if (!strcmp(text, "least")) return out->kind = SIZE_LEAST, true;
    if (!isdigit((unsigned char)*text) && *text != '.') return false; /* strtod would take "nan", "-1" */
    value = strtod(text, &end);
    if (!isfinite(value) || end == text) return false;
    if (!strcmp(end, "%")) {
        if (value > 1e6) return false; /* so that bytes times percent stay countable */
        out->kind = SIZE_PERCENT;
        out->percent = value;
        return true;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(end, units[i].name) && value * units[i].bytes < 0x1p62) {
            out->kind = SIZE_BYTES;
            out->bytes = (size_t)(value * units[i].bytes);
            return true;
        }
    return false;
}

static bool is_choice(const char *choices, const char *word)
{
    size_t n = strlen(word);

    if (strchr(word, ' ')) return false; /* several of them in one word */
    for (const char *at = choices; n && (at = strstr(at, word)); at += n)
        if ((at == choices || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static int set_number(const Option *option, const char *text, Options *o)
{
    bool whole = option->kind == INTEGER || option->kind == BATCH;
    char *end = NULL;
    int64_t integer = 0;
    double number;

    errno = 0;
    if (whole) integer = strtoll(text, &end, 10);
    number = whole ? (double)integer : strtod(text, &end);
    if (end == text || *end || errno || !isfinite(number))
        return refuse(o, "%s %s: not a %s", option->name, text, whole ? "whole number" : "number");
    if (number < option->least || number > option->most)
        return refuse(o, "%s %s is outside %.*g to %.*g", option->name, text, 12, option->least, 12,
                      option->most);
    if (whole)
        memcpy((char *)o + option->offset, &integer, sizeof integer);
    else
        memcpy((char *)o + option->offset, &number, sizeof number);
    return EXIT_DONE;
}

static int set_size(const Option *option, const char *text, Options *o)
{
    Size size;

    if (!size_parse(text, &size))
        return refuse(o, "%s %s: not a size; examples: 6GiB, 6GB, 512MiB, 1048576%s", option->name, text,
                      option->offset == offsetof(Options, budget) ? ", 40%, least" : "");
    if (size.kind != SIZE_BYTES && option->offset != offsetof(Options, budget))
        return refuse(o, "%s %s: takes bytes, such as 512MiB", option->name, text);
    if (size.kind == SIZE_BYTES && !size.bytes && option->offset == offsetof(Options, budget))
        return refuse(o, "%s %s: nothing can be trained in 0 bytes; `%s least` finds the least", option->name,
                      text, option->name);
    memcpy((char *)o + option->offset, &size, sizeof size);
    return EXIT_DONE;
}

static int set_batch(const Option *option, const char *text, Options *o)
{
    o->batch_auto = !strcmp(text, "auto");
    if (!o->batch_auto) return set_number(option, text, o);
    if (o->command & PLANS) return EXIT_DONE;
    return refuse(o, "--batch auto is for commands with a budget; tide %s has none",
                  command_name(o->command));
}

static int set_force(const char *text, Options *o)
{
    const char *colon = strchr(text, ':');

    if (!colon || !colon[1]) return refuse(o, "--force %s: write FATE:GLOB, such as offload:block*/fc", text);
    if (strncmp(text, "keep:", 5) && strncmp(text, "recompute:", 10) && strncmp(text, "offload:", 8))
        return refuse(o, "--force %s: the fate is %.*s, but must be keep, recompute or offload", text,
                      (int)(colon - text), text);
    if (o->n_forces == MAX_FORCES) return refuse(o, "more than %d times --force", MAX_FORCES);
    o->force[o->n_forces++] = text;
    return EXIT_DONE;
}

static int set_text(const Option *option, const char *text, Options *o)
{
    if (!*text) return refuse(o, "%s is empty", option->name);
    if (option->choices && !is_choice(option->choices, text))
        return refuse(o, "%s %s: must be one of: %s", option->name, text, option->choices);
    memcpy((char *)o + option->offset, &text, sizeof text);
    return EXIT_DONE;
}

static int set_value(const Option *option, const char *text, Options *o)
{
    switch (option->kind) {
    case FLAG: *((bool *)((char *)o + option->offset)) = true; return EXIT_DONE;
    case INTEGER:
    case NUMBER: return set_number(option, text, o);
    case TEXT: return set_text(option, text, o);
    case SIZE: return set_size(option, text, o);
    case BATCH: return set_batch(option, text, o);
    case FORCE: return set_force(text, o);
    }
    return EXIT_DONE;
}

/* ---- the line ------------------------------------------------------------------ */

static const Option *find_option(Command command, const char *word, size_t length)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if ((options[i].commands & command) && strlen(options[i].name) == length &&
            !strncmp(options[i].name, word, length))
            return &options[i];
    return NULL;
}

/* Take the option at argv[*i] and its value, which may stand behind '=' or in the next word. */
static int take_option(int argc, char **argv, int *i, Options *o)
{
    const char *word = argv[*i], *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const Option *option = find_option(o->command, word, length);
    const char *value = equals ? equals + 1 : NULL;
    char name[LONGEST_NAME];

    if (!option) {
        snprintf(name, sizeof name, "%.*s", (int)length, word);
        return refuse_unknown(o, name);
    }
    if (option->kind == FLAG && value) return refuse(o, "%s takes no value", option->name);
    if (option->kind != FLAG && !value) {
        if (*i + 1 >= argc) return refuse(o, "%s needs a value: %s", option->name, option->value);
        value = argv[++*i];
    }
    return set_value(option, value, o);
}

static Options defaults(Command command)
{
    return (Options){ .command = command,
                      .dropout = -1,
                      .attn_dropout = -1,
                      .steps = 500,
                      .lr = 3e-4,
                      .warmup = -1,
                      .min_lr = -1,
                      .weight_decay = -1,
                      .beta1 = -1,
                      .beta2 = -1,
                      .clip = -1,
                      .eval_batches = 20,
                      .temperature = 0.8,
                      .top_p = 1,
                      .seconds = 1,
                      .schedule = "cosine" };
}

/* Take a word that is no option. */
static int take_operand(const char *word, Options *o)
{
    int most = 0;

    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].command == o->command) most = commands[i].operands;
    if (!most) return refuse(o, "'%s' is no option; options begin with --", word);
    if (!o->operand) return o->operand = word, EXIT_DONE;
    if (most == 1) return refuse(o, "one file at a time, not %s and %s", o->operand, word);
    if (o->operand2)
        return refuse(o, "'%s' is one word too many after %s and %s", word, o->operand, o->operand2);
    o->operand2 = word;
    return EXIT_DONE;
}

int options_parse(Command command, int argc, char **argv, Options *out)
{
    int rc = EXIT_DONE;

    *out = defaults(command);
    for (int i = 0; i < argc && !rc; i++) {
        if (argv[i][0] == '-' && argv[i][1])
            rc = take_option(argc, argv, &i, out);
        else
            rc = take_operand(argv[i], out);
    }
    return rc;
}

void options_help(Command command)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].command == command) printf("%s\n\n%s\n\n", commands[i].usage, commands[i].what);
    for (int i = 0; i < N_OPTIONS; i++) {
        char left[LONGEST_NAME];
        if (!(options[i].commands & command)) continue;
        snprintf(left, sizeof left, "%s %s", options[i].name, options[i].value ? options[i].value : "");
        printf("  %-24s %s\n", left, options[i].help);
    }
}
