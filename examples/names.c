/* names.c - names that resemble each other, so that a mistyped one can be guessed. */
#include <string.h>
#include "examples/options.h"

/* Letters to insert, delete or replace to turn a into b (Levenshtein). */
static int edit_distance(const char *a, const char *b)
{
    int row[LONGEST_NAME + 1];
    size_t n = strlen(b);

    if (n > LONGEST_NAME || strlen(a) > LONGEST_NAME) return LONGEST_NAME;
    for (size_t j = 0; j <= n; j++) row[j] = (int)j;
    for (size_t i = 0; a[i]; i++) {
        int corner = row[0];
        row[0] = (int)i + 1;
        for (size_t j = 0; j < n; j++) {
            int best = corner + (a[i] != b[j]);
            corner = row[j + 1];
            if (best > row[j] + 1) best = row[j] + 1;
            if (best > corner + 1) best = corner + 1;
            row[j + 1] = best;
        }
    }
    return row[n];
}

const char *nearest_name(const char *word, const char *const *names, int n)
{
    const char *nearest = NULL;
    int best = (int)strlen(word) / 3 + 2;

    for (int i = 0; i < n; i++) {
        int d = edit_distance(word, names[i]);
        if (d < best) best = d, nearest = names[i];
    }
    return nearest;
}
