#!/usr/bin/env bash
# check_size.sh - files, functions and lines within their limits; then the lines of every folder.
#
# A function begins at a line that starts with a letter, holds "(" and is no statement, and whose "{"
# stands alone in the first column (or closes the line, for one-liners and CUDA); it ends at the next "}" in the
# first column. Exceptions are listed with a reason.
set -euo pipefail
cd "$(dirname "$0")/.."

file_lines=500 function_lines=60 kernel_lines=120 columns=110

# FILE LIMIT REASON: files that may be longer.
exceptions() {
    cat <<'EXCEPTIONS'
EXCEPTIONS
}

# List the files of ours: sources, not what git ignores.
sources() {
    find runtime kernels models examples tests -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' | sort
}

# longest FILE: "LINES LINE NAME" of every function with more than $2 lines.
long_functions() {
    awk -v most="$2" '
        /^[A-Za-z_].*[()]/ && !/;[[:space:]]*$/ && !/^(typedef|enum|struct|union|#)/ { name = $0; head = NR }
        /^\{/ && head { body = head }
        /^[A-Za-z_].*\)[[:space:]]*\{[[:space:]]*$/ { body = NR; name = $0 }
        /^\}/ {
            if (body && NR - body + 1 > most) {
                sub(/\(.*/, "", name)
                print NR - body + 1, body, name
            }
            body = head = 0
        }' "$1"
}

bad=0
while read -r file; do
    lines=$(wc -l <"$file")
    limit=$(exceptions | awk -v f="$file" '$1 == f { print $2 }')
    if [ "$lines" -gt "${limit:-$file_lines}" ]; then
        echo "$file: $lines lines, at most ${limit:-$file_lines}"
        bad=$((bad + 1))
    fi
    most=$function_lines
    case $file in kernels/cpu/* | kernels/cuda/*) most=$kernel_lines ;; esac
    while read -r length line name; do
        echo "$file:$line: $name is $length lines, at most $most"
        bad=$((bad + 1))
    done < <(long_functions "$file" "$most")
    case $file in *.def) continue ;; esac # a table: one row a line
    while read -r line; do
        echo "$file:$line: more than $columns columns"
        bad=$((bad + 1))
    done < <(awk -v most="$columns" 'length($0) > most { print FNR }' "$file")
done < <(sources)

echo "lines  folder"
sources | while read -r file; do
    echo "$(wc -l <"$file") $(dirname "$file")"
done | awk '{ sum[$2] += $1; all += $1 } END { for (d in sum) printf "%5d  %s\n", sum[d], d; printf "%5d  zz all\n", all }' |
    sort -k2 | sed 's/zz all/all/'

echo "$bad over their limits"
[ "$bad" -eq 0 ]
