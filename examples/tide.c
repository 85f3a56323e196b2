/* tide.c - the program: finds the command and hands it its options. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "examples/commands.h"
#include "models/model.h"

static const struct {
    Command command;
    int (*run)(const Options *o);
} commands[] = {
    { CMD_TRAIN, cmd_train }, { CMD_PLAN, cmd_plan },       { CMD_PROFILE, cmd_profile },
    { CMD_PLACE, cmd_place }, { CMD_DEVICES, cmd_devices }, { CMD_EXPLAIN, cmd_explain },
    { CMD_DIFF, cmd_diff },   { CMD_SAMPLE, cmd_sample },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *to)
{
    fprintf(to,
            "usage: tide COMMAND [options]\n\n"
            "  train    train a model inside a budget of device memory\n"
            "  plan     make a plan, print it, save it; no training\n"
            "  explain  why a plan keeps, recomputes or offloads a tensor\n"
            "  diff     what two plans decide differently\n"
            "  profile  time the operations of a model and the copies of a device\n"
            "  sample   write or continue a text\n"
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
    fprintf(stderr,
            "tide: there is no command '%s'%s%s%s The commands are train, plan, explain, diff, profile, "
            "sample, place and devices.\n",
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

static int dispatch(int argc, char **argv)
{
    if (argc < 2) return print_usage(stderr), EXIT_BAD_INPUT;
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return print_usage(stdout), EXIT_DONE;
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(argv[1], command_name(commands[i].command))) return run_command(i, argc - 2, argv + 2);
    return refuse_command(argv[1]);
}

/* Where a standard stream is closed, the next file to be opened would take its number, and with it what
 * is printed. Standard output stays one that cannot be written, so that its loss is noticed. */
static void hold_streams(void)
{
    static const int modes[] = { O_RDONLY, O_RDONLY, O_WRONLY };

    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd) _exit(EXIT_WORLD);
}

/* What was printed must have arrived, or else the run failed however well it went. */
static int flush_output(int rc)
{
    bool lost = ferror(stdout) != 0;

    errno = 0;
    if (!fflush(stdout) && !lost) return rc;
    if (rc) return rc; /* and said why */
    fprintf(stderr, "tide: standard output cannot be written%s%s; give it a file or pipe with room\n",
            errno ? ": " : "", errno ? strerror(errno) : "");
    return EXIT_WORLD;
}

int main(int argc, char **argv)
{
    hold_streams();
    return flush_output(dispatch(argc, argv));
}
