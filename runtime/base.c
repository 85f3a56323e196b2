/* base.c - numbers for people. */
#include "runtime/base.h"

#include <stdio.h>

char *bytes_text(size_t bytes, char text[BYTES_TEXT])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)bytes;
    int unit = 0;

    for (; value >= 1024; unit++) value /= 1024; /* SIZE_MAX is 16 EiB */
    snprintf(text, BYTES_TEXT, "%.*f %s", unit ? 2 : 0, value, units[unit]);
    return text;
}
