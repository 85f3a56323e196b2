/* commands.h - one function a command; each returns the program's exit code. */
#ifndef TIDE_EXAMPLES_COMMANDS_H
#define TIDE_EXAMPLES_COMMANDS_H
#include "examples/options.h"

int cmd_train(const Options *o);
int cmd_plan(const Options *o);
int cmd_explain(const Options *o);
int cmd_diff(const Options *o);
int cmd_profile(const Options *o);
int cmd_sample(const Options *o);
int cmd_place(const Options *o);
int cmd_devices(const Options *o);

#endif
