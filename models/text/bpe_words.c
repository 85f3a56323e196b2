/* bpe_words.c - where GPT-2 cuts a text into words, which are then merged each for itself.
 *
 * The rule is a regular expression, whose alternatives are tried in this order:
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * The last but one takes spaces that no word follows, so it leaves the last space before a word to that word.
 */
#include <string.h>
#include "models/text/bpe.h"
#include "models/text/unicode.h"

/* Bytes of the contraction at the start; 0: there is none. */
static size_t contraction(const unsigned char *s, size_t n)
{
    static const char *const endings[] = { "'s", "'t", "'re", "'ve", "'m", "'ll", "'d" };

    if (s[0] != '\'') return 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(endings[i]);
        if (length <= n && !memcmp(s, endings[i], length)) return length;
    }
    return 0;
}

static CharClass class_at(const unsigned char *s, size_t n, size_t *bytes)
{
    if (s[0] >= 128) return char_class(char_next(s, n, bytes));
    *bytes = 1;
    return char_class(s[0]);
}

/* Bytes of the run of one class that begins at `at`. */
static size_t run_end(const unsigned char *s, size_t n, size_t at, CharClass class)
{
    size_t bytes;

    while (at < n && class_at(s + at, n - at, &bytes) == class) at += bytes;
    return at;
}

/* Spaces: all of them at the end of the text, else all but the last, which is at least one. */
static size_t spaces(const unsigned char *s, size_t n)
{
    size_t at = 0, before = 0, bytes;

    while (at < n && class_at(s + at, n - at, &bytes) == CHAR_SPACE) {
        before = at;
        at += bytes;
    }
    return at < n && before > 0 ? before : at;
}

size_t bpe_word(const unsigned char *s, size_t n)
{
    size_t length = contraction(s, n), bytes, start = s[0] == ' ';

    if (length) return length;
    if (start < n) {
        CharClass class = class_at(s + start, n - start, &bytes);
        if (class != CHAR_SPACE) return run_end(s, n, start, class);
    }
    return spaces(s, n);
}
