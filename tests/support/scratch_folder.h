/* scratch_folder.h - a folder of a test's own below /tmp, gone with all that is in it when the test ends. */
#ifndef TIDE_TEST_SCRATCH_FOLDER_H
#define TIDE_TEST_SCRATCH_FOLDER_H

/* Make the folder; init and fini of a test suite, or at the start and the end of a test. One at a time. */
void scratch_folder_make(void);
void scratch_folder_remove(void);

const char *scratch_folder(void);
/* The path of a name in it. Valid for the next 15 calls. */
const char *in_folder(const char *name);

#endif
