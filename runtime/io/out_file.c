/* out_file.c - write beside the file, then put it in its place. */
#define _DEFAULT_SOURCE /* realpath */
#include "runtime/io/out_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *temporary_name(const char *path)
{
    size_t size = strlen(path) + 32;
    char *name = malloc(size);

    if (name) snprintf(name, size, "%s.%ld.tmp", path, (long)getpid());
    return name;
}

/* NULL: to be written in place. A file that is replaced hands its permissions on. */
static FILE *open_beside(OutFile *f)
{
    struct stat facts;
    bool there = stat(f->path, &facts) == 0;

    if (there && !S_ISREG(facts.st_mode)) return NULL;
    f->temporary = temporary_name(f->path);
    FILE *to = f->temporary ? fopen(f->temporary, "wb") : NULL;
    if (to && there) fchmod(fileno(to), facts.st_mode & 07777);
    if (to) return to;
    free(f->temporary);
    f->temporary = NULL;
    return NULL;
}

bool out_file_open(OutFile *f, const char *path)
{
    char *whole = realpath(path, NULL); /* behind links, so that they stay; NULL: it does not exist yet */

    *f = (OutFile){ .path = whole ? whole : strdup(path) };
    if (!f->path) return false;
    f->to = open_beside(f);
    if (!f->to) f->to = fopen(f->path, "wb");
    if (f->to) return true;
    free(f->path);
    return false;
}

bool out_file_close(OutFile *f)
{
    bool ok = fflush(f->to) == 0 && !ferror(f->to);
    int error = ok || errno ? errno : EIO;

    if (fclose(f->to) && ok) ok = false, error = errno;
    if (ok && f->temporary && rename(f->temporary, f->path)) ok = false, error = errno;
    if (!ok && f->temporary) unlink(f->temporary);
    free(f->temporary);
    free(f->path);
    errno = error;
    return ok;
}

void out_file_discard(OutFile *f)
{
    int error = errno;

    fclose(f->to);
    if (f->temporary) unlink(f->temporary);
    free(f->temporary);
    free(f->path);
    errno = error;
}
