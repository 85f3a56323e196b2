/* unicode.c - characters of UTF-8 and their classes. */
#include "models/text/unicode.h"
#include <stdbool.h>

static bool in_ranges(const CharRange *ranges, int n, uint32_t code)
{
    int low = 0, high = n;

    while (low < high) {
        int middle = (low + high) / 2;
        if (code > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && code >= ranges[low].first;
}

static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

CharClass char_class(uint32_t c)
{
    if (c < 128) {
        if ((c | 32) >= 'a' && (c | 32) <= 'z') return CHAR_LETTER;
        if (c >= '0' && c <= '9') return CHAR_NUMBER;
        return is_space(c) ? CHAR_SPACE : CHAR_OTHER;
    }
    if (is_space(c)) return CHAR_SPACE;
    if (in_ranges(unicode_letters, unicode_letters_n, c)) return CHAR_LETTER;
    return in_ranges(unicode_numbers, unicode_numbers_n, c) ? CHAR_NUMBER : CHAR_OTHER;
}

uint32_t char_next(const unsigned char *s, size_t n, size_t *bytes)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t length = s[0] < 0x80   ? 1
                    : s[0] < 0xC2 ? 0
                    : s[0] < 0xE0 ? 2
                    : s[0] < 0xF0 ? 3
                    : s[0] < 0xF5 ? 4
                                  : 0;
    uint32_t c = length > 1 ? s[0] & (0x7Fu >> length) : s[0];

    *bytes = 1;
    if (!length || length > n) return 0xFFFD;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0xFFFD;
        c = c << 6 | (s[i] & 0x3F);
    }
    if (c < least[length] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return 0xFFFD;
    *bytes = length;
    return c;
}
