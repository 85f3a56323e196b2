/* scratch_folder.c - a folder of a test's own below /tmp. */
#define _DEFAULT_SOURCE /* mkdtemp */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/support/scratch_folder.h"

enum { PATHS = 16, PATH_BYTES = 256 };

static char folder[32];

void scratch_folder_make(void)
{
    strcpy(folder, "/tmp/tide-test-XXXXXX");
    cr_assert(mkdtemp(folder), "no folder can be made in /tmp");
}

void scratch_folder_remove(void)
{
    char command[64];

    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}

const char *scratch_folder(void)
{
    return folder;
}

const char *in_folder(const char *name)
{
    static char path[PATHS][PATH_BYTES];
    static int turn;

    turn = (turn + 1) % PATHS;
    int n = snprintf(path[turn], PATH_BYTES, "%s/%s", folder, name);
    cr_assert(n < PATH_BYTES, "%s is too long a name", name);
    return path[turn];
}
