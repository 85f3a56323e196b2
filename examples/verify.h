/* verify.h - run the first step under the roomiest plan there is, to compare every gradient with it. */
#ifndef TIDE_EXAMPLES_VERIFY_H
#define TIDE_EXAMPLES_VERIFY_H
#include "examples/trainer.h"

/* The gradients of step 1 under keep-everything if that fits what is free, else under the roomiest
 * plan that does. The caller frees *bytes; *policy is the name of what was used. */
TideStatus verify_reference(Session *s, const Text *text, unsigned char **bytes, const char **policy);
/* Compare the gradients of the newest step with those, bit by bit. EXIT_DIFFERENT after a message that
 * names the first parameter and element that differ, and both values; EXIT_WORLD if they cannot be read. */
int verify_compare(Trainer *t, const unsigned char *reference, const char *policy);

#endif
