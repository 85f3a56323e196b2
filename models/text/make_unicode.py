#!/usr/bin/env python3
"""Writes unicode_tables.c: the ranges of letters (L*) and numbers (N*) of Unicode.

Usage: make_unicode.py > unicode_tables.c. The characters are those of the version of Unicode that the Python
at hand knows.
"""
import sys
import unicodedata


def ranges(category):
    """[first, last] of every run of characters whose general category begins with a letter."""
    runs = []
    for code in range(0x110000):
        if not unicodedata.category(chr(code)).startswith(category):
            continue
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return runs


def table(name, runs):
    lines, line = [], "   "
    for first, last in runs:
        item = " { 0x%X, 0x%X }," % (first, last)
        if len(line) + len(item) > 108:
            lines.append(line)
            line = "   "
        line += item
    lines.append(line)
    print("const CharRange %s[] = {\n%s\n};" % (name, "\n".join(lines)))
    print("const int %s_n = sizeof %s / sizeof *%s;\n" % (name, name, name))


print("/* unicode_tables.c - letters and numbers of Unicode %s, by make_unicode.py; do not edit. */"
      % unicodedata.unidata_version)
print('#include "models/text/unicode.h"\n')
print("// clang-format off")
table("unicode_letters", ranges("L"))
table("unicode_numbers", ranges("N"))
print("// clang-format on", file=sys.stdout)
