/* tide.c - the program: finds the command and hands it its options. */
#include <stdio.h>
#include <string.h>
#include "examples/commands.h"
#include "models/model.h"

static const struct {
    Command command;
    int (*run)(const Options *o);
} commands[] = {
    { CMD_TRAIN, cmd_train }, { CMD_PLAN, cmd_plan },       { CMD_PROFILE, cmd_profile },
    { CMD_PLACE, cmd_place }, { CMD_DEVICES, cmd_devices },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *to)
{
    fprintf(to,
            "usage: tide COMMAND [options]\n\n"
            "  train    train a model inside a budget of device memory\n"
            "  plan     make a plan, print it, save it; no training\n"
            "  profile  time the operations of a model and the copies of a device\n"
            "  place    give a list of buffers their offsets\n"
            "  devices  what this machine offers\n\n"
            "`tide COMMAND --help` lists the options of a command.\n"
            "Exit: 0 done; 1 failure of the world during the run; 2 bad input or usage, found before the\n"
            "first step; 3 no plan fits the budget; 4 the run went non-finite; 5 --verify found a\n"
            "difference; 130 interrupted.\n");
}

static int refuse_command(const char *word)
{
    const char *names[N_COMMANDS], *near;

    for (int i = 0; i < N_COMMANDS; i++) names[i] = command_name(commands[i].command);
    near = nearest_name(word, names, N_COMMANDS);
    fprintf(
        stderr,
        "tide: there is no command '%s'%s%s%s The commands are train, plan, profile, place and devices.\n",
        word, near ? "; did you mean " : ".", near ? near : "", near ? "?" : "");
    return EXIT_BAD_INPUT;
}

static int list_models(void)
{
    for (int i = 0; model_preset_name(i); i++) puts(model_preset_name(i));
    return EXIT_DONE;
}

static int run_command(int i, int argc, char **argv)
{
    Options o;
    int rc = options_parse(commands[i].command, argc, argv, &o);

    if (rc) return rc;
    if (o.help) return options_help(o.command), EXIT_DONE;
    if (o.model && !strcmp(o.model, "list")) return list_models();
    return commands[i].run(&o);
}

int main(int argc, char **argv)
{
    if (argc < 2) return print_usage(stderr), EXIT_BAD_INPUT;
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return print_usage(stdout), EXIT_DONE;
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(argv[1], command_name(commands[i].command))) return run_command(i, argc - 2, argv + 2);
    return refuse_command(argv[1]);
}
