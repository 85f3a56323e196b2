#!/usr/bin/env bash
# budgets.sh - the table of the README: one model trained under several budgets.
#
#   examples/budgets.sh TEXT [options that tide plan and tide train share]
#
# Needs a built program (examples/quickstart.sh builds it).
set -euo pipefail
tide=$(dirname "$0")/../build/tide
[ $# -gt 0 ] || { echo "usage: examples/budgets.sh TEXT [options that tide plan and tide train share]" >&2; exit 2; }
text=$1
shift

# One number or word of a JSON document.
field() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" <<<"$1" | head -1; }
# The number of tensors with a fate.
tensors() { tr -d ' \n' <<<"$1" | sed -n "s/.*\"$2\":{\"tensors\":\([0-9]*\).*/\1/p"; }
mib() { awk -v b="$1" 'BEGIN { printf "%.1f MiB", b / 1048576 }'; }

echo "| budget | device memory | step | kept | recomputed | offloaded | weights after 30 steps |"
echo "|---|---|---|---|---|---|---|"
for budget in 100% 60% 40% 20% least; do
    plan=$(mktemp)
    run=$("$tide" train --model gpt-char --data "$text" --budget $budget --steps 30 --quiet --json --dump "$plan" "$@")
    made=$("$tide" plan --model gpt-char --plan "$plan" --json "$@")
    rm -f "$plan"
    echo "| $budget = $(mib "$(field "$run" budget_bytes)") | $(mib "$(field "$run" arena_bytes)")" \
        "| $(awk -v s="$(field "$run" step_seconds)" 'BEGIN { printf "%.1f ms", s * 1000 }')" \
        "| $(tensors "$made" kept) | $(tensors "$made" recomputed) | $(tensors "$made" offloaded)" \
        "| \`$(field "$run" weights_hash)\` |"
done
